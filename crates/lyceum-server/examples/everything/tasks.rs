//! Tools that run as tasks, for clients that can follow one.

use std::time::Duration;

use lyceum_server::{Ask, Builder, Call, NoArguments, ToolError, tool};
use lyceum_wire::RpcError;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use crate::rounds::Name;

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long to take.
    #[serde(default)]
    seconds: f64,
    /// What to call the result.
    #[serde(default)]
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirm: bool,
}

pub(crate) fn add(server: Builder) -> Builder {
    let server = server
        .tool(tool("greet", "Greets by name, at once.", |_: Call, args: Name| async move {
            Ok(format!("Hello, {}!", args.name))
        }))
        .tool(tool("slow_compute", "Takes its time.", slow_compute).task())
        .tool(
            tool("failing_job", "Fails after a while.", |_: Call, _: NoArguments| async {
                sleep(Duration::from_secs(1)).await;
                Err::<String, _>(ToolError::new("The job failed, as it always does."))
            })
            .task_required(),
        )
        .tool(
            tool("protocol_error_job", "Ends with an error.", |_: Call, _: NoArguments| async {
                sleep(Duration::from_millis(200)).await;
                Err::<String, _>(RpcError::internal("The job broke, as it always does.").into())
            })
            .task(),
        );
    add_asking(server)
}

fn add_asking(server: Builder) -> Builder {
    server
        .tool(tool("confirm_delete", "Asks before it deletes nothing.", confirm_delete).task())
        .tool(tool("multi_input", "Asks two things at once.", multi_input).task())
        .tool(
            tool(
                "test_tool_with_task",
                "Asks for a name, then greets in the background.",
                |cx: Call, _: NoArguments| async move {
                    let Name { name } = cx.elicit("user_name", "What is your name?").await?;
                    cx.become_task().await?;
                    sleep(Duration::from_millis(100)).await;
                    Ok(format!("Hello, {name}!"))
                },
            )
            .task_on_demand(),
        )
}

async fn slow_compute(cx: Call, args: Compute) -> Result<String, ToolError> {
    cx.progress_message(0.0, Some(1.0), "Computing").await;
    let time = Duration::try_from_secs_f64(args.seconds.min(3600.0));
    sleep(time.map_err(|_| ToolError::new("seconds must be a positive number"))?).await;
    Ok(format!("Computed {} in {} s.", args.label, args.seconds))
}

async fn confirm_delete(cx: Call, args: Delete) -> Result<String, ToolError> {
    let question = format!("Delete {}?", args.filename);
    let Confirm { confirm } = cx.elicit("confirm", &question).await?;
    let done = if confirm { "Deleted" } else { "Kept" };
    Ok(format!("{done} {}.", args.filename))
}

async fn multi_input(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let first = Ask::form::<Name>("first", "What is your first name?")?;
    let last = Ask::form::<Name>("last", "What is your last name?")?;
    let answers = cx.ask_all(vec![first, last]).await?;
    let (first, last) = (answers.form::<Name>("first")?, answers.form::<Name>("last")?);
    Ok(format!("Hello, {} {}!", first.name, last.name))
}
