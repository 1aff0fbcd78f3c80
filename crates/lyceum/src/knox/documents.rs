//! What the surface tells about itself and about what is behind it, as JSON.

use bytes::Bytes;
use lyceum_gateway::{Door, Gateway, Shown, Status};
use lyceum_wire::{Object, Writer};
use serde_json::{Map, Value, json};

const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// What the service is.
pub(super) fn service(base: &str, door: &Door, gateway: &Gateway) -> Bytes {
    let document = json!({
        "service": "lyceum",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": "streamable-http",
        "mcpVersion": "2024-11-05",
        "capabilities": "tools,resources,sse",
        "servers": gateway.health().len(),
        "tools": door.tools().len(),
        "resources": door.resources().len(),
        "endpoints": [
            format!("GET {base} with Accept: text/event-stream opens a stream"),
            format!("POST {base} with Accept: application/json answers a request at once"),
            format!("POST {base} with Accept: text/event-stream and the id of a stream answers on it"),
        ],
    });
    document.to_string().into()
}

/// Whether any server behind the gateway can be called, or none is configured.
pub(super) fn is_up(gateway: &Gateway) -> bool {
    let health = gateway.health();
    let works = |status: Status| matches!(status, Status::Up | Status::Idle);
    health.is_empty() || health.iter().any(|(_, health)| works(health.status))
}

/// How the service is, in numbers.
pub(super) fn health(door: &Door, gateway: &Gateway) -> Bytes {
    let health = json!({
        "status": if is_up(gateway) { "UP" } else { "DOWN" },
        "service": "MCP Proxy",
        "servers": gateway.health().len(),
        "tools": door.tools().len(),
        "resources": door.resources().len(),
    });
    health.to_string().into()
}

/// How the service is, server by server.
pub(super) fn detailed_health(door: &Door, gateway: &Gateway) -> Bytes {
    let (tools, resources) = (door.tools(), door.resources());
    let count =
        |shown: &[Shown], name: &str| shown.iter().filter(|shown| shown.upstream == name).count();
    let server = |(name, health): (String, lyceum_gateway::Health)| {
        let server = json!({
            "status": health.status.as_str(),
            "tools": count(&tools, &name),
            "resources": count(&resources, &name),
        });
        (name, server)
    };
    let servers: Map<String, Value> = gateway.health().into_iter().map(server).collect();
    let health = json!({
        "status": if is_up(gateway) { "healthy" } else { "unhealthy" },
        "servers": servers,
        "total_tools": tools.len(),
        "total_resources": resources.len(),
    });
    health.to_string().into()
}

/// The tools, by public name. Values are the upstream's own, byte for byte.
pub(super) fn tools(door: &Door) -> Bytes {
    let mut out = Writer::new();
    for tool in door.tools() {
        out.raw(&tool.public, own(&tool, "name", &["inputSchema"]));
    }
    out.finish()
}

/// The resources, by public URI.
pub(super) fn resources(door: &Door) -> Bytes {
    let mut out = Writer::new();
    for resource in door.resources() {
        out.raw(&resource.public, own(&resource, "uri", &["name", "mimeType"]));
    }
    out.finish()
}

/// The tools, as OpenAI's chat completions take them.
pub(super) fn openai_tools(door: &Door) -> Bytes {
    let functions: Vec<Bytes> = door.tools().iter().map(openai_tool).collect();
    [b"[", functions.join(&b","[..]).as_slice(), b"]"].concat().into()
}

fn openai_tool(tool: &Shown) -> Bytes {
    let members = Object::parse(&tool.definition).unwrap_or_default();
    let mut function = Writer::new();
    function.text("name", &tool.public);
    function.raw("description", members.get("description").unwrap_or("\"\""));
    function.raw("parameters", members.get("inputSchema").unwrap_or(NO_PARAMETERS));
    let mut out = Writer::new();
    out.text("type", "function");
    out.raw("function", function.finish());
    out.finish()
}

/// A definition with the upstream's own name or URI under `key`, a description in any case, and
/// `others` where there are any.
fn own(shown: &Shown, key: &str, others: &[&str]) -> Bytes {
    let members = Object::parse(&shown.definition).unwrap_or_default();
    let mut out = Writer::new();
    out.text(key, &shown.own);
    out.raw("description", members.get("description").unwrap_or("\"\""));
    for (name, value) in members.iter().filter(|(name, _)| others.contains(name)) {
        out.raw(name, value);
    }
    out.finish()
}
