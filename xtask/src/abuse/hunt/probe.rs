//! The requests of the hunt, made from what the server says of itself: `tools/list`,
//! `/openapi.json`, prompts and the other methods of the protocol.

use serde_json::{Map, Value, json};

use super::schema::{self, ArgumentKind, ToolArgument};
use super::value::{self, HostileValue};
use crate::abuse::request::{self, RequestBytes};

/// Where JSON text is put that no JSON library would make.
const PLACE: &str = "@@RAW@JSON@@";
/// Bytes of a request target; the head of a request may be 64 KiB.
const LONGEST_TARGET: usize = 60_000;

/// One hostile request. It is made when it is sent, because all of them are gigabytes.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// Tool or route, and argument.
    pub(super) subject: String,
    pub(super) value: HostileValue,
    template: ProbeTemplate,
}

#[derive(Debug, Clone)]
enum ProbeTemplate {
    /// Method, name to mirror, and params with the place for the value.
    Rpc { method: String, name: String, params: Value },
    /// Method, target and body with the place for the value.
    Rest { method: String, target: String, body: Value },
    /// A target with the place for the value, percent-encoded.
    Target { method: String, target: String },
}

impl Probe {
    pub(super) fn request(&self, key: &str) -> RequestBytes {
        let filled = |value: &Value| {
            let text = value.to_string();
            text.replacen(&format!("\"{PLACE}\""), &self.value.json(), 1)
        };
        match &self.template {
            ProbeTemplate::Rpc { method, name, params } => {
                let body = request::rpc_body(method, params.clone());
                request::modern(key, method, name, filled(&body).as_bytes())
            }
            ProbeTemplate::Rest { method, target, body } => {
                request::rest(method, target, key, &filled(body))
            }
            ProbeTemplate::Target { method, target } => {
                let room = LONGEST_TARGET.saturating_sub(target.len());
                let target = target.replacen(PLACE, &self.value.percent_encoded(room), 1);
                request::rest(method, &target, key, "")
            }
        }
    }

    /// Whether it is a route's body that holds the value.
    pub(super) fn has_body(&self) -> bool {
        matches!(self.template, ProbeTemplate::Rest { .. })
    }

    pub(super) fn name(&self) -> String {
        format!("{} = {}", self.subject, self.value.label)
    }
}

/// Probes for every argument of every tool in a `tools/list` result.
pub(super) fn of_tools(list: &Value) -> Vec<Probe> {
    let mut probes = Vec::new();
    for tool in list["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        for (argument, arguments, value) in hostile_arguments(&tool["inputSchema"]) {
            let params = json!({ "name": name, "arguments": arguments });
            let template =
                ProbeTemplate::Rpc { method: "tools/call".into(), name: name.into(), params };
            probes.push(Probe { subject: format!("{name} {argument}"), value, template });
        }
    }
    probes
}

/// Probes for every parameter and every member of the body of every route in an OpenAPI document.
pub(super) fn of_routes(openapi: &Value) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (path, operations) in openapi["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let method = method.to_uppercase();
            let known = path.replace("{path}", super::TARGET);
            let subject = |what: &str| format!("{method} {path} {what}");
            for target in targets(path, &known, operation) {
                let subject = subject(&target.0);
                for value in value::hostile(&ArgumentKind::Text) {
                    let (method, target) = (method.clone(), target.1.clone());
                    let template = ProbeTemplate::Target { method, target };
                    probes.push(Probe { subject: subject.clone(), value, template });
                }
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            for (argument, body, value) in hostile_arguments(body) {
                let (method, target) = (method.clone(), known.clone());
                let template = ProbeTemplate::Rest { method, target, body };
                probes.push(Probe { subject: subject(&argument), value, template });
            }
        }
    }
    probes
}

/// Request targets with a place for a value, and the names of the parameters these are.
fn targets(path: &str, known: &str, operation: &Value) -> Vec<(String, String)> {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let target = |parameter: &Value| {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        match parameter["in"].as_str() {
            Some("path") => (name, path.replace("{path}", PLACE)),
            _ => (name.clone(), format!("{known}?{name}={PLACE}")),
        }
    };
    parameters.iter().map(target).collect()
}

