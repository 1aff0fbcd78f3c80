//! Standard input and output: both eras on one connection, cancellation, bounds, bad lines, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lyceum_http::{About, Context, Handler, Outcome, Session};
use lyceum_server::stdio::{Options, serve_on};
use lyceum_wire::{Era, Member, Notification, Request, RevisionSet, RpcError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

/// A handler whose methods are what the tests need.
#[derive(Clone, Default)]
struct Fixture(Arc<State>);

#[derive(Default)]
struct State {
    running: AtomicUsize,
    most_running: AtomicUsize,
    started: AtomicUsize,
    dropped: AtomicUsize,
    gate: Notify,
    changed: Notify,
    streams: AtomicUsize,
}

/// Counts a call for as long as it runs.
struct Running<'a>(&'a State, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.fetch_add(usize::from(!self.1), Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl State {
    fn enter(&self) -> Running<'_> {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.started.fetch_add(1, Ordering::SeqCst);
        self.most_running.fetch_max(now, Ordering::SeqCst);
        self.changed.notify_waiters();
        Running(self, false)
    }

    /// Waits until `condition` holds, or the test has waited long enough.
    async fn until(&self, condition: impl Fn(&State) -> bool) {
        let waited = timeout(Duration::from_secs(10), async {
            loop {
                let changed = self.changed.notified();
                if condition(self) {
                    return;
                }
                // The counters change just before the news of it.
                let _ = timeout(Duration::from_millis(20), changed).await;
            }
        });
        waited.await.expect("the condition comes true");
    }
}

impl Handler for Fixture {
    async fn call(&self, request: Request, cx: Context) -> Result<Outcome, RpcError> {
        let mut running = self.0.enter();
        let result = match request.method.as_str() {
            "initialize" | "server/discover" | "tools/list" => {
                json!({ "revision": cx.revision.as_str(), "session": cx.session.is_some() })
            }
            "wait" => {
                self.0.gate.notified().await;
                json!({ "waited": true })
            }
            "ask" => {
                let answer = cx.ask("roots/list", b"{}").await?;
                json!({ "answer": serde_json::from_slice::<Value>(&answer).unwrap() })
            }
            "progress" => {
                let token = cx.progress_token.clone().expect("a token");
                let token = String::from_utf8_lossy(&token);
                let params = format!(r#"{{"progressToken":{token},"progress":1}}"#);
                cx.notify("notifications/progress", params.as_bytes()).await;
                json!({})
            }
            "subscriptions/listen" => {
                cx.notify("notifications/subscriptions/acknowledged", b"{}").await;
                std::future::pending().await
            }
            "echo" => {
                serde_json::from_slice(request.params.get(Member::Arguments).unwrap()).unwrap()
            }
            "panic" => panic!("on purpose"),
            method => return Err(RpcError::method_not_found(method)),
        };
        running.1 = true;
        Outcome::of(&result)
    }

    async fn notify(&self, notification: Notification, cx: Context) {
        assert_eq!(cx.era(), Era::Legacy, "{}", notification.method);
    }

    fn stream_opened(&self, session: &Arc<Session>) {
        self.0.streams.fetch_add(1, Ordering::SeqCst);
        session.notify(lyceum_wire::encode::notification("notifications/tools/list_changed", None));
    }

    fn about(&self) -> About<'_> {
        About { name: "fixture", version: "0", description: "", details: Vec::new() }
    }
}

/// The client's end of a connection.
struct Pipe {
    input: tokio::io::WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<std::io::Result<()>>,
    state: Arc<State>,
}

fn connect() -> Pipe {
    connect_with(Options::default())
}

fn connect_with(options: Options) -> Pipe {
    let fixture = Fixture::default();
    let state = Arc::clone(&fixture.0);
    let (client, server) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(server);
    let server = tokio::spawn(serve_on(fixture, options, input, output));
    let (output, input) = tokio::io::split(client);
    Pipe { input, output: BufReader::new(output), server, state }
}

impl Pipe {
    async fn send(&mut self, line: impl AsRef<[u8]>) {
        self.input.write_all(line.as_ref()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn line(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(10), self.output.read_line(&mut line));
        assert_ne!(read.await.expect("a line in time").unwrap(), 0, "the server hung up");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn ask(&mut self, line: impl AsRef<[u8]>) -> Value {
        self.send(line).await;
        self.line().await
    }

    /// Ends the input and returns what is left of the output.
    async fn end(mut self) -> String {
        self.input.shutdown().await.unwrap();
        let mut rest = String::new();
        let read = self.output.read_to_string(&mut rest);
        timeout(Duration::from_secs(10), read).await.expect("the server ends").unwrap();
        self.server.await.unwrap().unwrap();
        rest
    }
}

fn modern(id: u32, method: &str) -> String {
    modern_at("2026-07-28", id, method)
}

fn modern_at(version: &str, id: u32, method: &str) -> String {
    json!({
        "jsonrpc": "2.0", "id": id, "method": method,
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": "t",
        } },
    })
    .to_string()
}

fn legacy(id: u32, method: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string()
}

fn initialize(version: &str) -> String {
    let params = json!({ "protocolVersion": version, "capabilities": {} });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

fn cancel(id: u32) -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
        .to_string()
}

/// Sends one line to a fresh connection and compares the one line that comes back.
async fn check(line: impl AsRef<[u8]>, expected: Value) {
    let mut pipe = connect();
    let answer = pipe.ask(&line).await;
    let shown = String::from_utf8_lossy(line.as_ref()).into_owned();
    let subset = expected.as_object().unwrap().iter();
    for (name, value) in subset {
        if name == "code" {
            assert_eq!(&answer["error"]["code"], value, "{shown} -> {answer}");
        } else {
            assert_eq!(&answer[name], value, "{shown} -> {answer}");
        }
    }
    assert_eq!(pipe.end().await, "", "{shown}: one line");
}

#[tokio::test]
async fn first_line_settles_how_it_is_served() {
    let served = |revision, session| json!({ "revision": revision, "session": session });
    check(modern(1, "server/discover"), json!({ "result": served("2026-07-28", false) })).await;
    check(modern(1, "tools/list"), json!({ "result": served("2026-07-28", false) })).await;
    check(initialize("2025-06-18"), json!({ "id": 0, "result": served("2025-06-18", true) })).await;
    check(initialize("2026-07-28"), json!({ "result": served("2025-11-25", true) })).await;
    check(legacy(1, "tools/list"), json!({ "result": served("2025-03-26", true) })).await;
}

#[tokio::test]
async fn probes_get_modern_errors() {
    let unsupported = json!({ "id": 1, "code": -32022 });
    check(modern_at("2031-01-01", 1, "server/discover"), unsupported.clone()).await;
    check(modern_at("2025-11-25", 1, "tools/list"), unsupported).await;
    check(legacy(1, "server/discover"), json!({ "id": 1, "code": -32602 })).await;
    check(modern(1, "no/such"), json!({ "id": 1, "code": -32601 })).await;
}

#[tokio::test]
async fn bad_lines_are_answered_and_the_next_one_is_served() {
    check("junk", json!({ "code": -32700 })).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", json!({ "code": -32700 })).await;
    check("{}", json!({ "code": -32600 })).await;
    check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, json!({ "code": -32600 })).await;
    check(r#"{"jsonrpc":"2.0","id":7,"method":1}"#, json!({ "id": 7, "code": -32600 })).await;
    let mut pipe = connect();
    pipe.send("junk\n\n").await;
    assert_eq!(pipe.line().await["error"]["code"], -32700);
    assert_eq!(pipe.ask(legacy(2, "tools/list")).await["id"], 2);
}

#[tokio::test]
async fn line_that_is_too_long_is_skipped() {
    let mut pipe = connect_with(Options { line_bytes: 1000, ..Options::default() });
    let long = format!("{:>10000}", modern(1, "tools/list"));
    let answer = pipe.ask(long).await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(answer["error"]["message"].as_str().unwrap().contains("1000 bytes"), "{answer}");
    assert_eq!(pipe.ask(modern(2, "tools/list")).await["id"], 2);
}

#[tokio::test]
async fn both_eras_share_a_connection() {
    let mut pipe = connect();
    assert_eq!(pipe.ask(initialize("2025-11-25")).await["result"]["revision"], "2025-11-25");
    assert_eq!(pipe.ask(modern(1, "tools/list")).await["result"]["revision"], "2026-07-28");
    assert_eq!(pipe.ask(legacy(2, "tools/list")).await["result"]["revision"], "2025-11-25");
}

#[tokio::test]
async fn requests_sent_without_waiting_see_the_settled_revision() {
    let mut pipe = connect();
    pipe.send(format!("{}\n{}", initialize("2024-11-05"), legacy(1, "tools/list"))).await;
    let mut answers = [pipe.line().await, pipe.line().await];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[1]["result"]["revision"], "2024-11-05");
}

