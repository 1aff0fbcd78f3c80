//! What a tool returns, and its encoding for each revision.

use std::sync::Arc;

use lyceum_http::{Outcome, Reservation};
use lyceum_wire::{Era, Revision, encode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::annotations::Meta;
use crate::content::{Content, encode_all};
use crate::error::ToolError;
use crate::identity::Identity;
use crate::json::Object;
use crate::schema::Schema;
use crate::since;

/// The result of a tool: content for the model, and structured content for programs.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    content: Blocks,
    structured: Option<Box<RawValue>>,
    failed: bool,
    meta: Meta,
    charge: Option<Arc<Reservation>>,
}

/// Most results are one block; they need no list.
#[derive(Debug, Clone, Default)]
enum Blocks {
    #[default]
    None,
    One(Content),
    Many(Vec<Content>),
}

/// A typed result: `structuredContent` with an output schema, and the same JSON as text for clients
/// that know no structured content.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

/// What a tool function may return.
pub trait IntoToolResult {
    /// Turns the value into a result.
    ///
    /// # Errors
    /// When the value cannot be represented as JSON.
    fn into_tool_result(self) -> Result<ToolResult, ToolError>;

    /// The schema of the structured content, if the type promises any.
    fn output_schema() -> Option<Schema> {
        None
    }
}

impl ToolResult {
    /// A result without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// One block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Blocks::One(Content::text(text)), ..Self::default() }
    }

    /// Adds a block.
    pub fn content(mut self, block: impl Into<Content>) -> Self {
        let block = block.into();
        self.content = match self.content {
            Blocks::None => Blocks::One(block),
            Blocks::One(first) => Blocks::Many(vec![first, block]),
            Blocks::Many(mut blocks) => {
                blocks.push(block);
                Blocks::Many(blocks)
            }
        };
        self
    }

    /// Sets the structured content. Without other content, it is shown as text too.
    ///
    /// # Errors
    /// When `value` cannot be represented as JSON.
    pub fn structured<T: Serialize>(mut self, value: &T) -> Result<Self, ToolError> {
        self.structured = Some(serde_json::value::to_raw_value(value)?);
        Ok(self)
    }

    /// Sets the structured content to JSON that is written already.
    pub fn structured_json(mut self, json: Box<RawValue>) -> Self {
        self.structured = Some(json);
        self
    }

    /// Holds `reservation` until the client has taken the answer: for large results, so that there is
    /// room for them before they are written.
    pub fn charged(mut self, reservation: Reservation) -> Self {
        self.charge = Some(Arc::new(reservation));
        self
    }

    /// Marks the result as a failure the model should read.
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }

    /// Adds a member to the result's `_meta`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    /// Whether to write it takes long enough to do it elsewhere than on a thread that serves others.
    pub(crate) fn is_large(&self) -> bool {
        let text = match &self.content {
            Blocks::One(block) => block.as_plain_text().map_or(0, str::len),
            _ => 0,
        };
        text + self.structured.as_ref().map_or(0, |json| json.get().len()) > LARGE
    }

    /// The outcome as a client of `revision` expects it.
    pub(crate) fn into_outcome(mut self, revision: Revision, identity: &Identity) -> Outcome {
        let json = self.encode(revision, identity);
        // While it was written, what it is made of was there too.
        let charge = self.charge.take().map(|charge| match Arc::try_unwrap(charge) {
            Ok(mut charge) => {
                charge.shrink(json.capacity());
                Arc::new(charge)
            }
            Err(shared) => shared,
        });
        Outcome::json(json).charged(charge)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed
    }

    /// The first text in it, for places that have room for a sentence only.
    pub(crate) fn first_text(&self) -> String {
        let first = match &self.content {
            Blocks::None => None,
            Blocks::One(block) => Some(block),
            Blocks::Many(blocks) => blocks.first(),
        };
        first.and_then(Content::as_plain_text).unwrap_or("the call failed").to_owned()
    }

    /// Writes the result as a client of `revision` expects it.
    pub(crate) fn encode(&self, revision: Revision, identity: &Identity) -> Vec<u8> {
        if let Some(text) = self.as_plain_text() {
            return encode_text(text, revision.era(), identity);
        }
        let mut out = Vec::with_capacity(self.room(revision));
        let mut result = Object::open(&mut out);
        if revision.era() == Era::Modern {
            result.field("resultType", "complete");
        }
        self.encode_content(revision, result.member("content"));
        if let Some(structured) = self.structured_for(revision) {
            result.raw("structuredContent", structured.get().as_bytes());
        }
        if self.failed {
            result.field("isError", &true);
        }
        identity.write_meta(&mut result, revision.era(), &self.meta);
        result.close();
        out
    }

    /// About how many bytes it takes; for a large one enough, its response's frame included.
    fn room(&self, revision: Revision) -> usize {
        const SMALL: usize = 256;
        const FRAME: usize = 4096;
        match (&self.content, &self.structured) {
            (Blocks::None, Some(json)) if self.is_large() => {
                let structured = self.structured_for(revision).map_or(0, |json| json.get().len());
                encode::str_length(json.get()) + structured + FRAME
            }
            _ => SMALL,
        }
    }

    /// The text, if the result is nothing but one: the case worth a shortcut.
    fn as_plain_text(&self) -> Option<&str> {
        match &self.content {
            Blocks::One(block)
                if self.structured.is_none() && !self.failed && self.meta.is_empty() =>
            {
                block.as_plain_text()
            }
            _ => None,
        }
    }

    fn encode_content(&self, revision: Revision, out: &mut Vec<u8>) {
        match (&self.content, &self.structured) {
            (Blocks::None, Some(json)) => {
                out.extend_from_slice(br#"[{"type":"text","text":"#);
                encode::write_str(out, json.get());
                out.extend_from_slice(b"}]");
            }
            (Blocks::None, None) => out.extend_from_slice(b"[]"),
            (Blocks::One(block), _) => encode_all([block], revision, out),
            (Blocks::Many(blocks), _) => encode_all(blocks, revision, out),
        }
    }

    /// Before the modern era structured content had to be an object.
    fn structured_for(&self, revision: Revision) -> Option<&RawValue> {
        let structured = self.structured.as_deref()?;
        let known = revision >= since::MODERN
            || (revision >= since::STRUCTURED_CONTENT && structured.get().starts_with('{'));
        known.then_some(structured)
    }
}

