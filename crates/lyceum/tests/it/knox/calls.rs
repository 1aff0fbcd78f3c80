//! What is not MCP.

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use super::house::{BASE, House, SSE, answer, rpc, stdio};

/// Calls a tool with a body.
async fn call(house: &House, tool: &str, body: &str) -> Response {
    house.send(&Request::new("POST", &format!("{BASE}/tools/{tool}")).body(body)).await
}

/// What the tool `echo` got.
fn got(response: &Response) -> Value {
    assert_eq!(response.status(), 200, "{}", response.text());
    let text = response.json()["content"][0]["text"].as_str().unwrap().to_owned();
    serde_json::from_str::<Value>(&text).unwrap()["arguments"].clone()
}

#[tokio::test]
async fn k09_tools_are_listed_by_public_name() {
    let house = House::new().await;
    let tools = house.get("/tools").await.json();
    assert_eq!(tools.as_object().unwrap().len(), 5);
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let expected = json!({ "name": "echo", "description": "the tool echo", "inputSchema": schema });
    assert_eq!(tools["files_echo"], expected);
    assert_eq!(tools["files_add_numbers"]["name"], "add@numbers");
}

#[tokio::test]
async fn k09b_resources_are_listed_by_public_uri() {
    let house = House::new().await;
    let resource = json!({
        "uri": "file:///srv/a.md", "name": "a", "description": "notes", "mimeType": "text/markdown",
    });
    let resources = house.get("/resources").await.json();
    assert_eq!(resources, json!({ "files.file:///srv/a.md": resource }));
}

