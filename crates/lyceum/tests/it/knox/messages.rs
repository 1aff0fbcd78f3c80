//! JSON-RPC.

use lyceum_testkit::Request;
use serde_json::{Value, json};

use super::house::{BASE, House, JSON, SSE, answer, handshake, rpc};

#[tokio::test]
async fn k10_methods_are_known_or_told_to_be_unknown() {
    let house = House::new().await;
    for (method, params) in [
        ("initialize", handshake()),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "files_echo" })),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "files.file:///srv/a.md" })),
        ("ping", json!({})),
    ] {
        let answer = house.ask(method, params).await;
        assert!(answer["result"].is_object(), "{method}: {answer}");
    }
    let unknown = house.ask("no/such", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    assert_eq!(unknown["error"]["data"], "Unknown method: no/such");
}

#[tokio::test]
async fn k11_initialize_is_negotiated() {
    let house = House::new().await;
    for (asked, agreed) in [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-06-18"), "2025-06-18"),
        (Value::Null, "2024-11-05"),
    ] {
        let mut params = handshake();
        match asked {
            Value::Null => drop(params.as_object_mut().unwrap().remove("protocolVersion")),
            asked => params["protocolVersion"] = asked,
        }
        let result = house.ask("initialize", params).await["result"].clone();
        assert_eq!(result["protocolVersion"], agreed);
        assert_eq!(result["serverInfo"]["name"], "lyceum");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        let capabilities = &result["capabilities"];
        assert!(capabilities["tools"].is_object() && capabilities["resources"].is_object());
    }
    let (_, mut events, id) = house.open("").await;
    let silent = rpc("", 1, "initialize", json!({})).set("accept", SSE);
    assert_eq!(house.send(&silent.header("x-session-id", &id)).await.status(), 202);
    assert_eq!(answer(&mut events).await.json()["error"]["code"], -32602);
}

#[tokio::test]
async fn k12_notifications_have_no_answer() {
    let house = House::new().await;
    for (method, status) in [("initialized", 204), ("notifications/initialized", 202)] {
        let body = json!({ "jsonrpc": "2.0", "method": method }).to_string();
        let response = house.send(&Request::post(BASE, body).set("accept", JSON)).await;
        assert_eq!((response.status(), response.text()), (status, ""), "{method}");
    }
}

#[tokio::test]
async fn k13_errors_travel_with_status_200() {
    let house = House::new().await;
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{nonsense", -32700, Value::Null),
        (r#"{"id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, -32602, json!(1)),
    ] {
        let response = house.send(&Request::post(BASE, body).set("accept", JSON)).await;
        let answer = response.json();
        assert_eq!((response.status(), &answer["error"]["code"]), (200, &json!(code)), "{body}");
        assert_eq!(answer["id"], id, "{body}");
        let data = &answer["error"]["data"];
        assert!(data.is_null() || data.is_string(), "{body}: {data}");
    }
    let unknown = house.ask("tools/call", json!({ "name": "no" })).await;
    assert_eq!(unknown["error"]["code"], -32603);
    assert_eq!(unknown["error"]["data"], "Server error: Unknown tool: no");
    let absent = house.ask("resources/read", json!({ "uri": "nobody.file:///a" })).await;
    assert_eq!(absent["error"]["code"], -32002);
    assert_eq!(absent["error"]["data"], json!({ "uri": "nobody.file:///a" }), "as MCP has it");
    let failed = house.ask("tools/call", json!({ "name": "files_fail" })).await;
    assert_eq!(
        failed["error"],
        json!({ "code": -32000, "message": "it failed" }),
        "as it was told"
    );
}

#[tokio::test]
async fn k14_tools_are_listed_as_mcp_lists_them() {
    let house = House::new().await;
    let listed = house.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 5);
    for tool in tools {
        assert!(tool["name"].as_str().unwrap().starts_with("files_"));
        assert!(tool["description"].is_string() && tool["inputSchema"].is_object());
        assert!(tool.get("type").is_none() && tool.get("function").is_none(), "{tool}");
    }
}

#[tokio::test]
async fn k15_arguments_may_be_missing_or_null() {
    let house = House::new().await;
    for (arguments, got) in [
        (Some(json!({ "text": "x" })), json!({ "text": "x" })),
        (Some(Value::Null), json!("none")),
        (None, json!("none")),
    ] {
        let mut params = json!({ "name": "files_echo" });
        if let Some(arguments) = arguments {
            params["arguments"] = arguments;
        }
        let answer = house.ask("tools/call", params).await;
        let text = json!({ "tool": "echo", "arguments": got });
        let told: Value =
            serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told, text);
        assert_eq!(answer["result"].as_object().unwrap().len(), 1, "nothing is added: {answer}");
    }
}

#[tokio::test]
async fn k16_resources_have_their_server_before_the_first_dot() {
    let house = House::new().await;
    let listed = house.ask("resources/list", json!({})).await;
    let resource = json!({
        "uri": "files.file:///srv/a.md", "name": "a", "description": "notes",
        "mimeType": "text/markdown",
    });
    assert_eq!(listed["result"]["resources"], json!([resource]));
    for uri in ["files.file:///srv/a.md", "files.file:///not/listed.md"] {
        let read = house.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    }
    let unknown = house.ask("resources/read", json!({ "uri": "nobody.file:///a" })).await;
    assert!(unknown["error"].is_object(), "{unknown}");
}

#[tokio::test]
async fn k17_tools_are_told_as_openai_takes_them() {
    let house = House::new().await;
    let tools = house.get("/tools?format=openai").await.json();
    assert_eq!(tools.as_array().unwrap().len(), 5);
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let function =
        json!({ "name": "files_echo", "description": "the tool echo", "parameters": schema });
    let expected = json!({ "type": "function", "function": function });
    assert!(tools.as_array().unwrap().contains(&expected), "{tools}");
    assert_eq!(house.get("/tools?format=other").await.status(), 400);
}
