//! Tools that ask the client something in the middle of a call.

use lyceum_server::{
    Builder, Call, Capability, Elicited, NoArguments, Sampling, Schema, SchemaError, ToolError,
    tool,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What to ask the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to show to the user.
    message: String,
}

const CONTACT: &str = r#"{"type":"object","properties":{
    "username":{"type":"string","description":"The user's name"},
    "email":{"type":"string","format":"email","description":"The user's address"}
},"required":["username","email"]}"#;

const DEFAULTS: &str = r#"{"type":"object","properties":{
    "name":{"type":"string","description":"User name","default":"John Doe"},
    "age":{"type":"integer","description":"User age","default":30},
    "score":{"type":"number","description":"User score","default":95.5},
    "status":{"type":"string","description":"User status",
        "enum":["active","inactive","pending"],"default":"active"},
    "verified":{"type":"boolean","description":"Verification status","default":true}
}}"#;

const ENUMS: &str = r#"{"type":"object","properties":{
    "untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
    "titledSingle":{"type":"string","oneOf":[
        {"const":"value1","title":"First Option"},
        {"const":"value2","title":"Second Option"},
        {"const":"value3","title":"Third Option"}]},
    "legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],
        "enumNames":["Option One","Option Two","Option Three"]},
    "untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
    "titledMulti":{"type":"array","items":{"anyOf":[
        {"const":"value1","title":"First Choice"},
        {"const":"value2","title":"Second Choice"},
        {"const":"value3","title":"Third Choice"}]}}
}}"#;

pub(crate) fn add(server: Builder) -> Result<Builder, SchemaError> {
    let server = server
        .tool(tool("test_sampling", "Asks the model.", |cx: Call, args: Prompt| async move {
            let sampled = cx.sample("answer", Sampling::new(args.prompt, 100)).await?;
            Ok(format!("LLM response: {}", sampled.text()))
        }))
        .tool(eliciting_with_message(Schema::from_json(CONTACT)?))
        .tool(eliciting(
            "test_elicitation_sep1034_defaults",
            "Shows a form with defaults.",
            Schema::from_json(DEFAULTS)?,
        ))
        .tool(eliciting(
            "test_elicitation_sep1330_enums",
            "Shows a form with choices of every kind.",
            Schema::from_json(ENUMS)?,
        ));
    Ok(add_capability_checks(server))
}

fn add_capability_checks(server: Builder) -> Builder {
    server
        .tool(tool(
            "test_missing_capability",
            "Needs a client that offers sampling.",
            |cx: Call, _: NoArguments| async move {
                cx.require(Capability::Sampling)?;
                Ok("The client offers sampling.")
            },
        ))
        .tool(tool(
            "test_streaming_elicitation",
            "Reports progress; asks nothing.",
            |cx: Call, _: NoArguments| async move {
                cx.progress(1.0, Some(1.0)).await;
                Ok("Done without asking.")
            },
        ))
}

fn eliciting_with_message(schema: Schema) -> lyceum_server::Tool {
    tool("test_elicitation", "Asks the user.", move |cx: Call, args: Message| {
        let schema = schema.clone();
        async move {
            let elicited = cx.elicit_raw("contact", &args.message, schema).await?;
            Ok(format!("User response: {}", told(&elicited)))
        }
    })
}

fn eliciting(name: &str, description: &str, schema: Schema) -> lyceum_server::Tool {
    tool(name, description, move |cx: Call, _: NoArguments| {
        let schema = schema.clone();
        async move {
            let message = "Please review and update the form fields";
            let elicited = cx.elicit_raw("form", message, schema).await?;
            Ok::<_, ToolError>(format!("Elicitation completed: {}", told(&elicited)))
        }
    })
}

fn told(elicited: &Elicited) -> String {
    match elicited {
        Elicited::Accept(content) => format!("action=accept, content={content}"),
        Elicited::Decline => "action=decline, content={}".to_owned(),
        Elicited::Cancel => "action=cancel, content={}".to_owned(),
    }
}
