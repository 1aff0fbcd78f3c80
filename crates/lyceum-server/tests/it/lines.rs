//! Our own client and our own server over an in-memory pipe, in both eras.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lyceum_http::client::{
    CallOptions, Client, ClientHandler, Peer, ServerNotification, ServerRequest,
};
use lyceum_http::{ByteBudgets, Limits, PATIENCE};
use lyceum_server::stdio::{Options, serve_on};
use lyceum_server::{Call, LogLevel, NoArguments, Resource, Server, tool};
use lyceum_wire::{Era, RevisionSet, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Tells how many calls are waiting.
struct Waiting(watch::Sender<usize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|n_waiting| *n_waiting -= 1);
    }
}

fn server(n_waiting: &watch::Sender<usize>) -> Server {
    let n_waiting = n_waiting.clone();
    Server::builder("lines", "1")
        .tool(tool("greet", "Asks for a name.", |cx: Call, _: NoArguments| async move {
            let Name { name } = cx.elicit("user_name", "What is your name?").await?;
            Ok(format!("Hi, {name}!"))
        }))
        .tool(tool("emit", "Reports.", |cx: Call, _: NoArguments| async move {
            for n in 1..=100 {
                cx.progress(f64::from(n), None).await;
            }
            cx.log(LogLevel::Warning, "here", &"careful").await;
            Ok("done")
        }))
        .tool(tool("wait", "Never ends.", move |_: Call, _: NoArguments| {
            n_waiting.send_modify(|n_waiting| *n_waiting += 1);
            let waiting = Waiting(n_waiting.clone());
            async move {
                std::future::pending::<()>().await;
                drop(waiting);
                Ok("")
            }
        }))
        .resource(Resource::text("x://a", "a", "A"))
        .build()
}

/// Answers questions with a name, and passes on what it hears.
#[derive(Clone)]
struct Human(mpsc::UnboundedSender<String>);

