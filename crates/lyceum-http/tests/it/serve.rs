//! The accept loop: deadlines for slow clients, keep-alive, and the drain.

use lyceum_http::ServeOptions;
use lyceum_testkit::{Connection, Request, Server};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::lab::{Lab, PATH, call, get, initialize, modern, text_of};
use crate::matrix::succeeded;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn echo(text: &str) -> Request {
    modern(7, "echo", json!({"text": text}))
}

/// A server whose deadlines for heads and for idling are short.
async fn hasty(lab: &Lab, head: Duration) -> Server {
    lab.serve_with(ServeOptions { head, idle: head, ..ServeOptions::default() }).await
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    for number in 0..100 {
        let response = connection.call(&echo(&number.to_string())).await;
        assert_eq!(text_of(&response.json()), number.to_string());
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    let requests: Vec<u8> =
        (0..10).flat_map(|number| echo(&number.to_string()).to_bytes()).collect();
    connection.send(requests).await;
    for number in 0..10 {
        assert_eq!(text_of(&connection.response().await.json()), number.to_string());
    }
}

#[tokio::test]
async fn answers_are_not_held_back_by_nagle() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    connection.call(&echo("warm")).await;
    let start = Instant::now();
    for _ in 0..20 {
        let response = connection.call(&modern(7, "burst", json!({"n": 3}))).await;
        assert_eq!(response.events().len(), 4);
    }
    // Small writes that wait for an acknowledgement cost 40 ms each.
    assert!(start.elapsed() < Duration::from_millis(20 * 35), "{:?}", start.elapsed());
}

