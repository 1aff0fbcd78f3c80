//! `/openapi.json`: the route table as OpenAPI 3.1, schemas from the very types that are read and
//! written.

use std::sync::OnceLock;

use bytes::Bytes;
use http::{Method, StatusCode};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::problem::Problem;
use super::route::{Access, PLACE, Reply, Route};
use super::router::routes;
use super::visit::Visit;
use crate::knowledge::refusal::Refusal;

/// Arguments that the path of a document stands for.
const IN_PATH: [&str; 2] = ["path", "document_id"];

pub(super) async fn openapi(_: Visit) -> Result<Reply, Problem> {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| document(&routes()).to_string().into());
    Ok(Reply::json(StatusCode::OK, document.clone()))
}

/// The description of `routes`.
pub(super) fn document(routes: &[Route]) -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let item = paths.entry(route.pattern).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(route, &mut generator);
    }
    let error = generator.subschema_for::<Refusal>();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Lyceum", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "key": [] }, { "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": { "Error": {
                "description": "Not done; the code says why and the message what to do.",
                "content": { "application/json": { "schema": error } },
            } },
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let content = match route.answer {
        Some(schema) => json!({ "application/json": { "schema": schema(generator) } }),
        None => json!({}),
    };
    let done = json!({ "description": route.summary, "content": content });
    let mut responses =
        json!({ "200": done, "default": { "$ref": "#/components/responses/Error" } });
    if route.pattern == "/documents" {
        responses["201"] = responses["200"].clone();
    }
    let mut operation = json!({ "summary": route.summary, "responses": responses });
    let (parameters, body) = arguments(route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = body {
        operation["requestBody"] = json!({ "content": { "application/json": { "schema": body } } });
    }
    if route.access == Access::Open {
        operation["security"] = json!([]);
    }
    operation
}

/// What goes in path and query, and what in the body.
fn arguments(route: &Route) -> (Vec<Value>, Option<Value>) {
    let mut schema = route.arguments.clone();
    let mut parameters = Vec::new();
    if route.pattern.contains(PLACE) {
        parameters.push(json!({
            "name": "path", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "The document's path; slashes may stand as they are.",
        }));
        without(&mut schema, &IN_PATH);
    }
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    if route.method == Method::GET {
        let parameter = |(name, schema): (String, Value)| {
            let required = route.arguments["required"].as_array();
            let required = required.is_some_and(|all| all.contains(&name.as_str().into()));
            json!({ "name": name, "in": "query", "required": required, "schema": schema })
        };
        parameters.extend(properties.into_iter().map(parameter));
        return (parameters, None);
    }
    let body = (!properties.is_empty()).then(|| {
        for member in ["$schema", "title"] {
            schema.as_object_mut().map(|schema| schema.remove(member));
        }
        schema
    });
    (parameters, body)
}

fn without(schema: &mut Value, names: &[&str]) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !names.contains(&name.as_str()));
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|name| !names.iter().any(|known| name == known));
    }
}
