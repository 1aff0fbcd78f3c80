//! What reading documents costs a call: room to work before it starts, and room for its answer
//! before that is written.
//!
//! An answer is measured before it is written, as it will be sent: as JSON, and for tools as JSON
//! within JSON beside it. Small answers are written at once, without a charge.

use std::io;
use std::sync::Arc;

use lyceum_http::{ByteBudgets, CallerId, Exhausted, Reservation, UNCOUNTED_BYTES};
use lyceum_kb::{Error, Result};
use lyceum_server::{Call, ToolResult};
use lyceum_work::run_bulk;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

/// What stands around an answer.
const FRAME: usize = 4096;

/// Who pays for a call, and out of what.
#[derive(Clone)]
pub(crate) struct Payer {
    caller: CallerId,
    budgets: Arc<ByteBudgets>,
}

/// An answer as JSON, and what it is charged to if it is large.
pub(crate) struct WrittenAnswer {
    pub(crate) json: String,
    pub(crate) charge: Option<Reservation>,
}

/// How many bytes JSON takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JsonSize {
    bytes: usize,
    /// Bytes that get another one before them within a JSON string.
    escapes: usize,
}

impl Payer {
    pub(crate) fn new(caller: CallerId, budgets: Arc<ByteBudgets>) -> Self {
        Self { caller, budgets }
    }

    /// The one who makes this call.
    pub(crate) fn of(call: &Call) -> Self {
        Self::new(call.caller_id(), Arc::clone(call.budgets()))
    }

    /// The most bytes one answer may have.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.budgets.answer_bytes
    }

    /// Room for work on `bytes`, once there is some; UNAVAILABLE if that takes too long.
    pub(crate) async fn work(&self, bytes: usize) -> Result<Option<Reservation>> {
        if bytes == 0 {
            return Ok(None);
        }
        self.budgets.work.reserve_soon(&self.caller, bytes).await.map(Some).map_err(no_room)
    }

    /// Room for an answer of `sent` bytes, of which `kept` more are there while it is written.
    pub(crate) async fn answer(&self, sent: usize, kept: usize) -> Result<Reservation> {
        if sent > self.answer_bytes() {
            return Err(too_large(sent, self.answer_bytes()));
        }
        self.budgets.answers.reserve_soon(&self.caller, sent + kept).await.map_err(no_room)
    }

    /// `answer` as JSON; `sent` says how many bytes are sent of JSON of a given size.
    pub(crate) async fn written<R>(
        &self,
        answer: R,
        sent: impl FnOnce(JsonSize) -> usize,
    ) -> Result<WrittenAnswer>
    where
        R: Serialize + Send + 'static,
    {
        if let Some(json) = write(&answer, 0, UNCOUNTED_BYTES / 4)? {
            return Ok(WrittenAnswer { json, charge: None });
        }
        let measured = run_bulk(move || (JsonSize::of(&answer), answer)).await;
        let (size, answer) = measured.map_err(|_| unwritten())?;
        let size = size?;
        let charge = self.answer(sent(size) + FRAME, size.bytes).await?;
        let writing = run_bulk(move || write(&answer, size.bytes, usize::MAX));
        let json = writing.await.map_err(|_| unwritten())??.ok_or_else(unwritten)?;
        Ok(WrittenAnswer { json, charge: Some(charge) })
    }

    /// `answer` as the result of a tool that `call` called.
    pub(crate) async fn tool_result<R>(&self, call: &Call, answer: R) -> Result<ToolResult>
    where
        R: Serialize + Send + 'static,
    {
        let is_structured = call.takes_structured_content();
        let sent = |size: JsonSize| size.as_text() + if is_structured { size.bytes } else { 0 };
        let WrittenAnswer { json, charge } = self.written(answer, sent).await?;
        let json = RawValue::from_string(json).map_err(|_| unwritten())?;
        let result = ToolResult::new().structured_json(json);
        Ok(match charge {
            Some(charge) => result.charged(charge),
            None => result,
        })
    }
}

