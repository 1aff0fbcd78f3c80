//! What the binary prints.

use crate::lyceum::{Lyceum, run};

/// Puts names in the place of what differs from run to run.
fn redacted(lyceum: &Lyceum, data: &std::path::Path) -> String {
    let text = lyceum.printed.join("\n");
    let text = text.replace(&lyceum.address.to_string(), "ADDRESS");
    let text = text.replace(concat!(" ", env!("CARGO_PKG_VERSION"), " "), " VERSION ");
    let text = text.replace(&data.display().to_string(), "DATA");
    text.replace(env!("CARGO_BIN_EXE_lyceum"), "LYCEUM")
}

#[tokio::test]
async fn first_start_says_how_to_go_on_and_later_ones_only_where() {
    let data = tempfile::tempdir().unwrap();
    let mut first = Lyceum::start(data.path(), &[]).await;
    first.terminate().await;
    first.ended().await;
    insta::assert_snapshot!(redacted(&first, data.path()), @r#"
    lyceum VERSION listens on http://ADDRESS/mcp
      and on       /mcp-readonly /mcp-gpt /mcp-gpt-full
      and on       http://ADDRESS/sse for clients of 2024-11-05
      watch        http://ADDRESS/health http://ADDRESS/metrics
      data         DATA

    To add it to a client:
      Claude Code  claude mcp add --transport http lyceum http://ADDRESS/mcp
      VS Code      code --add-mcp '{"name":"lyceum","type":"http","url":"http://ADDRESS/mcp"}'
      Cursor       ~/.cursor/mcp.json: {"mcpServers":{"lyceum":{"url":"http://ADDRESS/mcp"}}}
      others       {"mcpServers":{"lyceum":{"type":"http","url":"http://ADDRESS/mcp"}}}
      over stdio   {"mcpServers":{"lyceum":{"args":["stdio"],"command":"LYCEUM"}}}

    To see how it answers: LYCEUM doctor http://ADDRESS/mcp
    "#);
    let mut second = Lyceum::start(data.path(), &[]).await;
    second.terminate().await;
    second.ended().await;
    insta::assert_snapshot!(redacted(&second, data.path()), @"
    lyceum VERSION listens on http://ADDRESS/mcp
      and on       /mcp-readonly /mcp-gpt /mcp-gpt-full
    ");
}

#[tokio::test]
async fn explain_tells_rule_and_answer() {
    let accept = "application/json;q=.5, text/event-stream";
    let told = run(&["explain", "--accept", accept, "--dialect", "agent-data"]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.ends_with(
            "rule     sse-higher
answer   sse
"
        ),
        "{told}"
    );
    let told = run(&["explain", "--get", "--accept", "text/html"]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.ends_with("answer   html: a page saying what this is and how to connect\n"),
        "{told}"
    );
}

#[tokio::test]
async fn config_check_says_what_would_be_served() {
    let told = run(&["config", "check", "--data", "here", "--preset", "strict", "--no-sse"]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    insta::assert_snapshot!(told, @r"
    listen    127.0.0.1:8808
    data      here
    endpoint  /mcp (strict, JSON only)
    endpoint  /mcp-readonly (strict, JSON only, tools search_knowledge list_documents get_document get_document_for_rewrite batch_read)
    endpoint  /mcp-gpt (strict, JSON only, tools search_knowledge list_documents get_document get_document_for_rewrite batch_read upload_document update_document patch_document)
    endpoint  /mcp-gpt-full (strict, JSON only)
    ok
    ");
}
