//! Tools that change what the server offers, so that it tells its clients.
//!
//! The lists do change: who stands between, and compares, has something to tell too.

use lyceum_server::{Builder, Call, NoArguments, prompt, tool};

const COMING_AND_GOING: &str = "test_coming_and_going";

pub(crate) fn add(server: Builder) -> Builder {
    server
        .tool(tool(
            "test_trigger_tool_change",
            "Adds a tool, or removes it again.",
            |cx: Call, _: NoArguments| async move {
                if !cx.server().remove_tool(COMING_AND_GOING) {
                    let says = |_: Call, _: NoArguments| async { Ok("Here I am.") };
                    cx.server().add_tool(tool(COMING_AND_GOING, "Is there for a while.", says));
                }
                Ok("Told everybody who listens for tools.")
            },
        ))
        .tool(tool(
            "test_trigger_prompt_change",
            "Adds a prompt, or removes it again.",
            |cx: Call, _: NoArguments| async move {
                if !cx.server().remove_prompt(COMING_AND_GOING) {
                    let says = |_: Call, _| async { Ok("Here I am.") };
                    cx.server().add_prompt(prompt(COMING_AND_GOING, "Is there for a while.", says));
                }
                Ok("Told everybody who listens for prompts.")
            },
        ))
        .tool(tool(
            "test_trigger_resource_update",
            "Says that test://watched-resource changed.",
            |cx: Call, _: NoArguments| async move {
                cx.server().resource_updated("test://watched-resource");
                Ok("Told everybody who watches test://watched-resource.")
            },
        ))
}
