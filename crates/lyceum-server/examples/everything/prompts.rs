//! Prompts: without and with arguments, with a resource, with an image, with a question.

use lyceum_server::{
    Builder, Call, Content, PromptArguments, PromptMessage, ResourceContents, prompt,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::PNG;

#[derive(Deserialize, JsonSchema)]
struct UserContext {
    context: String,
}

pub(crate) fn add(server: Builder) -> Builder {
    let simple = prompt("test_simple_prompt", "Says one thing.", |_: Call, _| async {
        Ok("This is a simple prompt for testing.")
    });
    let with_arguments = |_: Call, args: PromptArguments| async move {
        let (arg1, arg2) = (args.get("arg1"), args.get("arg2"));
        Ok(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))
    };
    let with_arguments =
        prompt("test_prompt_with_arguments", "Repeats its arguments.", with_arguments)
            .argument("arg1", "The first argument")
            .argument("arg2", "The second argument")
            .complete("arg1", |completing| async move {
                let values = ["test", "testing", "tested"].map(str::to_owned);
                values.into_iter().filter(|value| value.starts_with(&completing.value)).collect()
            });
    let with_image = prompt("test_prompt_with_image", "Shows an image.", |_: Call, _| async {
        Ok(vec![
            PromptMessage::user(Content::image(PNG, "image/png")),
            PromptMessage::user("Please analyze the image above."),
        ])
    });
    let asking = |cx: Call, _| async move {
        let UserContext { context } = cx.elicit("user_context", "What is the context?").await?;
        Ok(format!("Consider this context: {context}"))
    };
    server
        .prompt(simple)
        .prompt(with_arguments)
        .prompt(with_resource())
        .prompt(with_image)
        .prompt(prompt("test_input_required_result_prompt", "Asks for context.", asking))
}

fn with_resource() -> lyceum_server::Prompt {
    let embed = |_: Call, args: PromptArguments| async move {
        let text = "Embedded resource content for testing.";
        let contents = ResourceContents::text(args.get("resourceUri"), text);
        Ok(vec![
            PromptMessage::user(Content::resource(contents.mime_type("text/plain"))),
            PromptMessage::user("Please process the embedded resource above."),
        ])
    };
    prompt("test_prompt_with_embedded_resource", "Shows a resource.", embed)
        .argument("resourceUri", "The resource to show")
}