impl ClientHandler for Human {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        assert_eq!(request.method, "elicitation/create");
        Ok(Bytes::from_static(br#"{"action":"accept","content":{"name":"Ana"}}"#))
    }

    async fn notification(&self, notification: ServerNotification) {
        // Gives the answer every chance to overtake.
        tokio::task::yield_now().await;
        let params = notification.params.unwrap_or_default();
        let text = format!("{} {}", notification.method, String::from_utf8_lossy(&params));
        self.0.send(text).unwrap();
    }
}

struct Stage {
    server: Server,
    peer: Peer,
    heard: mpsc::UnboundedReceiver<String>,
    human: Human,
    n_waiting: watch::Receiver<usize>,
}

async fn stage(versions: RevisionSet) -> Stage {
    let (sender, n_waiting) = watch::channel(0);
    let server = server(&sender);
    let (near, far) = tokio::io::duplex(1 << 10);
    let (input, output) = tokio::io::split(far);
    tokio::spawn(serve_on(server.clone(), Options::default(), input, output));
    let (said, heard) = mpsc::unbounded_channel();
    let human = Human(said);
    let client = Client::builder("").name("c", "1").versions(versions).handler(human.clone());
    let client = client.capabilities(r#"{"elicitation":{}}"#);
    let (reader, writer) = tokio::io::split(near);
    let peer = client.connect_over(reader, writer).await.unwrap();
    Stage { server, peer, heard, human, n_waiting }
}

async fn each_era(check: impl AsyncFn(Stage)) {
    for (versions, era) in [(RevisionSet::ALL, Era::Modern), (RevisionSet::LEGACY, Era::Legacy)] {
        let stage = stage(versions).await;
        assert_eq!(stage.peer.era(), era);
        check(stage).await;
    }
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    each_era(async |stage| {
        let names: Vec<_> =
            stage.peer.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["greet", "emit", "wait"]);
        assert_eq!(stage.peer.list_resources().await.unwrap().len(), 1);
        let read = stage.peer.call("resources/read", r#"{"uri":"x://a"}"#).await.unwrap();
        assert!(String::from_utf8_lossy(&read).contains(r#""text":"A""#), "{read:?}");
        let unknown = stage.peer.call("no/such", "").await.unwrap_err();
        assert_eq!(unknown.rpc().unwrap().code.0, -32601);
    })
    .await;
}

#[tokio::test]
async fn questions_are_answered() {
    each_era(async |stage| {
        let done = stage.peer.call_tool("greet", "{}", &CallOptions::new()).await.unwrap();
        assert!(String::from_utf8_lossy(&done).contains("Hi, Ana!"), "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn progress_and_log_messages_come_before_the_answer() {
    each_era(async |mut stage| {
        let options = CallOptions::new().progress_to_handler().log_level(LogLevel::Info);
        let options = options.handler(stage.human.clone());
        stage.peer.call_tool("emit", "{}", &options).await.unwrap();
        for n in 1..=100 {
            let text = stage.heard.try_recv().unwrap();
            assert!(text.ends_with(&format!(r#""progress":{n}}}"#)), "{n}: {text}");
        }
        assert!(stage.heard.try_recv().unwrap().contains("careful"));
        let progress = Arc::new(Mutex::new(0));
        let sink = Arc::clone(&progress);
        let options = CallOptions::new().on_progress(move |_| *sink.lock().unwrap() += 1);
        stage.peer.call_tool("emit", "{}", &options).await.unwrap();
        assert_eq!(*progress.lock().unwrap(), 100);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_dropped_stops() {
    each_era(async |mut stage| {
        let peer = stage.peer.clone();
        let call = tokio::spawn(async move {
            peer.call_tool("wait", "{}", &CallOptions::new()).await.unwrap();
        });
        stage.n_waiting.wait_for(|n_waiting| *n_waiting == 1).await.unwrap();
        call.abort();
        stage.n_waiting.wait_for(|n_waiting| *n_waiting == 0).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn changes_are_told() {
    let mut legacy = stage(RevisionSet::LEGACY).await;
    legacy.peer.call("ping", "").await.unwrap();
    legacy.server.tools_changed();
    assert_eq!(legacy.heard.recv().await.unwrap().trim(), "notifications/tools/list_changed");

    let modern = stage(RevisionSet::ALL).await;
    let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x://a"]}"#;
    let mut all = modern.peer.listen(filter).await.unwrap();
    let mut one = modern.peer.listen(r#"{"resourceSubscriptions":["x://a"]}"#).await.unwrap();
    modern.server.tools_changed();
    let told = all.next().await.unwrap().unwrap();
    assert_eq!(told.method, "notifications/tools/list_changed");
    modern.server.resource_updated("x://a");
    for subscription in [&mut all, &mut one] {
        let told = subscription.next().await.unwrap().unwrap();
        assert_eq!(told.method, "notifications/resources/updated");
    }
    modern.server.close();
    assert!(all.next().await.is_none());
}

#[tokio::test]
async fn the_server_leaves_with_its_client() {
    let (near, far) = tokio::io::duplex(1 << 10);
    let (input, output) = tokio::io::split(far);
    let server = server(&watch::Sender::new(0));
    let served = tokio::spawn(serve_on(server, Options::default(), input, output));
    let (reader, writer) = tokio::io::split(near);
    let peer = Client::builder("").name("c", "1").connect_over(reader, writer).await.unwrap();
    let clone = peer.clone();
    peer.close().await;
    clone.closed().await;
    served.await.unwrap().unwrap();
}

/// Sends requests to a server whose answers have 200 KiB, reads nothing for a while, then all of it;
/// what was held meanwhile, and the lines.
async fn read_late(requests: &[String], n_lines: usize) -> (usize, Vec<String>) {
    let limits = Limits { answer_bytes: 1 << 20, answers_bytes: 4 << 20, ..Limits::default() };
    let budgets = Arc::new(ByteBudgets::new(&limits));
    let options = Options { budgets: Arc::clone(&budgets), ..Options::default() };
    let big = tool("big", "A lot.", |_: Call, _: NoArguments| async { Ok("x".repeat(200 << 10)) });
    let server = Server::builder("lines", "1").tool(big).build();
    let (near, far) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(far);
    tokio::spawn(serve_on(server, options, input, output));
    let (reader, mut writer) = tokio::io::split(near);
    for request in requests {
        writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    }
    tokio::time::sleep(2 * PATIENCE).await;
    let held = budgets.answers.held();
    let mut lines = BufReader::new(reader).lines();
    let mut read = Vec::new();
    while read.len() < n_lines {
        read.push(lines.next_line().await.unwrap().unwrap());
    }
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(budgets.answers.held(), 0, "what was written is given back");
    (held, read)
}

fn big(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"big"}}}}"#)
}

#[tokio::test(start_paused = true)]
async fn answers_nobody_reads_are_charged_and_further_ones_refused() {
    let requests: Vec<String> = (0..40).map(big).collect();
    let (held, lines) = read_late(&requests, 40).await;
    assert!((1 << 20..=2 << 20).contains(&held), "{held}");
    let refused: Vec<&String> = lines.iter().filter(|line| line.contains("\"error\"")).collect();
    assert!((20..40).contains(&refused.len()), "{} of 40 refused", refused.len());
    assert!(refused[0].contains("read what was answered, then try again"), "{}", refused[0]);
}

#[tokio::test(start_paused = true)]
async fn answers_of_a_batch_share_one_bound() {
    let batch: Vec<String> = (0..20).map(big).collect();
    let (held, lines) = read_late(&[format!("[{}]", batch.join(","))], 1).await;
    assert!(held <= 512 << 10, "{held}");
    assert!(lines[0].len() < 512 << 10, "{}", lines[0].len());
    assert_eq!(lines[0].matches("ask for this one by itself").count(), 19);
}
