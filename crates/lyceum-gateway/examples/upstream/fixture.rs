//! The server the gateway's tests put behind the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lyceum_server::{
    Ask, Call, LogLevel, NoArguments, Resource, Sampling, Server, ToolError, Variables, prompt,
    template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Counts itself while it lives, and when it is dropped unfinished.
struct Witness(Arc<Counts>);

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server with one of each thing that passes through a gateway.
pub(crate) fn server() -> Server {
    let counts = Arc::new(Counts::default());
    let waiting = Arc::clone(&counts);
    let wait = move |_: Call, _: NoArguments| {
        waiting.waiting.fetch_add(1, Ordering::SeqCst);
        let witness = Witness(Arc::clone(&waiting));
        async move {
            std::future::pending::<()>().await;
            drop(witness);
            Ok("never")
        }
    };
    let counted = move |_: Call, _: NoArguments| {
        let told = format!(
            "{} waiting, {} cancelled",
            counts.waiting.load(Ordering::SeqCst),
            counts.cancelled.load(Ordering::SeqCst)
        );
        async move { Ok(told) }
    };
    Server::builder("fixture", "1.0")
        .tool(
            tool("echo", "Repeats.", |_: Call, args: Text| async move { Ok(args.text) })
                .read_only(),
        )
        .tool(tool(
            "tell",
            "Repeats, ahead of the result too.",
            |cx: Call, args: Text| async move {
                cx.progress_message(1.0, None, &args.text).await;
                cx.log(LogLevel::Error, "fixture", &args.text).await;
                Ok(args.text)
            },
        ))
        .tool(tool("work", "Reports progress and logs.", work))
        .tool(tool("fail", "Fails.", |_: Call, _: NoArguments| async {
            Err::<String, _>(ToolError::new("it failed"))
        }))
        .tool(tool("ask", "Asks for a name.", |cx: Call, _: NoArguments| async move {
            let Name { name } = cx.elicit("name", "Who are you?").await?;
            Ok(format!("Hello, {name}!"))
        }))
        .tool(tool("ask_twice", "Asks for two names.", |cx: Call, _: NoArguments| async move {
            let Name { name: first } = cx.elicit("first", "First?").await?;
            let Name { name: second } = cx.elicit("second", "Second?").await?;
            Ok(format!("{first} and {second}"))
        }))
        .tool(tool("ask_both", "Asks for two names at once.", ask_both))
        .tool(tool("ask_all", "Asks for three things at once.", ask_all))
        .tool(tool("think", "Asks a model.", |cx: Call, _: NoArguments| async move {
            let sampled = cx.sample("thought", Sampling::new("Think.", 10)).await?;
            Ok(format!("thought: {}", sampled.text()))
        }))
        .tool(tool("look", "Asks for roots.", |cx: Call, _: NoArguments| async move {
            Ok(format!("{} roots", cx.list_roots("roots").await?.len()))
        }))
        .tool(tool("ask_late", "Asks after a while.", |cx: Call, _: NoArguments| async move {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let Name { name } = cx.elicit("name", "Who are you?").await?;
            Ok(format!("Hello, {name}!"))
        }))
        .tool(tool("ask_and_wait", "Asks, then waits for ever.", ask_and_wait))
        .tool(tool("long", "Takes its time.", long).task())
        .tool(tool("long_only", "Is nothing but a task.", long).task_required())
        .tool(
            tool(
                "long_ask",
                "Asks while it takes its time.",
                |cx: Call, _: NoArguments| async move {
                    let Name { name } = cx.elicit("name", "Who are you?").await?;
                    Ok(format!("Hello, {name}!"))
                },
            )
            .task(),
        )
        .tool(tool("long_ask_both", "Asks for two names while it takes its time.", ask_both).task())
        .tool(
            tool("long_fail", "Takes its time to fail.", |_: Call, _: NoArguments| async {
                Err::<String, _>(ToolError::new("it failed"))
            })
            .task(),
        )
        .tool(tool("long_wait", "Takes for ever.", wait.clone()).task())
        .tool(tool("wait_only", "Is a task for ever.", wait.clone()).task_required())
        .tool(tool("wait", "Waits for ever.", wait))
        .tool(tool("counts", "Tells what waits.", counted))
        .tool(tool("touch", "Changes a resource.", |cx: Call, _: NoArguments| async move {
            cx.server().resource_updated("fixture://watched");
            Ok("touched")
        }))
        .tool(tool("change", "Changes any resource.", |cx: Call, args: Text| async move {
            cx.server().resource_updated(&args.text);
            Ok(args.text)
        }))
        .tool(tool("grow", "Adds one of each kind.", |cx: Call, _: NoArguments| async move {
            let server = cx.server();
            server.add_tool(tool("grown", "New.", |_: Call, _: NoArguments| async { Ok("") }));
            server.add_prompt(prompt("grown", "New.", |_: Call, _| async { Ok("") }));
            server.add_resource(Resource::text("fixture://grown", "grown", "new"));
            Ok("grown")
        }))
        .tool(tool("crash", "Ends the process.", |_: Call, _: NoArguments| async {
            std::process::exit(3);
            #[expect(unreachable_code, reason = "the function needs a result type")]
            Ok("")
        }))
        .resource(Resource::text("fixture://text", "text", "some text"))
        .resource(Resource::text("fixture://watched", "watched", "watch me"))
        .template(item())
        .prompt(
            prompt("greet", "Greets.", |_: Call, arguments| async move {
                Ok(format!("Greet {}.", arguments.get("name")))
            })
            .argument("name", "Whom to greet.")
            .complete("name", |completing| async move {
                let names = ["anna", "anton", "berta"].into_iter();
                names
                    .filter(|name| name.starts_with(&completing.value))
                    .map(str::to_owned)
                    .collect()
            }),
        )
        .build()
}

async fn ask_both(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let (first, second) =
        tokio::join!(cx.elicit("first", "First?"), cx.elicit("second", "Second?"));
    let (Name { name: first }, Name { name: second }) = (first?, second?);
    Ok(format!("{first} and {second}"))
}

async fn ask_all(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let asks = vec![
        Ask::form::<Name>("name", "Who are you?")?,
        Ask::sample("thought", Sampling::new("Think.", 10)),
        Ask::roots("roots"),
    ];
    let answers = cx.ask_all(asks).await?;
    let (name, thought) = (answers.form::<Name>("name")?.name, answers.sampled("thought")?.text());
    Ok(format!("{name}, {thought}, {} roots", answers.roots("roots")?.len()))
}

async fn ask_and_wait(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let Name { name } = cx.elicit("name", "Who are you?").await?;
    std::future::pending::<()>().await;
    Ok(name)
}

async fn long(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    cx.progress_message(1.0, None, "at it").await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    Ok("done".to_owned())
}

async fn work(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    cx.progress(1.0, Some(2.0)).await;
    cx.log(LogLevel::Warning, "fixture", &"half way").await;
    cx.progress(2.0, Some(2.0)).await;
    Ok("worked".to_owned())
}

fn item() -> lyceum_server::ResourceTemplate {
    let read =
        |_: Call, variables: Variables| async move { Ok(format!("item {}", variables.get("id"))) };
    template("fixture://item/{id}", "item", read).expect("a valid template")
}
