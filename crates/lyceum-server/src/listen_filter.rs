//! What a `subscriptions/listen` asks to hear about, bounded while it is read.

use std::fmt;

use lyceum_wire::{Member, Request, RpcError};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::resource_read::MAX_URI_BYTES;

/// Resources, and tasks, one stream may watch.
const MAX_WATCHED: usize = 1024;
/// Bytes of the URIs, and of the task ids, of one stream.
const MAX_WATCHED_BYTES: usize = 256 << 10;

/// The `notifications` of a listening request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ListenFilter {
    /// Whether to tell that the list of tools changed.
    pub tools_list_changed: bool,
    /// Whether to tell that the list of prompts changed.
    pub prompts_list_changed: bool,
    /// Whether to tell that the list of resources changed.
    pub resources_list_changed: bool,
    /// The URIs of the resources to watch.
    #[serde(deserialize_with = "texts")]
    pub resource_subscriptions: Vec<String>,
    /// The ids of the tasks to watch; `None` when tasks are not mentioned.
    #[serde(deserialize_with = "optional_texts")]
    pub task_ids: Option<Vec<String>>,
}

impl ListenFilter {
    /// Reads the filter of a request.
    ///
    /// # Errors
    /// When it is missing, malformed or beyond the bounds.
    pub fn read(request: &Request) -> Result<Self, RpcError> {
        let raw = request.params.get(Member::Notifications);
        let raw = raw.ok_or_else(|| RpcError::invalid_params("notifications must say what for"))?;
        serde_json::from_slice(raw)
            .map_err(|error| RpcError::invalid_params(format!("Invalid notifications: {error}")))
    }
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_seq(BoundedTexts)
}

fn optional_texts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    struct Texts(#[serde(deserialize_with = "texts")] Vec<String>);
    Ok(Option::<Texts>::deserialize(from)?.map(|texts| texts.0))
}

/// Reads a list of texts, and stops as soon as it is beyond the bounds.
struct BoundedTexts;

impl<'de> Visitor<'de> for BoundedTexts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        while let Some(text) = list.next_element::<String>()? {
            bytes += text.len();
            if text.len() > MAX_URI_BYTES {
                let length = text.len();
                return Err(A::Error::custom(format!(
                    "one entry is {length} bytes long; URIs have at most {MAX_URI_BYTES} bytes"
                )));
            }
            if texts.len() == MAX_WATCHED || bytes > MAX_WATCHED_BYTES {
                return Err(A::Error::custom(format!(
                    "one stream watches at most {MAX_WATCHED} resources with {} KiB of URIs; \
                     open a second one",
                    MAX_WATCHED_BYTES >> 10
                )));
            }
            texts.push(text);
        }
        Ok(texts)
    }
}
