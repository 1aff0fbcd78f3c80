//! The demonstration server: something to call until there is knowledge to serve.

use lyceum_server::{Call, PromptArguments, Resource, Server, Tool, ToolError, prompt, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Duration, sleep};

/// The longest `slow` takes.
const LONGEST_SECONDS: f64 = 60.0;
/// How often `slow` tells how far it is.
const STEP: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Slow {
    /// How long to take.
    #[schemars(range(min = 0, max = 60))]
    seconds: f64,
}

/// The server, with the tools `offers` says yes to.
pub(crate) fn server(offers: impl Fn(&str) -> bool) -> Server {
    let builder = Server::builder("lyceum", env!("CARGO_PKG_VERSION"))
        .title("Lyceum")
        .description("One door to a team's knowledge and tools.")
        .resource(about())
        .prompt(greeting());
    let tools = [echo(), slow()].into_iter().filter(|tool| offers(tool.name()));
    tools.fold(builder, |builder, tool| builder.tool(tool)).build()
}

fn echo() -> Tool {
    let echo =
        tool("echo", "Says what it is told.", |_: Call, args: Echo| async move { Ok(args.text) });
    echo.title("Echo").read_only().idempotent().closed_world()
}

fn slow() -> Tool {
    let slow = tool("slow", "Takes its time, and tells how far it is.", take_time);
    slow.title("Slow").read_only().idempotent().closed_world()
}

async fn take_time(cx: Call, args: Slow) -> Result<String, ToolError> {
    if !(0.0..=LONGEST_SECONDS).contains(&args.seconds) {
        return Err(ToolError::new(format!(
            "seconds must be between 0 and {LONGEST_SECONDS}, not {}",
            args.seconds
        )));
    }
    let whole = Duration::from_secs_f64(args.seconds);
    let mut passed = Duration::ZERO;
    while passed < whole {
        let step = STEP.min(whole - passed);
        sleep(step).await;
        passed += step;
        cx.progress(passed.as_secs_f64(), Some(args.seconds)).await;
    }
    Ok(format!("Took {} seconds.", args.seconds))
}

fn about() -> Resource {
    let text = "Lyceum is one door to a team's knowledge and tools. This server is a demonstration: \
                it has the tools echo and slow, this resource, and the prompt greeting.";
    Resource::text("lyceum://about", "about", text)
        .title("About this server")
        .description("What this server is.")
}

fn greeting() -> lyceum_server::Prompt {
    let greeting = prompt(
        "greeting",
        "Greets somebody in the style of a friendly librarian.",
        |_: Call, args: PromptArguments| async move {
            Ok(format!(
                "Greet {} as a friendly librarian would, in one sentence.",
                args.get("name")
            ))
        },
    );
    greeting.title("Greeting").argument("name", "Whom to greet.")
}
