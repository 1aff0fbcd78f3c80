//! Tools that return content of each kind, report progress, log, and fail.

use std::time::Duration;

use lyceum_server::{
    Builder, Call, Content, LogLevel, NoArguments, ResourceContents, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

/// A grey pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cch\x00\x00\x00\x82\x00\x81w\xcdr\xb6\x00\x00\x00\x00IEND\xaeB`\x82";
/// A sound file with no sound in it.
const WAV: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

const PAUSE: Duration = Duration::from_millis(50);

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say back.
    text: String,
}

pub(crate) fn add(server: Builder) -> Builder {
    let server = server
        .tool(tool("test_simple_text", "Returns text.", |_: Call, _: NoArguments| async {
            Ok("This is a simple text response for testing.")
        }))
        .tool(tool("echo", "Returns its text.", |_: Call, args: Echo| async { Ok(args.text) }))
        .tool(tool("test_image_content", "Returns an image.", |_: Call, _: NoArguments| async {
            Ok(Content::image(PNG, "image/png"))
        }))
        .tool(tool("test_audio_content", "Returns a sound.", |_: Call, _: NoArguments| async {
            Ok(Content::audio(WAV, "audio/wav"))
        }))
        .tool(tool(
            "test_embedded_resource",
            "Returns a resource.",
            |_: Call, _: NoArguments| async {
                let text = "This is an embedded resource content.";
                let contents = ResourceContents::text("test://embedded-resource", text);
                Ok(Content::resource(contents.mime_type("text/plain")))
            },
        ))
        .tool(tool("test_multiple_content_types", "Returns all three.", mixed))
        .tool(tool("test_error_handling", "Always fails.", |_: Call, _: NoArguments| async {
            let message = "This tool intentionally returns an error for testing";
            Err::<String, _>(ToolError::new(message))
        }));
    add_emitting(server)
}

fn add_emitting(server: Builder) -> Builder {
    server
        .tool(tool("test_tool_with_progress", "Reports progress.", progress))
        .tool(tool("test_tool_with_logging", "Logs three messages.", logging))
        .tool(tool(
            "test_logging_tool",
            "Logs, if asked to.",
            |cx: Call, _: NoArguments| async move {
                cx.log(LogLevel::Info, "everything", &"Logging on request").await;
                Ok("Logged what was wanted.")
            },
        ))
        .tool(tool(
            "test_reconnection",
            "Lets go of the connection before it answers.",
            |cx: Call, _: NoArguments| async move {
                cx.release();
                sleep(2 * PAUSE).await;
                Ok("Reconnection test completed successfully.")
            },
        ))
}

async fn mixed(_: Call, _: NoArguments) -> Result<Vec<Content>, ToolError> {
    let json = r#"{"test":"data","value":123}"#;
    let contents = ResourceContents::text("test://mixed-content-resource", json);
    Ok(vec![
        Content::text("Multiple content types test:"),
        Content::image(PNG, "image/png"),
        Content::resource(contents.mime_type("application/json")),
    ])
}

async fn progress(cx: Call, _: NoArguments) -> Result<&'static str, ToolError> {
    for progress in [0.0, 50.0, 100.0] {
        let message = format!("Completed step {progress} of 100");
        cx.progress_message(progress, Some(100.0), &message).await;
        // Also after the last one: the TypeScript SDK forgets a report that it reads in one go with
        // the result.
        sleep(PAUSE).await;
    }
    Ok("Tool with progress executed successfully.")
}

async fn logging(cx: Call, _: NoArguments) -> Result<&'static str, ToolError> {
    let messages = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    for (step, message) in messages.into_iter().enumerate() {
        if step > 0 {
            sleep(PAUSE).await;
        }
        cx.log(LogLevel::Info, "everything", &message).await;
    }
    Ok("Tool with logging executed successfully.")
}