#[tokio::test]
async fn calls_run_at_the_same_time_and_answer_in_any_order() {
    let mut pipe = connect();
    pipe.send(modern(1, "wait")).await;
    assert_eq!(pipe.ask(modern(2, "tools/list")).await["id"], 2);
    pipe.state.gate.notify_one();
    assert_eq!(pipe.line().await["id"], 1);
}

#[tokio::test]
async fn ids_go_back_verbatim() {
    for id in ["1.0", "18446744073709551616", "\"a\\u0041\"", "-7"] {
        let mut pipe = connect();
        pipe.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#)).await;
        let answer = pipe.end().await;
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{answer}");
    }
}

#[tokio::test]
async fn id_in_use_is_refused() {
    let mut pipe = connect();
    pipe.send(modern(1, "wait")).await;
    let answer = pipe.ask(modern(1, "tools/list")).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
}

#[tokio::test]
async fn cancelling_drops_the_call_in_both_eras() {
    for start in [modern(1, "wait"), legacy(1, "wait"), modern(1, "subscriptions/listen")] {
        let mut pipe = connect();
        pipe.send(&start).await;
        pipe.state.until(|state| state.running.load(Ordering::SeqCst) == 1).await;
        pipe.send(cancel(1)).await;
        pipe.state.until(|state| state.dropped.load(Ordering::SeqCst) == 1).await;
        // The id is free again, and the cancelled call never answers.
        let rest = format!("{}\n", modern(1, "tools/list"));
        pipe.send(rest).await;
        let answers = pipe.end().await;
        assert!(answers.ends_with("}\n"), "{answers}");
        let n_answers = answers.matches("\"result\"").count();
        assert_eq!(n_answers, 1, "{start} -> {answers}");
    }
}