impl JsonSize {
    /// The size of `value` as JSON.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let mut size = Self::default();
        value
            .serialize(&mut Serializer::with_formatter(&mut size, OneLine))
            .map_err(|_| unwritten())?;
        Ok(size)
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Its bytes within a JSON string.
    pub(crate) fn as_text(self) -> usize {
        self.bytes + self.escapes + 2
    }
}

impl io::Write for JsonSize {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.escapes += bytes.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes JSON into a buffer that begins with `room`; `None` if it is longer than `limit`.
fn write<T: Serialize>(value: &T, room: usize, limit: usize) -> Result<Option<String>> {
    let mut out = Limited { bytes: Vec::with_capacity(room), limit };
    match value.serialize(&mut Serializer::with_formatter(&mut out, OneLine)) {
        Ok(()) => String::from_utf8(out.bytes).map(Some).map_err(|_| unwritten()),
        Err(error) if error.is_io() => Ok(None),
        Err(error) => Err(Error::internal(format!("answer is not JSON: {error}"))),
    }
}

struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compact JSON in which nothing can be taken for the end of a line, so that an event of a stream
/// can carry it as it is.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(['\u{2028}', '\u{2029}']) {
            let (before, from) = rest.split_at(at);
            let (separator, after) = from.split_at('\u{2028}'.len_utf8());
            writer.write_all(before.as_bytes())?;
            writer.write_all(if separator == "\u{2028}" { b"\\u2028" } else { b"\\u2029" })?;
            rest = after;
        }
        writer.write_all(rest.as_bytes())
    }
}

fn no_room(exhausted: Exhausted) -> Error {
    match exhausted {
        Exhausted::Never => Error::invalid(exhausted.to_string()),
        _ => Error::unavailable(exhausted.to_string()),
    }
}

fn too_large(bytes: usize, limit: usize) -> Error {
    let text = "the answer is larger than what is sent at once; read the text in parts, with lines or \
                section of get_document, or fewer documents at once";
    Error::invalid(text).with("bytes", bytes).with("limit", limit)
}

fn unwritten() -> Error {
    Error::internal("the answer could not be written")
}

#[cfg(test)]
mod tests {
    use lyceum_http::Limits;
    use serde_json::json;

    use super::*;

    #[test]
    fn measured_json_is_as_long_as_written_json() {
        for text in
            ["", "plain", "\"quoted\" \\ \n\t", "\u{1}\u{2}", "a\u{2028}b\u{2029}", "é—\u{1f600}"]
        {
            let value = json!({ "text": text, "n": [1, 2.5, null] });
            let json = write(&value, 0, 1 << 20).unwrap().unwrap();
            let size = JsonSize::of(&value).unwrap();
            assert_eq!(size.bytes(), json.len(), "{text:?}");
            assert_eq!(size.as_text(), serde_json::to_string(&json).unwrap().len(), "{text:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
            assert!(!json.contains(['\u{2028}', '\u{2029}']));
        }
    }

    #[tokio::test]
    async fn large_answers_are_charged_for_and_larger_ones_are_refused() {
        let limits = Limits { answer_bytes: 1 << 20, answers_bytes: 8 << 20, ..Limits::default() };
        let budgets = Arc::new(ByteBudgets::new(&limits));
        let payer = Payer::new(CallerId::Anonymous, Arc::clone(&budgets));
        let written = payer.written("small", JsonSize::bytes).await.unwrap();
        assert!(written.charge.is_none());
        let large = payer.written("x".repeat(500_000), JsonSize::bytes).await.unwrap();
        assert_eq!(budgets.answers.held(), 2 * 500_002 + FRAME);
        drop(large);
        assert_eq!(budgets.answers.held(), 0);
        // A fifth of the bytes, but each is written as six.
        let refused = payer.written("\u{1}".repeat(200_000), JsonSize::bytes).await;
        assert_eq!(refused.err().unwrap().code(), lyceum_kb::Code::InvalidArgument);
    }
}
