//! The model against a real server on loopback, which counts what it is asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

/// A request as the server saw it.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    authorization: Option<String>,
    body: Value,
}

/// What the server says: status, `Retry-After`, body.
type Reply = (u16, Option<&'static str>, String);

struct Service {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// A server whose n-th answer is `reply(n, body)`.
    async fn start(reply: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, reply) = (Arc::clone(&asked), Arc::new(reply));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, reply) = (Arc::clone(&seen), Arc::clone(&reply));
                let service = service_fn(move |request| {
                    let (seen, reply) = (Arc::clone(&seen), Arc::clone(&reply));
                    async move { answer(request, &seen, &*reply).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Service { address, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn model(&self, dimensions: Option<u32>, key: Option<Secret>) -> OpenAiModel {
        let url = format!("http://{}/v1", self.address);
        let service = OpenAi { url, model: "m".to_owned(), dimensions, key };
        let mut model = OpenAiModel::new(&service).unwrap();
        model.patience.first = Duration::from_millis(5);
        model
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    seen: &Mutex<Vec<Asked>>,
    reply: &(dyn Fn(usize, &Value) -> Reply + Send + Sync),
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap();
    let authorization =
        head.headers.get("authorization").map(|value| value.to_str().unwrap().into());
    let path = format!("{} {}", head.method, head.uri.path());
    let asked = Asked { path, authorization, body: body.clone() };
    let n = {
        let mut seen = seen.lock().unwrap();
        seen.push(asked);
        seen.len()
    };
    let (status, retry_after, text) = reply(n, &body);
    let mut response = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    Ok(response.body(Full::from(text)).unwrap())
}

/// A vector of two numbers for each text: its length, and one.
fn embedded(body: &Value) -> Reply {
    let texts = body["input"].as_array().unwrap().iter();
    let data: Vec<Value> = texts
        .enumerate()
        .map(
            |(index, text)| json!({"index": index, "embedding": [text.as_str().unwrap().len(), 1]}),
        )
        .collect();
    (200, None, json!({ "data": data }).to_string())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn one_batch_is_one_request() {
    let service = Service::start(|_, body| embedded(body)).await;
    let key = Secret::Value("sesame".into());
    let model = service.model(Some(2), Some(key));
    assert_eq!(model.fingerprint().0, "openai:m:2");
    let vectors = model.embed(&texts(&["a", "", "ccc"])).await.unwrap();
    assert_eq!(vectors, [[1.0, 1.0], [1.0, 1.0], [3.0, 1.0]]);
    let asked = service.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "POST /v1/embeddings");
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer sesame"));
    assert_eq!(asked[0].body, json!({"model": "m", "input": ["a", " ", "ccc"], "dimensions": 2}));
    assert!(!format!("{model:?}").contains("sesame"), "{model:?}");
}

#[tokio::test]
async fn nothing_is_asked_about_nothing() {
    let service = Service::start(|_, body| embedded(body)).await;
    assert_eq!(service.model(None, None).embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
    assert_eq!(service.asked().len(), 0);
}

#[tokio::test]
async fn many_bytes_are_several_requests_in_order() {
    let service = Service::start(|_, body| embedded(body)).await;
    let model = service.model(None, None);
    assert_eq!(model.fingerprint().0, "openai:m:default");
    let sizes = [MAX_BYTES - 1, 1, 1, MAX_BYTES + 1, 2];
    let many: Vec<String> = sizes.iter().map(|size| "x".repeat(*size)).collect();
    let vectors = model.embed(&many).await.unwrap();
    let lengths: Vec<usize> = vectors.iter().map(|vector| vector[0] as usize).collect();
    assert_eq!(lengths, sizes);
    let asked = service.asked();
    let counts: Vec<usize> =
        asked.iter().map(|asked| asked.body["input"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [2, 1, 1, 1]);
    assert!(asked[0].body.get("dimensions").is_none() && asked[0].authorization.is_none());
}

#[tokio::test]
async fn a_busy_service_is_asked_again_a_few_times() {
    for status in [429, 500, 503] {
        let recovers = Service::start(move |n, body| match n {
            1 | 2 => (status, Some("0"), "busy".to_owned()),
            _ => embedded(body),
        });
        let recovers = recovers.await;
        assert!(recovers.model(None, None).embed(&texts(&["a"])).await.is_ok());
        assert_eq!(recovers.asked().len(), 3, "{status}");
        let stays = Service::start(move |_, _| (status, None, "busy".to_owned())).await;
        let error = stays.model(None, None).embed(&texts(&["a"])).await.unwrap_err();
        assert!(matches!(&error, EmbedError::Later { message } if message.contains("busy")));
        assert_eq!(stays.asked().len(), 4, "{status}");
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_unless_it_is_too_long() {
    let service = Service::start(|n, body| match n {
        1 => (429, Some("1"), String::new()),
        _ => embedded(body),
    })
    .await;
    let started = Instant::now();
    service.model(None, None).embed(&texts(&["a"])).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    let service = Service::start(|_, _| (429, Some("3600"), String::new())).await;
    let error = service.model(None, None).embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(error, EmbedError::Later { .. }), "{error:?}");
    assert_eq!(service.asked().len(), 1);
}

#[tokio::test]
async fn texts_the_service_refuses_are_not_sent_again() {
    let service = Service::start(|_, body| {
        let long = body["input"].as_array().unwrap().iter().any(|text| text == "long");
        let refusal = json!({"error": {"message": "maximum context length is 8192 tokens"}});
        if long { (400, None, refusal.to_string()) } else { embedded(body) }
    })
    .await;
    let model = service.model(None, None);
    for poison in [&["a", "long"][..], &["long"]] {
        let error = model.embed(&texts(poison)).await.unwrap_err();
        let expected = "maximum context length is 8192 tokens";
        assert!(matches!(&error, EmbedError::Never { message } if message.contains(expected)));
    }
    assert_eq!(service.asked().len(), 2);
    assert!(model.embed(&texts(&["a"])).await.is_ok());
}

/// Gives vectors of as many dimensions as it was asked before, and one.
async fn growing() -> Service {
    Service::start(|n, _| (200, None, json!({"data": [{"embedding": vec![1; n]}]}).to_string()))
        .await
}

#[tokio::test]
async fn vectors_of_another_length_than_the_stored_ones_are_refused() {
    let service = growing().await;
    let model = service.model(None, None);
    for n in 1..3 {
        let embedded = model.embed(&texts(&["a"])).await.unwrap();
        assert_eq!(embedded[0].len(), n, "no answer makes a rule for the next");
    }
    model.expect_length(4);
    let error = model.embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(&error, EmbedError::Later { message } if message.contains("3 dimensions")));
    assert_eq!(model.embed(&texts(&["a"])).await.unwrap()[0].len(), 4);
}

#[tokio::test]
async fn vectors_of_another_length_than_asked_for_are_refused() {
    let model = growing().await.model(Some(2), None);
    model.expect_length(1);
    let error = model.embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(&error, EmbedError::Later { message } if message.contains("1 dimensions")));
    assert_eq!(model.embed(&texts(&["a"])).await.unwrap()[0].len(), 2);
}

#[tokio::test]
async fn a_service_that_is_away_or_silent_is_tried_again_later() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = Service { address, asked: Arc::default() };
    let mut model = silent.model(None, None);
    model.dialer = model.dialer.total(Duration::from_millis(20));
    let error = model.embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(error, EmbedError::Later { .. }), "{error:?}");
    drop(listener);
    let error = silent.model(None, None).embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(error, EmbedError::Later { .. }), "{error:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_key_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let service = Service::start(|_, body| embedded(body)).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "sesame\n").unwrap();
    let model = service.model(None, Some(Secret::File(file.path().to_owned())));
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    let error = model.embed(&texts(&["a"])).await.unwrap_err();
    assert!(matches!(&error, EmbedError::Later { message } if message.contains("chmod 600")));
    assert_eq!(service.asked().len(), 0);
    mode(0o600);
    model.embed(&texts(&["a"])).await.unwrap();
    assert_eq!(service.asked()[0].authorization.as_deref(), Some("Bearer sesame"));
}
