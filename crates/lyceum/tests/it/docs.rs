//! Pages that are written from what the server says, and must not fall behind it.

use std::fmt::Write;
use std::path::Path;

use lyceum_testkit::Request;
use serde_json::{Value, json};

use crate::lyceum::Lyceum;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
/// Set to write the page anew instead of comparing.
const WRITE: &str = "LYCEUM_WRITE_DOCS";

const HEAD: &str = "# Tools

The ten tools of the knowledge base, in the words that models read. Written by a test from what the server lists; after a
change run `LYCEUM_WRITE_DOCS=1 cargo test -p lyceum --test it docs`.

A tool that cannot do what it was asked answers with `isError` and a JSON object `{\"error\": {\"code\", \"message\",
\"details\"}}`, never with an HTTP error. Codes: `NOT_FOUND`, `CONFLICT`, `AMBIGUOUS`, `NOT_FOUND_IN_CONTENT`,
`INVALID_ARGUMENT`, `FORBIDDEN`, `UNAVAILABLE`, `INTERNAL`.
";

#[tokio::test]
async fn the_page_of_tools_says_what_the_server_says() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let listed = lyceum.call(&Request::legacy("/mcp", 1, "tools/list", json!({}))).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 10);
    let page = tools.iter().fold(HEAD.to_owned(), |page, tool| page + &section(tool));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(TOOLS, &page).unwrap();
    }
    let kept = std::fs::read_to_string(Path::new(TOOLS)).unwrap_or_default();
    assert!(kept == page, "docs/tools.md is out of date; set {WRITE}=1 and run this test again");
}

fn section(tool: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ");
    let mut section = format!("\n## {}\n\n{}\n\n", text(&tool["name"]), text(&tool["description"]));
    section += "| argument | type | default | |\n|---|---|---|---|\n";
    let schema = &tool["inputSchema"];
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    for (name, argument) in schema["properties"].as_object().unwrap() {
        let default = match &argument["default"] {
            Value::Null if required(name) => "required".to_owned(),
            Value::Null => String::new(),
            value => format!("`{value}`"),
        };
        let description = text(&argument["description"]);
        writeln!(section, "| `{name}` | {} | {default} | {description} |", text(&argument["type"]))
            .unwrap();
    }
    section
}