#[tokio::test]
async fn calls_are_bounded_and_further_ones_wait() {
    let mut pipe = connect_with(Options { in_flight: 2, ..Options::default() });
    for id in 1..=5 {
        pipe.send(modern(id, "wait")).await;
    }
    pipe.state.until(|state| state.running.load(Ordering::SeqCst) == 2).await;
    // A waiting call can be cancelled before it ever runs.
    pipe.send(cancel(5)).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        pipe.state.gate.notify_one();
        seen.push(pipe.line().await["id"].as_u64().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
    let state = Arc::clone(&pipe.state);
    assert_eq!(pipe.end().await, "");
    assert_eq!(state.most_running.load(Ordering::SeqCst), 2);
    assert_eq!(state.started.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn calls_that_wait_for_answers_do_not_keep_answers_from_being_read() {
    let mut pipe = connect_with(Options { in_flight: 1, ..Options::default() });
    pipe.send(legacy(10, "ask")).await;
    pipe.send(legacy(11, "ask")).await;
    let questions = [pipe.line().await, pipe.line().await];
    assert_eq!(questions[0]["method"], "roots/list");
    for question in &questions {
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } });
        pipe.send(answer.to_string()).await;
        let answer = pipe.line().await;
        assert_eq!(answer["result"]["answer"], json!({ "roots": [] }));
    }
}

#[tokio::test]
async fn client_error_reaches_the_handler() {
    let mut pipe = connect();
    let question = pipe.ask(legacy(1, "ask")).await;
    let error = json!({ "code": -1, "message": "no" });
    let answer = pipe
        .ask(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }).to_string())
        .await;
    assert_eq!(answer["error"], json!({ "code": -1, "message": "no" }));
}

#[tokio::test]
async fn servers_never_ask_in_the_modern_era() {
    check(modern(1, "ask"), json!({ "id": 1, "code": -32603 })).await;
}

#[tokio::test]
async fn notifications_come_before_their_result() {
    let mut pipe = connect();
    let progress = pipe.ask(modern(1, "progress")).await;
    assert_eq!(progress["params"]["progressToken"], "t");
    assert_eq!(pipe.line().await["id"], 1);
}

