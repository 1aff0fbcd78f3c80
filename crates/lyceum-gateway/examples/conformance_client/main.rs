//! The client under test of the official conformance suite.
//!
//! The suite starts a server, sets `MCP_CONFORMANCE_SCENARIO` and, for some scenarios,
//! `MCP_CONFORMANCE_CONTEXT`, and runs this program with the server's URL as its last argument. How
//! the server wants to be spoken to is left to the client to find out, as for any other server.

mod authorization;

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use lyceum_gateway::stack::stack;
use lyceum_http::client::{CallOptions, Client, ClientHandler, Peer, ServerRequest};
use lyceum_wire::RpcError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const CAPABILITIES: &str = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let Some(url) = std::env::args().next_back().filter(|url| url.starts_with("http")) else {
        eprintln!("give the server's URL as the last argument");
        return ExitCode::from(2);
    };
    match run(&scenario, &context, &url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(scenario: &str, context: &str, url: &str) -> Outcome {
    let oauth = authorization::oauth(scenario, context, url)?;
    let client = Client::builder(url)
        .name("lyceum-conformance-client", env!("CARGO_PKG_VERSION"))
        .capabilities(CAPABILITIES)
        .handler(Obliging)
        .service(oauth.around(stack()))
        .build()?;
    let server = client.connect().await?;
    eprintln!("connected, revision {}", server.revision());
    match scenario {
        "initialize" | "json-schema-ref-no-deref" | "request-metadata" => {
            server.list_tools().await?;
        }
        "tools_call" | "tools-call" => add_numbers(&server).await?,
        "elicitation-sep1034-client-defaults" => {
            call(&server, "test_client_elicitation_defaults", "{}").await?;
        }
        "sse-retry" => drop(call(&server, "test_reconnection", "{}").await?),
        "sep-2322-client-request-state" => input_rounds(&server).await?,
        "http-standard-headers" => everything_once(&server).await?,
        "http-custom-headers" => calls_of_context(&server, context).await?,
        "http-invalid-tool-headers" => every_tool(&server).await?,
        "json-schema-2020-12-preservation" => echo_schema(&server).await?,
        auth if auth.starts_with("auth/") => {
            server.list_tools().await?;
            call(&server, "test-tool", "{}").await?;
        }
        other => return Err(format!("no such scenario here: \"{other}\"").into()),
    }
    server.close().await;
    Ok(())
}

async fn call(server: &Peer, tool: &str, arguments: &str) -> Result<Bytes, Box<dyn Error>> {
    let result = server.call_tool(tool, arguments, &CallOptions::new()).await?;
    eprintln!("{tool}: {}", String::from_utf8_lossy(&result));
    Ok(result)
}

async fn add_numbers(server: &Peer) -> Outcome {
    let tools = server.list_tools().await?;
    if !tools.iter().any(|tool| tool.name == "add_numbers") {
        return Err("there is no add_numbers".into());
    }
    let result = call(server, "add_numbers", r#"{"a":5,"b":3}"#).await?;
    match String::from_utf8_lossy(&result).contains('8') {
        true => Ok(()),
        false => Err("5 + 3 is 8".into()),
    }
}

/// Calls a tool that wants input while calling another: neither may see the other's state.
async fn input_rounds(server: &Peer) -> Outcome {
    server.list_tools().await?;
    let (first, second) = tokio::join!(
        call(server, "test_mrtr_echo_state", "{}"),
        call(server, "test_mrtr_unrelated", "{}"),
    );
    first.and(second)?;
    call(server, "test_mrtr_no_state", "{}").await?;
    call(server, "test_mrtr_unrelated", "{}").await?;
    call(server, "test_mrtr_no_result_type", "{}").await?;
    Ok(())
}

/// Lists and uses everything the server has.
async fn everything_once(server: &Peer) -> Outcome {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        uri: Option<String>,
    }
    for tool in server.list_tools().await? {
        call(server, &tool.name, "{}").await?;
    }
    for resource in server.list_resources().await? {
        let resource: Named = serde_json::from_slice(&resource)?;
        let params = json!({ "uri": resource.uri });
        server.call("resources/read", params.to_string()).await?;
    }
    for prompt in server.list_prompts().await? {
        let prompt: Named = serde_json::from_slice(&prompt)?;
        server.call("prompts/get", json!({ "name": prompt.name }).to_string()).await?;
    }
    Ok(())
}

async fn calls_of_context(server: &Peer, context: &str) -> Outcome {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        arguments: Box<RawValue>,
    }
    let context: Context = serde_json::from_str(context)?;
    server.list_tools().await?;
    for wanted in context.tool_calls {
        call(server, &wanted.name, wanted.arguments.get()).await?;
    }
    Ok(())
}

/// Calls every tool the client is shown: the invalid ones must not be among them.
async fn every_tool(server: &Peer) -> Outcome {
    for tool in server.list_tools().await? {
        call(server, &tool.name, r#"{"region":"us-west1"}"#).await?;
    }
    match call(server, "invalid_empty_header", r#"{"value":"x"}"#).await {
        Ok(_) => Err("an invalid tool was called".into()),
        Err(_) => Ok(()),
    }
}

async fn echo_schema(server: &Peer) -> Outcome {
    let tools = server.list_tools().await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = tool.and_then(|tool| tool.input_schema()).ok_or("there is no such tool")?;
    let schema: Box<RawValue> = serde_json::from_slice(&schema)?;
    let arguments = serde_json::to_string(&HashMap::from([("schema", schema)]))?;
    call(server, "json_schema_echo", &arguments).await?;
    Ok(())
}

/// Agrees to everything, with the defaults a form suggests.
struct Obliging;

impl ClientHandler for Obliging {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        let params: Value = serde_json::from_slice(request.params.as_deref().unwrap_or(b"{}"))
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let result = match request.method.as_str() {
            "elicitation/create" => {
                let content = filled_in(&params["requestedSchema"]);
                json!({ "action": "accept", "content": content })
            }
            "sampling/createMessage" => json!({
                "role": "assistant",
                "model": "none",
                "content": { "type": "text", "text": "Paris" },
            }),
            "roots/list" => json!({ "roots": [{ "uri": "file:///test/root", "name": "root" }] }),
            other => return Err(RpcError::method_not_found(other)),
        };
        Ok(result.to_string().into())
    }
}

/// A form filled in with its defaults, and something of the right type where there is none.
fn filled_in(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let fill = |property: Value| match (property.get("default"), property["type"].as_str()) {
        (Some(default), _) => default.clone(),
        (None, Some("boolean")) => json!(true),
        (None, Some("integer" | "number")) => json!(1),
        (None, Some("array")) => json!([]),
        (None, _) => property.pointer("/enum/0").cloned().unwrap_or_else(|| json!("test")),
    };
    properties.into_iter().map(|(name, property)| (name, fill(property))).collect()
}