/// Every argument of a schema with every hostile value: its name, all arguments, the value.
fn hostile_arguments(schema: &Value) -> Vec<(String, Value, HostileValue)> {
    let arguments = schema::arguments(schema);
    let mut all = Vec::new();
    for argument in &arguments {
        for value in hostile_to(argument) {
            let with = with(&arguments, &argument.name, json!(PLACE));
            all.push((argument.name.clone(), with, value));
        }
        let ArgumentKind::List(members) = &argument.kind else { continue };
        for member in members {
            let mut item: Map<String, Value> =
                members.iter().map(|one| (one.name.clone(), schema::sample(one))).collect();
            item.insert(member.name.clone(), json!(PLACE));
            for value in value::hostile(&member.kind) {
                let name = format!("{}.{}", argument.name, member.name);
                all.push((name, with(&arguments, &argument.name, json!([item])), value));
            }
        }
    }
    all
}

fn with(arguments: &[ToolArgument], name: &str, value: Value) -> Value {
    let mut with = schema::harmless(arguments, name);
    with.insert(name.to_owned(), value);
    with.into()
}

/// What is hostile to an argument: by its kind, and by what is done with it.
fn hostile_to(argument: &ToolArgument) -> Vec<HostileValue> {
    let mut values = value::hostile(&argument.kind);
    match argument.name.as_str() {
        "content" | "source" => values.extend(value::DOCUMENTS),
        "query" => values.extend(value::QUERIES),
        _ => {}
    }
    values
}

/// Probes for the methods of the protocol that take texts of the caller.
pub(super) fn of_protocol() -> Vec<Probe> {
    let prompt = |name: &str, argument: &str| {
        (name.to_owned(), json!({ "name": name, "arguments": { argument: PLACE } }))
    };
    let complete = |reference: Value, argument: &str| {
        (
            String::new(),
            json!({ "ref": reference, "argument": { "name": argument, "value": PLACE } }),
        )
    };
    let asking = json!({ "type": "ref/prompt", "name": "answer_from_knowledge" });
    let template = json!({ "type": "ref/resource", "uri": "kb:///{+path}" });
    let other = json!({ "type": "ref/resource", "uri": PLACE });
    let place = |member: &str| (String::new(), json!({ member: PLACE }));
    let methods = [
        ("prompts/get", prompt("summarise_document", "path")),
        ("prompts/get", prompt("answer_from_knowledge", "question")),
        ("prompts/get", prompt("answer_from_knowledge", "tag")),
        ("prompts/get", prompt("answer_from_knowledge", "prefix")),
        ("completion/complete", complete(asking.clone(), "tag")),
        ("completion/complete", complete(asking, "prefix")),
        ("completion/complete", complete(template, "path")),
        (
            "completion/complete",
            (String::new(), json!({ "ref": other, "argument": { "name": "path", "value": "a" } })),
        ),
        ("resources/read", place("uri")),
        ("resources/list", place("cursor")),
        ("tools/list", place("cursor")),
        ("prompts/list", place("cursor")),
        ("tools/call", (String::new(), json!({ "name": PLACE, "arguments": {} }))),
        ("tasks/get", place("taskId")),
        ("no/such/method", place("x")),
        ("tools/list", (String::new(), json!({ "_meta": { "progressToken": PLACE } }))),
        (
            "tools/list",
            (
                String::new(),
                json!({ "_meta": { "io.modelcontextprotocol/clientInfo": { "name": PLACE, "version": "0" } } }),
            ),
        ),
    ];
    let probes = methods.into_iter().flat_map(|(method, (name, params))| {
        let shown = params.to_string();
        let subject = format!("{method} {}", shown.replace(PLACE, "…"));
        value::hostile(&ArgumentKind::Text).into_iter().map(move |value| {
            let (method, name, params) = (method.to_owned(), name.clone(), params.clone());
            let template = ProbeTemplate::Rpc { method, name, params };
            Probe { subject: subject.clone(), value, template }
        })
    });
    let deep = value::hostile(&ArgumentKind::Object).into_iter().map(|value| {
        let params = json!({ "_meta": { "x": PLACE } });
        let template =
            ProbeTemplate::Rpc { method: "tools/list".into(), name: String::new(), params };
        Probe { subject: "tools/list _meta".to_owned(), value, template }
    });
    probes.chain(deep).collect()
}

