//! Tools whose schemas are the point: full JSON Schema 2020-12, and mirrored parameters.

use lyceum_server::{Builder, Call, Schema, SchemaError, tool, tool_with_schema};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

const CONTACT: &str = r##"{
    "$schema":"https://json-schema.org/draft/2020-12/schema",
    "type":"object",
    "$defs":{"address":{"$anchor":"addressDef","type":"object",
        "properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
    "properties":{
        "name":{"type":"string"},
        "address":{"$ref":"#/$defs/address"},
        "contactMethod":{"type":"string","enum":["phone","email"]},
        "phone":{"type":"string"},
        "email":{"type":"string"}},
    "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
    "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
    "then":{"required":["phone"]},
    "else":{"required":["email"]},
    "additionalProperties":false
}"##;

#[derive(Deserialize, JsonSchema)]
struct Region {
    /// Mirrored in a header, so that proxies can route by it.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

pub(crate) fn add(server: Builder) -> Result<Builder, SchemaError> {
    let contact = Schema::from_json(CONTACT)?;
    Ok(server
        .tool(tool_with_schema(
            "json_schema_2020_12_tool",
            "Has a schema that uses much of JSON Schema 2020-12.",
            contact,
            |_: Call, args: Value| async move { Ok(format!("Got {args}")) },
        ))
        .tool(tool(
            "test_x_mcp_header",
            "Has a parameter that is mirrored in a header.",
            |_: Call, args: Region| async move { Ok(args.region) },
        )))
}