/// Bytes from which on a result is large.
const LARGE: usize = 256 << 10;

/// Bytes a text may grow by, quotes included, before its buffer has to.
const ROOM_FOR_ESCAPES: usize = 32;

/// One text and nothing else, in one allocation unless much of it needs escaping.
fn encode_text(text: &str, era: Era, identity: &Identity) -> Vec<u8> {
    let (head, tail): (&[u8], &[u8]) = match era {
        Era::Modern => {
            (br#"{"resultType":"complete","content":[{"type":"text","text":"#, identity.text_tail())
        }
        Era::Legacy => (br#"{"content":[{"type":"text","text":"#, b"}]}"),
    };
    let mut out = Vec::with_capacity(head.len() + text.len() + ROOM_FOR_ESCAPES + tail.len());
    out.extend_from_slice(head);
    encode::write_str(&mut out, text);
    out.extend_from_slice(tail);
    out
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(self)
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text(self))
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text(self))
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::new())
    }
}

impl IntoToolResult for Content {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::new().content(self))
    }
}

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        Ok(ToolResult { content: Blocks::Many(self), ..ToolResult::default() })
    }
}

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolResult, ToolError> {
        ToolResult::new().structured(&self.0)
    }

    fn output_schema() -> Option<Schema> {
        Some(Schema::of_output::<T>())
    }
}