#[tokio::test]
async fn subscriptions_take_no_slot_and_end_with_the_input() {
    let drain = Duration::from_secs(3600);
    let mut pipe = connect_with(Options { in_flight: 1, drain, ..Options::default() });
    let acknowledged = pipe.ask(modern(1, "subscriptions/listen")).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(pipe.ask(modern(2, "tools/list")).await["id"], 2);
    assert_eq!(pipe.ask(modern(3, "subscriptions/listen")).await["error"]["code"], -32600);
    assert_eq!(pipe.end().await, "");
}

#[tokio::test]
async fn running_calls_take_no_subscription_away() {
    let mut pipe = connect_with(Options { in_flight: 1, ..Options::default() });
    pipe.send(modern(1, "wait")).await;
    let acknowledged = pipe.ask(modern(2, "subscriptions/listen")).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test]
async fn initialized_opens_the_way_for_the_servers_own_messages() {
    let mut pipe = connect();
    pipe.ask(initialize("2025-11-25")).await;
    let news = pipe.ask(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(news["method"], "notifications/tools/list_changed");
    assert_eq!(pipe.state.streams.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn batches_exist_in_one_revision_only() {
    let batch = format!(
        "[{},{},{}]",
        legacy(1, "tools/list"),
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        legacy(2, "no/such"),
    );
    let mut pipe = connect();
    pipe.ask(initialize("2025-03-26")).await;
    let answers = pipe.ask(&batch).await;
    assert_eq!((&answers[0]["id"], &answers[1]["error"]["code"]), (&json!(1), &json!(-32601)));
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut pipe = connect();
        pipe.ask(initialize(revision)).await;
        let answer = pipe.ask(&batch).await;
        assert_eq!(answer["error"]["code"], -32600, "{revision}");
    }
}

#[tokio::test]
async fn panicking_handler_answers_with_an_error() {
    check(modern(1, "panic"), json!({ "id": 1, "code": -32603 })).await;
}

#[tokio::test]
async fn calls_finish_after_the_input_ended() {
    let mut pipe = connect_with(Options { in_flight: 1, ..Options::default() });
    pipe.send(modern(1, "wait")).await;
    pipe.send(modern(2, "tools/list")).await;
    let state = Arc::clone(&pipe.state);
    state.until(|state| state.running.load(Ordering::SeqCst) == 1).await;
    state.gate.notify_one();
    let answers = pipe.end().await;
    assert_eq!(answers.lines().count(), 2, "{answers}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_finish_are_given_up() {
    let mut pipe = connect();
    pipe.send(modern(1, "wait")).await;
    let started = tokio::time::Instant::now();
    assert_eq!(pipe.end().await, "");
    assert!(started.elapsed() <= Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn client_that_stops_reading_is_waited_for_not_buffered_for() {
    let options = Options { queue_bytes: 1000, in_flight: 4, ..Options::default() };
    let mut pipe = connect_with(options);
    let text = "x".repeat(10_000);
    let echo = |id: usize| {
        let params = json!({ "arguments": text });
        json!({ "jsonrpc": "2.0", "id": id, "method": "echo", "params": params }).to_string()
    };
    let mut sent = 0;
    while sent < 2000 && timeout(Duration::from_millis(500), pipe.send(echo(sent))).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 1000, "{sent} answers of 10 kB are kept somewhere");
    assert_eq!(pipe.line().await["result"], text.as_str());
}

#[tokio::test]
async fn client_that_goes_away_ends_the_server() {
    let drain = Duration::from_millis(20);
    let mut pipe = connect_with(Options { drain, ..Options::default() });
    pipe.send(modern(1, "wait")).await;
    let Pipe { input, output, server, state } = pipe;
    drop((input, output));
    let ended = timeout(Duration::from_secs(10), server).await.expect("the server ends");
    ended.unwrap().unwrap();
    state.until(|state| state.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn served_revisions_can_be_narrowed() {
    let only = |served| Options { served, ..Options::default() };
    let mut modern_only = connect_with(only(RevisionSet::MODERN));
    assert_eq!(modern_only.ask(initialize("2025-11-25")).await["error"]["code"], -32022);
    let mut legacy_only = connect_with(only(RevisionSet::LEGACY));
    assert_eq!(legacy_only.ask(modern(1, "tools/list")).await["error"]["code"], -32022);
}
