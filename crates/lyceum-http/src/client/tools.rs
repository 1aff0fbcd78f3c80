//! Tools: their definitions, and which arguments of theirs travel as headers too.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use lyceum_wire::{Object, ParamHeaders};
use rustc_hash::FxHashMap;

use super::error::ClientError;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its whole definition, exactly as the server wrote it. `$ref`s in its schemas are never
    /// followed.
    pub raw: Bytes,
}

impl Tool {
    /// The raw `inputSchema`.
    pub fn input_schema(&self) -> Option<Bytes> {
        let schema = Object::parse(&self.raw).ok()?.get("inputSchema")?;
        Some(self.raw.slice_ref(schema.as_bytes()))
    }

    fn read(raw: Bytes) -> Option<Tool> {
        let name = Object::parse(&raw).ok().and_then(|tool| tool.text("name"));
        if name.is_none() {
            tracing::warn!("left out a tool without a name");
        }
        Some(Tool { name: name?, raw })
    }
}

/// What the last listing said about each tool's headers: which to send, or why it is invalid.
#[derive(Debug, Default)]
pub(crate) struct Catalogue(RwLock<FxHashMap<String, Result<Arc<ParamHeaders>, String>>>);

impl Catalogue {
    /// Learns a modern listing and leaves out invalid tools, which must not be shown or called.
    pub(crate) fn learn(&self, listed: Vec<Bytes>) -> Vec<Tool> {
        let mut known = FxHashMap::default();
        let mut tools = Vec::with_capacity(listed.len());
        for tool in read(listed) {
            let schema = tool.input_schema().unwrap_or(Bytes::from_static(b"{}"));
            match ParamHeaders::from_schema(&schema) {
                Ok(headers) => {
                    known.insert(tool.name.clone(), Ok(Arc::new(headers)));
                    tools.push(tool);
                }
                Err(reason) => {
                    tracing::warn!(tool.name, %reason, "left out a tool with bad annotations");
                    known.insert(tool.name, Err(reason.to_string()));
                }
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
        tools
    }

    /// The headers of a tool; None if it was never listed.
    pub(crate) fn headers(&self, name: &str) -> Result<Option<Arc<ParamHeaders>>, ClientError> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match known.get(name) {
            None => Ok(None),
            Some(Ok(headers)) => Ok(Some(Arc::clone(headers))),
            Some(Err(reason)) => {
                Err(ClientError::InvalidTool { name: name.to_owned(), reason: reason.clone() })
            }
        }
    }
}

/// Reads a listing. What cannot be called is left out.
pub(crate) fn read(listed: Vec<Bytes>) -> Vec<Tool> {
    listed.into_iter().filter_map(Tool::read).collect()
}