#[tokio::test]
async fn k09c_tools_are_called_with_their_arguments_as_the_body() {
    let house = House::new().await;
    for (body, expected) in [
        (r#"{"text":"x"}"#, json!({ "text": "x" })),
        ("{\n  \"deep\": {\"er\": [1, {}]}\n}\n", json!({ "deep": { "er": [1, {}] } })),
        ("", json!("none")),
        ("null", json!("none")),
        ("{}", json!({})),
    ] {
        assert_eq!(got(&call(&house, "files_echo", body).await), expected, "{body:?}");
    }
    assert_eq!(
        got(&call(&house, "files.echo", "{}").await),
        json!({}),
        "other forms lead there too"
    );
    for (tool, body, status, text) in [
        ("nobody_echo", "{}", 404, "Tool not found: nobody_echo"),
        ("files%5Fnone", "{}", 404, "Tool not found: files_none"),
        ("files_echo", "{nonsense", 400, "Invalid JSON parameters: "),
        ("files_echo", "[1]", 400, "Invalid JSON parameters: "),
        ("files_echo", r#"{"a":1,"a":2}"#, 400, "Invalid JSON parameters: "),
        ("files_fail", "{}", 500, "Failed to call tool: it failed"),
        ("%FF", "{}", 400, "the address is not percent-encoded UTF-8"),
    ] {
        let response = call(&house, tool, body).await;
        assert_eq!(response.status(), status, "{tool} {body}: {}", response.text());
        assert!(response.text().starts_with(text), "{tool} {body}: {}", response.text());
    }
    // A server that was never reached may have such a tool, and whoever asks is told why it is not there.
    let gone = "[[upstream]]\nname = \"gone\"\ncommand = [\"/no/such/program\"]\n";
    let absent = House::unsettled(gone).await;
    for tool in ["gone_echo", "gone.echo"] {
        let answer = call(&absent, tool, "{}").await;
        assert_eq!((answer.status(), &answer.json()["isError"]), (200, &json!(true)), "{tool}");
        let told = answer.json()["content"][0]["text"].to_string();
        assert!(told.contains("gone cannot") || told.contains("gone is still"), "{told}");
    }
    assert_eq!(call(&absent, "nobody_echo", "{}").await.status(), 404);
    let get = house.get("/tools/files_echo").await;
    assert_eq!((get.status(), get.head.get("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn k09d_resources_are_read_by_their_public_uri() {
    let house = House::new().await;
    let expected = json!({ "contents": [{
        "uri": "files.file:///srv/a.md", "text": "hello", "mimeType": "text/markdown",
    }] });
    for uri in ["files.file%3A%2F%2F%2Fsrv%2Fa.md", "files.file:///srv/a.md"] {
        assert_eq!(house.get(&format!("/resources/{uri}")).await.json(), expected, "{uri}");
    }
    for uri in ["nobody.file%3A%2F%2F%2Fa", "files"] {
        assert_eq!(house.get(&format!("/resources/{uri}")).await.status(), 404, "{uri}");
    }
    let failed = house.get("/resources/files.file:///missing.md").await;
    let told = "Failed to read resource: no such file";
    assert_eq!((failed.status(), failed.text()), (500, told));
}

#[tokio::test]
async fn k09e_health_is_told_in_both_shapes() {
    let house = House::new().await;
    let expected = json!({
        "status": "UP", "service": "MCP Proxy", "servers": 1, "tools": 5, "resources": 1,
    });
    assert_eq!(house.get("/health").await.json(), expected);
    let expected = json!({
        "status": "healthy", "total_tools": 5, "total_resources": 1,
        "servers": { "files": { "status": "up", "tools": 5, "resources": 1 } },
    });
    assert_eq!(house.get("/health?detail=1").await.json(), expected);

    let nobody = "[[upstream]]\nname = \"gone\"\ncommand = [\"/no/such/program\"]\n";
    let health = House::unsettled(nobody).await.get("/health").await;
    assert_eq!((health.status(), &health.json()["status"]), (500, &json!("DOWN")));
}

#[tokio::test]
async fn k09f_sse_path_opens_a_stream() {
    let house = House::new().await;
    let request = Request::new("GET", &format!("{BASE}/sse"));
    let (_, mut events) = house.lyceum.connect().await.stream(&request).await;
    assert_eq!(events.next().await.unwrap().name, "connected", "whatever is accepted");
    house.open("/sse").await;
}

#[tokio::test]
async fn k09g_message_path_hands_over_or_answers() {
    let house = House::new().await;
    let (mut events, id) = house.conversation().await;
    let ping = |query: &str| rpc(&format!("/message{query}"), 7, "ping", json!({}));
    for request in [ping(&format!("?session={id}")), ping("").header("x-session-id", &id)] {
        assert_eq!(house.send(&request).await.status(), 202, "{request:?}");
        assert_eq!(answer(&mut events).await.json()["id"], 7);
    }
    assert_eq!(house.send(&ping("?session=mcp-sse-1")).await.status(), 404);
    let direct = house.send(&ping("").set("accept", SSE)).await;
    assert_eq!((direct.status(), &direct.json()["id"]), (200, &json!(7)));
}

#[tokio::test]
async fn calls_are_guarded_like_mcp() {
    let file = format!("{}[limits]\nbody_bytes = 64\n", stdio("files", &[]).await);
    let house = House::with(&file).await;
    for below in ["/tools", "/resources", "/tools/files_echo", "/health?detail=1"] {
        let request = Request::new("GET", &format!("{BASE}{below}"));
        let stranger = request.clone().set("host", "evil.example");
        assert_eq!(house.send(&stranger).await.status(), 421, "{below}");
        let stranger = request.header("origin", "https://evil.example");
        assert_eq!(house.send(&stranger).await.status(), 403, "{below}");
    }
    assert_eq!(call(&house, "files_echo", &" ".repeat(65)).await.status(), 413);
    let packed = Request::new("POST", &format!("{BASE}/tools/files_echo"));
    let packed = packed.header("content-encoding", "gzip").body("x");
    assert_eq!(house.send(&packed).await.status(), 415);
    let asks =
        Request::new("OPTIONS", &format!("{BASE}/tools")).header("origin", "http://localhost");
    let told = house.send(&asks).await;
    assert_eq!((told.status(), told.head.get("allow")), (204, Some("GET")));
    assert_eq!(told.head.get("access-control-allow-origin"), Some("http://localhost"));
}
