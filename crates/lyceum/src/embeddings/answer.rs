//! What an answer of the service means: vectors, or whose fault it is that there are none.
//!
//! The question that decides is whether the texts are to blame. If they are, the indexer tries each
//! document alone and gives up on the bad one; if not, it comes back to all of them later.

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::Duration;

/// How much of what the service says is passed on.
const MAX_EXCERPT: usize = 300;

/// What to do about an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Vectors(Vec<Vec<f32>>),
    /// Ask again soon.
    Busy {
        message: String,
        retry_after: Option<Duration>,
    },
    /// Something is wrong that time or the operator may mend.
    Later(String),
    /// These texts are not taken.
    Never(String),
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    /// Some services write numbers that JSON does not have as null.
    embedding: Vec<Option<f32>>,
}

pub(super) fn judge(response: &Response<Bytes>, n_texts: usize, length: Option<usize>) -> Verdict {
    let status = response.status();
    if status.is_success() {
        return vectors(response.body(), n_texts, length);
    }
    let message = format!("HTTP {status}{}", excerpt(response.body()));
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => Verdict::Never(message),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            Verdict::Busy { message, retry_after: retry_after(response) }
        }
        _ if status.is_server_error() => {
            Verdict::Busy { message, retry_after: retry_after(response) }
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Verdict::Later(format!("{message}; look at key_env or key_file under [embeddings]"))
        }
        _ => Verdict::Later(format!("{message}; look at url and model under [embeddings]")),
    }
}

fn vectors(body: &[u8], n_texts: usize, length: Option<usize>) -> Verdict {
    let answer: Answer = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => return Verdict::Later(format!("its answer makes no sense: {error}")),
    };
    let n_vectors = answer.data.len();
    let Some(items) = in_order(answer.data, n_texts) else {
        return about_texts(n_texts, format!("it gave {n_vectors} vectors for {n_texts} texts"));
    };
    let first = items.first().map_or(0, Vec::len);
    if first == 0 {
        return about_texts(n_texts, "it gave an empty vector".to_owned());
    }
    let expected = length.unwrap_or(first);
    if items.iter().all(|vector| vector.len() != expected) {
        return Verdict::Later(format!(
            "its vectors have {first} dimensions instead of {expected}; look at dimensions and model \
             under [embeddings]"
        ));
    }
    if items.iter().any(|vector| vector.len() != expected) {
        return Verdict::Never(format!("some of its vectors do not have {expected} dimensions"));
    }
    let finite = |vector: Vec<Option<f32>>| {
        let numbers = vector.into_iter().map(|number| number.filter(|number| number.is_finite()));
        numbers.collect::<Option<Vec<f32>>>()
    };
    match items.into_iter().map(finite).collect() {
        Some(vectors) => Verdict::Vectors(vectors),
        None => Verdict::Never("it gave a vector with numbers that are not finite".to_owned()),
    }
}

/// Among several texts one may be to blame, so each should be tried alone; a single text that the
/// service took but did not answer may fare better another time.
fn about_texts(n_texts: usize, message: String) -> Verdict {
    if n_texts > 1 { Verdict::Never(message) } else { Verdict::Later(message) }
}

/// One vector for each text, in the order of the texts.
fn in_order(items: Vec<Item>, n_texts: usize) -> Option<Vec<Vec<Option<f32>>>> {
    if items.len() != n_texts {
        return None;
    }
    let mut ordered: Vec<Option<Vec<Option<f32>>>> = (0..n_texts).map(|_| None).collect();
    for (position, item) in items.into_iter().enumerate() {
        let place = ordered.get_mut(item.index.unwrap_or(position))?;
        if place.replace(item.embedding).is_some() {
            return None;
        }
    }
    ordered.into_iter().collect()
}

/// `Retry-After` in seconds; dates are rare here and count as nothing said.
fn retry_after(response: &Response<Bytes>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// What the service says, fit for one line.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(8 * MAX_EXCERPT)]).into_owned();
    let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let said = json.as_ref().and_then(|json| json.pointer("/error/message")?.as_str());
    let line: String = said.unwrap_or(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().filter(|c| !c.is_control()).take(MAX_EXCERPT).collect();
    if short.is_empty() { short } else { format!(": {short}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Kind {
        Vectors(Vec<Vec<f32>>),
        Busy,
        Later,
        Never,
    }

    #[track_caller]
    fn check(status: u16, body: &str, n_texts: usize, expected: Kind) {
        let mut response = Response::new(Bytes::from(body.to_owned()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let found = match judge(&response, n_texts, Some(2)) {
            Verdict::Vectors(vectors) => Kind::Vectors(vectors),
            Verdict::Busy { .. } => Kind::Busy,
            Verdict::Later(_) => Kind::Later,
            Verdict::Never(_) => Kind::Never,
        };
        assert_eq!(found, expected, "{status} {body}");
    }

    fn data(items: &str) -> String {
        format!(r#"{{"object":"list","data":[{items}],"usage":{{"total_tokens":3}}}}"#)
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let two = data(r#"{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}"#);
        check(200, &two, 2, Kind::Vectors(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
        let unnumbered = data(r#"{"embedding":[1,2]},{"embedding":[3,4]}"#);
        check(200, &unnumbered, 2, Kind::Vectors(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
    }

    #[test]
    fn answers_that_cannot_be_used_are_blamed_on_the_right_side() {
        let one = r#"{"index":0,"embedding":[1,2]}"#;
        check(200, &data(one), 2, Kind::Never);
        check(200, &data(""), 1, Kind::Later);
        check(200, &data(&format!("{one},{one}")), 2, Kind::Never);
        check(200, &data(r#"{"index":5,"embedding":[1,2]}"#), 1, Kind::Later);
        check(200, &data(r#"{"index":0,"embedding":[1,2,3]}"#), 1, Kind::Later);
        check(200, &data(r#"{"embedding":[1,2]},{"embedding":[1]}"#), 2, Kind::Never);
        check(200, &data(r#"{"embedding":[null,2]}"#), 1, Kind::Never);
        check(200, &data(r#"{"embedding":[1e39,2]}"#), 1, Kind::Never);
        check(200, &data(r#"{"embedding":[]}"#), 1, Kind::Later);
        check(200, "<html>", 1, Kind::Later);
        check(200, "", 1, Kind::Later);
    }

    #[test]
    fn statuses_say_whether_to_ask_again() {
        for (status, expected) in [
            (400, Kind::Never),
            (413, Kind::Never),
            (422, Kind::Never),
            (401, Kind::Later),
            (403, Kind::Later),
            (404, Kind::Later),
            (302, Kind::Later),
            (408, Kind::Busy),
            (429, Kind::Busy),
            (500, Kind::Busy),
            (503, Kind::Busy),
        ] {
            check(status, r#"{"error":{"message":"why"}}"#, 3, expected);
        }
    }

    #[test]
    fn what_the_service_says_is_passed_on_in_short() {
        assert_eq!(excerpt(br#"{"error":{"message":"too\nlong"}}"#), ": too long");
        assert_eq!(excerpt(b"plain\x07 words"), ": plain words");
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(&[b'x'; 9999]).len(), MAX_EXCERPT + 2);
    }
}