#[tokio::test]
async fn slow_heads_of_every_kind_are_cut_off() {
    let lab = Lab::new();
    let head = Duration::from_millis(400);
    let server = hasty(&lab, head).await;
    let request = echo("slow").to_bytes();
    let upgraded = [PREFACE, b"\0\0"].concat();
    let starts = [
        &b""[..],
        b"P",
        b"PR",
        b"PRI",
        b"PRI ",
        b"G",
        b"POST /mcp",
        &request[..60],
        PREFACE,
        &upgraded,
    ];
    let mut connections = Vec::new();
    for start in starts {
        let mut connection = server.connect().await;
        connection.send(start).await;
        if start.starts_with(PREFACE) {
            // The server says hello in HTTP/2 first.
            assert!(!connection.raw(9).await.is_empty());
        }
        connections.push(connection);
    }
    for (start, connection) in starts.into_iter().zip(&mut connections) {
        let start = String::from_utf8_lossy(start);
        assert!(connection.closes_within(4 * head).await, "{start:?} is still open");
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn head_that_trickles_in_is_cut_off_however_steady() {
    let lab = Lab::new();
    let head = Duration::from_millis(400);
    let server = hasty(&lab, head).await;
    let mut connection = server.connect().await;
    let request = echo("slow").to_bytes();
    let start = Instant::now();
    connection.send_slowly(&request[..100], 2, Duration::from_millis(50)).await;
    connection.closed().await;
    assert!(start.elapsed() < 5 * head, "{:?}", start.elapsed());
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn idle_connection_is_closed_and_a_busy_one_is_not() {
    let lab = Lab::new();
    let head = Duration::from_millis(400);
    let server = hasty(&lab, head).await;
    let mut idle = server.connect().await;
    idle.call(&echo("once")).await;
    let mut talking = server.connect().await;
    let mut waiting = server.connect().await;
    waiting.send(modern(7, "puppet", json!({"name": "p"})).to_bytes()).await;
    let puppet = lab.fixture.puppet("p").await;
    for _ in 0..12 {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(talking.call(&echo("hi")).await.status(), 200);
    }
    assert!(idle.closes_within(Duration::from_millis(10)).await);
    puppet.finish("patience");
    assert_eq!(text_of(&waiting.response().await.json()), "patience", "its answer was under way");
    talking.call(&echo("bye")).await;
}

/// Without it they would wait until others were idle for 75 seconds.
#[tokio::test]
async fn idle_connections_make_room_for_new_ones_and_busy_ones_stay() {
    let lab = Lab::new();
    let options = ServeOptions { connections: 8, ..ServeOptions::default() };
    let server = lab.serve_with(options).await;
    let mut waiting = server.connect().await;
    waiting.send(modern(7, "puppet", json!({"name": "p"})).to_bytes()).await;
    let puppet = lab.fixture.puppet("p").await;
    let mut idle = Vec::new();
    for number in 0..40 {
        let mut connection = server.connect().await;
        if number % 2 == 0 {
            connection.call(&echo("once")).await;
        }
        idle.push(connection);
        let served = timeout(Duration::from_secs(5), async {
            server.connect().await.call(&echo("innocent")).await
        });
        assert_eq!(served.await.expect("room was made").status(), 200);
    }
    assert!(idle[0].closes_within(Duration::from_secs(5)).await);
    puppet.finish("patience");
    assert_eq!(text_of(&waiting.response().await.json()), "patience");
}

#[tokio::test]
async fn every_answer_forbids_browsers_to_guess_its_type() {
    let server = Lab::new().serve().await;
    for (request, status) in [
        (echo("hi"), 200),
        (initialize("2025-11-25"), 200),
        (modern(7, "burst", json!({})), 200),
        (echo("hi").header("origin", "https://evil.example"), 403),
        (Request::new("GET", "/nowhere"), 404),
        (Request::new("PUT", PATH), 405),
        (Request::post(PATH, "{"), 400),
        (Request::new("OPTIONS", PATH), 204),
    ] {
        let response = server.connect().await.call(&request).await;
        assert_eq!(response.status(), status, "{}", request.target);
        assert_eq!(response.head.get("x-content-type-options"), Some("nosniff"), "{status}");
    }
}

#[tokio::test]
async fn kept_connection_may_idle_longer_than_a_head_may_take() {
    let lab = Lab::new();
    let head = Duration::from_millis(200);
    let server = lab.serve_with(ServeOptions { head, ..ServeOptions::default() }).await;
    let (mut idle, mut slow) = (server.connect().await, server.connect().await);
    idle.call(&echo("once")).await;
    slow.call(&echo("once")).await;
    slow.send(&echo("slow").to_bytes()[..30]).await;
    assert!(slow.closes_within(10 * head).await, "a head has begun");
    sleep(3 * head).await;
    assert_eq!(idle.call(&echo("again")).await.status(), 200);
}

#[tokio::test]
async fn slow_download_is_not_cut_off_while_it_moves() {
    let lab = Lab::new();
    let head = Duration::from_millis(300);
    let server = hasty(&lab, head).await;
    let mut connection = Connection::open_narrow(server.address(), 64 << 10).await;
    let bytes = 12 << 20;
    connection.send(modern(7, "big", json!({"bytes": bytes})).to_bytes()).await;
    let mut read = 0;
    // The whole answer is in the server's hands at once; the client takes three times the deadline.
    for _ in 0..18 {
        sleep(Duration::from_millis(50)).await;
        read += connection.raw(512 << 10).await.len();
    }
    read += connection.raw(bytes - read).await.len();
    assert!(read >= bytes, "{read} of {bytes} bytes arrived");
}

#[tokio::test]
async fn idle_event_stream_is_not_cut_off() {
    let lab = Lab::new();
    let head = Duration::from_millis(200);
    let server = hasty(&lab, head).await;
    let session = lab.session("2025-06-18").await;
    let (_, mut events) = server.connect().await.stream(&get(&session)).await;
    sleep(5 * head).await;
    lab.fixture.announce("still here");
    assert_eq!(events.next().await.unwrap().json()["params"]["data"], "still here");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn_when_all_are_busy() {
    let lab = Lab::new();
    let options = ServeOptions { connections: 2, ..ServeOptions::default() };
    let server = lab.serve_with(options).await;
    let mut busy = Vec::new();
    // One more than the limit has a place, so that an idle one can be found to make room.
    for name in ["a", "b", "c"] {
        let mut connection = server.connect().await;
        connection.send(modern(7, "puppet", json!({"name": name})).to_bytes()).await;
        busy.push((connection, lab.fixture.puppet(name).await));
    }
    let mut another = server.connect().await;
    another.send(echo("3").to_bytes()).await;
    assert!(timeout(Duration::from_millis(100), another.head()).await.is_err());
    drop(busy.pop());
    assert_eq!(another.response().await.status(), 200);
}

#[tokio::test]
async fn drain_lets_running_requests_finish_and_closes_the_rest() {
    let lab = Lab::new();
    let mut server = lab.serve().await;
    let session = lab.session("2025-06-18").await;
    let (mut silent, mut sliver) = (server.connect().await, server.connect().await);
    sliver.send("P").await;
    let mut idle = server.connect().await;
    idle.call(&echo("idle")).await;
    let modern = modern(7, "puppet", json!({"name": "modern"}));
    let legacy = call(&session, 7, "puppet", json!({"name": "legacy"}));
    let mut running = Vec::new();
    for request in [modern, legacy] {
        let mut connection = server.connect().await;
        connection.send(request.to_bytes()).await;
        running.push(connection);
    }
    let puppets = [lab.fixture.puppet("modern").await, lab.fixture.puppet("legacy").await];
    server.begin_stop();
    for connection in [&mut silent, &mut sliver, &mut idle] {
        assert!(connection.closes_within(Duration::from_secs(2)).await);
    }
    for (puppet, connection) in puppets.iter().zip(&mut running) {
        puppet.finish("finished");
        assert_eq!(text_of(&connection.response().await.json()), "finished");
        assert!(connection.closes_within(Duration::from_secs(2)).await);
    }
    timeout(Duration::from_secs(2), server.stopped()).await.unwrap();
}

#[tokio::test]
async fn drain_ends_standalone_streams_and_no_calls() {
    let lab = Lab::new();
    let mut server = lab.serve().await;
    let session = lab.session("2025-06-18").await;
    let sse = Request::new("GET", "/sse").header("accept", "text/event-stream");
    let (_, mut old) = server.connect().await.stream(&sse).await;
    let address = old.next().await.unwrap().data;
    let old_call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "puppet", "arguments": {"name": "old"}}});
    server.connect().await.call(&Request::post(&address, old_call.to_string())).await;
    let (_, mut standalone) = server.connect().await.stream(&get(&session)).await;
    let mut calling = server.connect().await;
    calling.send(call(&session, 7, "puppet", json!({"name": "new"})).to_bytes()).await;
    let puppets = [lab.fixture.puppet("old").await, lab.fixture.puppet("new").await];
    lab.endpoint.close_streams();
    server.begin_stop();
    puppets.iter().for_each(|puppet| puppet.finish("finished"));
    assert_eq!(text_of(&old.next().await.unwrap().json()), "finished");
    assert_eq!(old.next().await, None);
    assert_eq!(text_of(&calling.response().await.json()), "finished");
    assert_eq!(standalone.next().await, None);
    timeout(Duration::from_secs(2), server.stopped()).await.unwrap();
}

#[tokio::test]
async fn drain_ends_at_its_deadline() {
    let lab = Lab::new();
    let options = ServeOptions { drain: Duration::from_millis(200), ..ServeOptions::default() };
    let mut server = lab.serve_with(options).await;
    let mut connection = server.connect().await;
    connection.send(modern(7, "hang", json!({})).to_bytes()).await;
    lab.fixture.until_running(1).await;
    server.begin_stop();
    timeout(Duration::from_secs(2), server.stopped()).await.unwrap();
    assert!(connection.closes_within(Duration::from_secs(2)).await);
    timeout(Duration::from_secs(2), lab.fixture.until_running(0)).await.unwrap();
}

#[tokio::test]
async fn no_connection_is_accepted_once_the_drain_begins() {
    let lab = Lab::new();
    let mut server = lab.serve().await;
    let address = server.address();
    server.begin_stop();
    timeout(Duration::from_secs(2), server.stopped()).await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn eight_hundred_slow_heads_are_closed_while_others_are_served() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let start = Instant::now();
    let request = initialize("2025-11-25").to_bytes();
    let mut slow = Vec::new();
    for number in 0..800 {
        let mut connection = server.connect().await;
        // A few bytes of a head, sometimes none, and one more every two seconds.
        connection.send(&request[..number % 40]).await;
        let rest = request[number % 40..].to_vec();
        slow.push(tokio::spawn(async move {
            connection.send_slowly(&rest[..20], 1, Duration::from_secs(2)).await;
            connection.closed().await;
        }));
    }
    let mut slowest = Duration::ZERO;
    let mut served = server.connect().await;
    while slow.iter().any(|task| !task.is_finished()) {
        assert!(start.elapsed() < Duration::from_secs(20), "some are still open");
        let asked = Instant::now();
        assert_eq!(served.call(&echo("hi")).await.status(), 200);
        slowest = slowest.max(asked.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    assert!(slowest < Duration::from_secs(1), "a served client waited {slowest:?}");
    for task in slow {
        task.await.unwrap();
    }
    assert_eq!(lab.fixture.notes(), 0);
}

#[tokio::test]
async fn http_1_0_clients_are_served() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection: Connection = server.connect().await;
    let request =
        String::from_utf8(echo("old").to_bytes()).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    connection.send(request).await;
    succeeded(&connection.response().await, 7);
    assert!(connection.closes_within(Duration::from_secs(2)).await, "{PATH}");
}
