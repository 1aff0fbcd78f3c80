//! Tools that need another round: `input_required` in the modern era.

use lyceum_server::{
    Answers, Ask, Builder, Call, Capability, NoArguments, Sampling, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

pub(crate) fn add(server: Builder) -> Builder {
    let server = server
        .tool(tool(
            "test_input_required_result_elicitation",
            "Asks for a name.",
            |cx: Call, _: NoArguments| async move {
                let Name { name } = cx.elicit("user_name", "What is your name?").await?;
                Ok(format!("Hello, {name}!"))
            },
        ))
        .tool(tool(
            "test_input_required_result_sampling",
            "Asks the model.",
            |cx: Call, _: NoArguments| async move {
                let question = Sampling::new("What is the capital of France?", 100);
                Ok(cx.sample("capital_question", question).await?.text())
            },
        ))
        .tool(tool(
            "test_input_required_result_list_roots",
            "Asks for the client's roots.",
            |cx: Call, _: NoArguments| async move {
                let roots = cx.list_roots("client_roots").await?;
                let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
                Ok(format!("Roots: {}", uris.join(", ")))
            },
        ));
    add_with_state(server).tool(tool(
        "test_input_required_result_capabilities",
        "Asks in whichever way the client can answer.",
        capabilities,
    ))
}

fn add_with_state(server: Builder) -> Builder {
    server
        .tool(tool(
            "test_input_required_result_request_state",
            "Keeps state between rounds.",
            |cx: Call, _: NoArguments| async move { confirmed(&cx).await },
        ))
        .tool(tool(
            "test_input_required_result_tampered_state",
            "Refuses state that was changed on the way.",
            |cx: Call, _: NoArguments| async move { confirmed(&cx).await },
        ))
        .tool(tool(
            "test_input_required_result_multiple_inputs",
            "Asks three things at once.",
            multiple,
        ))
        .tool(tool(
            "test_input_required_result_multi_round",
            "Asks one thing after the other.",
            |cx: Call, _: NoArguments| async move {
                let Name { name } = cx.elicit("step1", "What is your name?").await?;
                let Color { color } = cx.elicit("step2", "What is your favourite color?").await?;
                Ok(format!("{name} likes {color}."))
            },
        ))
}

async fn confirmed(cx: &Call) -> Result<String, ToolError> {
    let kept: Option<String> = cx.state();
    cx.set_state(&"kept")?;
    let Confirm { ok } = cx.elicit("confirm", "Please confirm").await?;
    match kept.as_deref() {
        // A legacy client is asked within one round, which has no earlier one to remember.
        Some("kept") | None if ok => Ok("state-ok".to_owned()),
        _ => Ok("not confirmed".to_owned()),
    }
}

async fn multiple(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let answers: Answers = cx
        .ask_all(vec![
            Ask::form::<Name>("user_name", "What is your name?")?,
            Ask::sample("greeting", Sampling::new("Generate a greeting", 50)),
            Ask::roots("client_roots"),
        ])
        .await?;
    let name = answers.form::<Name>("user_name")?.name;
    let greeting = answers.sampled("greeting")?.text();
    let n_roots = answers.roots("client_roots")?.len();
    Ok(format!("{greeting} {name}, with {n_roots} roots"))
}

async fn capabilities(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    if cx.can(Capability::Elicitation) {
        return Ok(cx.elicit::<Name>("user_name", "What is your name?").await?.name);
    }
    let question = Sampling::new("Think of a name.", 50);
    Ok(cx.sample("name_question", question).await?.text())
}
