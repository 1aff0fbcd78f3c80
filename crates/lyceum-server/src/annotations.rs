//! Small things many items carry: roles, annotations, icons, `_meta`.

use lyceum_wire::Revision;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::Object;
use crate::since;

/// Who speaks, or for whom something is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    User,
    /// A model.
    Assistant,
}

/// Hints on how to use an item.
#[derive(Debug, Clone, Default)]
pub(crate) struct Annotations {
    pub(crate) audience: Vec<Role>,
    pub(crate) priority: Option<f64>,
    pub(crate) last_modified: Option<String>,
}

/// A picture for an item.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    src: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theme: Option<Theme>,
}

/// The background an icon is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// A light background.
    Light,
    /// A dark background.
    Dark,
}

/// Free members under `_meta`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meta(Map<String, Value>);

impl Annotations {
    pub(crate) fn write(&self, item: &mut Object<'_>, revision: Revision) {
        let last_modified =
            self.last_modified.as_ref().filter(|_| revision >= since::LAST_MODIFIED);
        if self.audience.is_empty() && self.priority.is_none() && last_modified.is_none() {
            return;
        }
        let mut annotations = Object::open(item.member("annotations"));
        if !self.audience.is_empty() {
            annotations.field("audience", &self.audience);
        }
        annotations
            .optional("priority", self.priority.as_ref())
            .optional("lastModified", last_modified);
        annotations.close();
    }
}

impl Icon {
    /// An icon at `src`, an `https:` or `data:` URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Names its media type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a size it can be shown in, such as `48x48` or `any`.
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Names the background it is made for.
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }

    pub(crate) fn write_all(icons: &[Icon], item: &mut Object<'_>, revision: Revision) {
        if !icons.is_empty() && revision >= since::ICONS {
            item.field("icons", icons);
        }
    }
}

impl Meta {
    pub(crate) fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn write(&self, item: &mut Object<'_>, revision: Revision) {
        if !self.is_empty() && revision >= since::ITEM_META {
            item.field("_meta", &self.0);
        }
    }

    /// Writes the members into a `_meta` object that is already open.
    pub(crate) fn write_members(&self, meta: &mut Object<'_>) {
        for (key, value) in &self.0 {
            meta.field(key, value);
        }
    }
}
