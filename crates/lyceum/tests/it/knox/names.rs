//! Names and discovery.

use serde_json::json;

use super::house::{House, stdio};

#[tokio::test]
async fn k30_tools_are_known_by_server_and_name() {
    let both = stdio("files", &[]).await + &stdio("web-2", &[]).await;
    let tools = House::with(&both).await.get("/tools").await.json();
    for name in ["files_echo", "web-2_echo"] {
        assert_eq!(tools[name]["name"], "echo", "{tools}");
    }
}

#[tokio::test]
async fn k31_names_are_made_of_letters_every_client_takes() {
    let house = House::with(&stdio("1st", &[]).await).await;
    let answer = house.ask("tools/call", json!({ "name": "_1st_add_numbers" })).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("add@numbers"), "the server hears its own name: {text}");
}

#[tokio::test]
async fn k32_tools_are_found_by_the_forms_clients_know() {
    let house = House::new().await;
    for name in ["files_echo", "files.echo", "echo", "files.add@numbers"] {
        assert!(house.told(name).await["tool"].is_string(), "{name}");
    }
    let both = stdio("a", &[]).await + &stdio("b", &[]).await;
    let answer = House::with(&both).await.ask("tools/call", json!({ "name": "echo" })).await;
    assert_eq!(answer["error"]["code"], -32603, "which one is meant? {answer}");
}

#[tokio::test]
async fn k33_everything_is_listed_and_a_failing_list_costs_only_itself() {
    let house = House::with(&stdio("files", &["--no-resources"]).await).await;
    let health = house.get("/health").await.json();
    assert_eq!((&health["tools"], &health["resources"]), (&json!(5), &json!(0)), "all pages");
    assert!(house.told("files_who").await["pid"].is_number());
}

#[tokio::test]
async fn k34_the_first_request_waits_for_servers_that_are_being_started() {
    let file = stdio("files", &[]).await;
    let tools = House::unsettled(&file).await.get("/tools").await.json();
    assert!(tools["files_echo"].is_object(), "{tools}");
    let resources = House::unsettled(&file).await.get("/resources").await.json();
    assert!(resources["files.file:///srv/a.md"].is_object(), "{resources}");
    let listed = House::unsettled(&file).await.ask("tools/list", json!({})).await;
    assert!(listed.to_string().contains("files_echo"), "{listed}");
}

#[tokio::test]
async fn k34_a_server_that_cannot_start_costs_only_its_own_tools() {
    let bad = "[[upstream]]\nname = \"bad\"\ncommand = [\"/no/such/program\"]\n";
    let house = House::unsettled(&(bad.to_owned() + &stdio("files", &[]).await)).await;
    house.settled(1).await;
    assert!(house.told("files_who").await["pid"].is_number());
    let health = house.get("/health?detail=1").await.json();
    assert_eq!(health["status"], "healthy");
    assert_ne!(health["servers"]["bad"]["status"], "up");
}