/// Probes that store hostile documents and read them in every way there is.
pub(super) fn of_documents() -> Vec<Probe> {
    let path = "abuse/hostile.md";
    let reads = [
        ("get_document", json!({ "document_id": path })),
        ("get_document", json!({ "document_id": path, "outline": true })),
        ("get_document", json!({ "document_id": path, "section": "a > b" })),
        ("get_document", json!({ "document_id": path, "lines": "1-" })),
        ("get_document", json!({ "document_id": path, "history": true })),
        ("get_document_for_rewrite", json!({ "document_id": path, "diff_from": 1 })),
        ("patch_document", json!({ "path": path, "old_str": "a", "new_str": "b" })),
        (
            "search_knowledge",
            json!({ "query": "a b w1 word ideograph", "limit": 20, "explain": true }),
        ),
    ];
    let call = |name: &str, arguments: Value, value: HostileValue| {
        let shown = arguments.to_string();
        let params = json!({ "name": name, "arguments": arguments });
        let template =
            ProbeTemplate::Rpc { method: "tools/call".into(), name: name.into(), params };
        let shown = shown.replace(PLACE, "…");
        Probe { subject: format!("{name} {shown} of document"), value, template }
    };
    let mut probes = Vec::new();
    for value in value::DOCUMENTS {
        let upload = json!({ "path": path, "content": PLACE, "upsert": true });
        probes.push(call("upload_document", upload, value));
        let read = |(name, arguments): &(&str, Value)| call(name, arguments.clone(), value);
        probes.extend(reads.iter().map(read));
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(probe: &Probe) -> String {
        let text = String::from_utf8(probe.request("k").whole(0)).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    #[test]
    fn every_argument_of_a_tool_is_tried_with_every_value_of_its_kind() {
        let schema = json!({ "properties": {
            "limit": { "type": "integer" },
            "prefix": { "type": "string" },
        } });
        let probes = of_tools(&json!({ "tools": [{ "name": "t", "inputSchema": schema }] }));
        let n = |kind| value::hostile(&kind).len();
        assert_eq!(probes.len(), n(ArgumentKind::Number) + n(ArgumentKind::Text));
        assert!(probes.iter().any(|probe| probe.name() == "t limit = largest integer"));
        let largest = body(&probes[0]);
        assert!(largest.contains("\"arguments\":{\"limit\":9223372036854775807}"), "{largest}");
    }

    #[test]
    fn members_of_items_are_tried_too() {
        let items = json!({ "properties": { "old_str": { "type": "string" } } });
        let schema = json!({ "properties": { "edits": { "type": "array", "items": items } } });
        let probes = of_tools(&json!({ "tools": [{ "name": "t", "inputSchema": schema }] }));
        assert!(probes.iter().any(|probe| probe.subject == "t edits.old_str"));
    }

    #[test]
    fn parameters_of_routes_are_tried_in_path_query_and_body() {
        let route = json!({
            "parameters": [{ "name": "path", "in": "path" }, { "name": "limit", "in": "query" }],
            "requestBody": { "content": { "application/json": { "schema": {
                "properties": { "content": { "type": "string" } },
            } } } },
        });
        let probes = of_routes(&json!({ "paths": { "/documents/{path}": { "put": route } } }));
        let of = |subject: &str| probes.iter().filter(|probe| probe.subject == subject).count();
        assert!(of("PUT /documents/{path} path") > 5);
        assert!(of("PUT /documents/{path} limit") > 5);
        assert!(of("PUT /documents/{path} content") > 5);
    }
}
