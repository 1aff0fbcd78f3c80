//! Tools that make the server tell its clients about changes.

use lyceum_server::{Builder, Call, NoArguments, tool};

pub(crate) fn add(server: Builder) -> Builder {
    server
        .tool(tool(
            "test_trigger_tool_change",
            "Says that the list of tools changed.",
            |cx: Call, _: NoArguments| async move {
                cx.server().tools_changed();
                Ok("Told everybody who listens for tools.")
            },
        ))
        .tool(tool(
            "test_trigger_prompt_change",
            "Says that the list of prompts changed.",
            |cx: Call, _: NoArguments| async move {
                cx.server().prompts_changed();
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
