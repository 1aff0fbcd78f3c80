//! Resources: things clients can read by URI, fixed or made by a function.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lyceum_http::Reservation;
use lyceum_wire::{Revision, encode};

use crate::annotations::{Annotations, Icon, Meta, Role};
use crate::cache::Cache;
use crate::call::Call;
use crate::error::ToolError;
use crate::json::Object;
use crate::page::List;
use crate::shelf::Listed;
use crate::since;
use crate::uri_template::Variables;

/// A resource at a fixed URI.
pub struct Resource {
    pub(crate) uri: String,
    pub(crate) about: About,
    size: Option<u64>,
}

/// What resources and templates have in common.
pub(crate) struct About {
    name: String,
    title: Option<String>,
    description: Option<String>,
    pub(crate) mime_type: Option<String>,
    annotations: Annotations,
    icons: Vec<Icon>,
    meta: Meta,
    pub(crate) cache: Cache,
    read: Box<Read>,
}

/// Something being read.
pub(crate) type Reading =
    Pin<Box<dyn Future<Output = Result<Vec<ResourceContents>, ToolError>> + Send>>;

type Read = dyn Fn(Call, Variables) -> Reading + Send + Sync;

/// What is in a resource: text or bytes.
#[derive(Debug, Clone)]
pub struct ResourceContents {
    pub(crate) uri: String,
    mime_type: Option<String>,
    body: Body,
    meta: Meta,
    charge: Option<Arc<Reservation>>,
}

#[derive(Debug, Clone)]
enum Body {
    Text(String),
    /// In base64.
    Blob(String),
}

/// What a resource function may return.
pub trait IntoContents {
    /// Turns the value into contents. An empty URI stands for the one that was asked for.
    fn into_contents(self) -> Vec<ResourceContents>;
}

/// A resource made by a function each time it is read.
pub fn resource<R, F, Fut>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Resource
where
    R: IntoContents + 'static,
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let about = About::new(name.into(), move |call, _| read(call));
    Resource { uri: uri.into(), about, size: None }
}

impl Resource {
    /// A resource that is always the same text.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let size = text.len() as u64;
        let fixed = resource(uri, name, move |_| std::future::ready(Ok(text.clone())));
        fixed.mime_type("text/plain").size(size)
    }

    /// A resource that is always the same bytes.
    pub fn blob(
        uri: impl Into<String>,
        name: impl Into<String>,
        mime_type: impl Into<String>,
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        let size = bytes.as_ref().len() as u64;
        let contents = ResourceContents::blob("", bytes);
        let fixed = resource(uri, name, move |_| std::future::ready(Ok(contents.clone())));
        fixed.mime_type(mime_type).size(size)
    }

    /// Its size in bytes.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }
}

/// The describing methods resources and templates share.
macro_rules! describing {
    ($type:ty) => {
        impl $type {
            /// A name for people.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.about.title = Some(title.into());
                self
            }

            /// What it is.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.about.description = Some(description.into());
                self
            }

            /// Its media type; contents that name none get this one.
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.about.mime_type = Some(mime_type.into());
                self
            }

            /// For whom it is meant.
            pub fn audience(mut self, audience: impl Into<Vec<Role>>) -> Self {
                self.about.annotations.audience = audience.into();
                self
            }

            /// How important it is, from 0 to 1.
            pub fn priority(mut self, priority: f64) -> Self {
                self.about.annotations.priority = Some(priority);
                self
            }

            /// Adds an icon.
            pub fn icon(mut self, icon: Icon) -> Self {
                self.about.icons.push(icon);
                self
            }

            /// Adds a member to its `_meta`.
            pub fn meta(
                mut self,
                key: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.about.meta.insert(key, value);
                self
            }

            /// How long clients may reuse what they read.
            pub fn cache(mut self, cache: Cache) -> Self {
                self.about.cache = cache;
                self
            }
        }
    };
}
describing!(Resource);
describing!(crate::template::ResourceTemplate);

impl Listed for Resource {
    const LIST: List = List::Resources;
    const MEMBER: &'static str = "resources";

    fn key(&self) -> &str {
        &self.uri
    }

    fn describe(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut item = Object::open(out);
        item.field("uri", &self.uri);
        self.about.write(&mut item, revision);
        item.optional("size", self.size.as_ref());
        item.close();
    }
}

impl About {
    pub(crate) fn new<R, F, Fut>(name: String, read: F) -> Self
    where
        R: IntoContents + 'static,
        F: Fn(Call, Variables) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let read = move |call: Call, variables: Variables| -> Reading {
            let reading = read(call, variables);
            Box::pin(async move { Ok(reading.await?.into_contents()) })
        };
        Self {
            name,
            title: None,
            description: None,
            mime_type: None,
            annotations: Annotations::default(),
            icons: Vec::new(),
            meta: Meta::default(),
            cache: Cache::NONE,
            read: Box::new(read),
        }
    }

    pub(crate) fn read(&self, call: Call, variables: Variables) -> Reading {
        (self.read)(call, variables)
    }

    pub(crate) fn write(&self, item: &mut Object<'_>, revision: Revision) {
        item.field("name", &self.name);
        if revision >= since::TITLES {
            item.optional("title", self.title.as_ref());
        }
        item.optional("description", self.description.as_ref())
            .optional("mimeType", self.mime_type.as_ref());
        self.annotations.write(item, revision);
        Icon::write_all(&self.icons, item, revision);
        self.meta.write(item, revision);
    }
}

impl ResourceContents {
    /// Text. An empty `uri` stands for the one that was asked for.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri.into(), Body::Text(text.into()))
    }

    /// Bytes. An empty `uri` stands for the one that was asked for.
    pub fn blob(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri.into(), Body::Blob(STANDARD.encode(bytes)))
    }

    /// Names the media type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a member to its `_meta`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    /// Holds `reservation` until the client has taken the answer: for large contents, so that there is
    /// room for them before they are written.
    pub fn charged(mut self, reservation: Reservation) -> Self {
        self.charge = Some(Arc::new(reservation));
        self
    }

    pub(crate) fn take_charge(&mut self) -> Option<Arc<Reservation>> {
        self.charge.take()
    }

    /// About how many bytes it takes at least.
    pub(crate) fn size(&self) -> usize {
        match &self.body {
            Body::Text(text) | Body::Blob(text) => text.len(),
        }
    }

    fn new(uri: String, body: Body) -> Self {
        Self { uri, mime_type: None, body, meta: Meta::default(), charge: None }
    }

    /// Fills in what the function left to the resource.
    pub(crate) fn complete(&mut self, uri: &str, mime_type: Option<&String>) {
        if self.uri.is_empty() {
            uri.clone_into(&mut self.uri);
        }
        if self.mime_type.is_none() {
            self.mime_type = mime_type.cloned();
        }
    }

    pub(crate) fn encode(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut contents = Object::open(out);
        contents.field("uri", &self.uri).optional("mimeType", self.mime_type.as_ref());
        match &self.body {
            Body::Text(text) => encode::write_str(contents.member("text"), text),
            Body::Blob(blob) => drop(contents.field("blob", blob)),
        }
        self.meta.write(&mut contents, revision);
        contents.close();
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self) -> Vec<ResourceContents> {
        vec![self]
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self) -> Vec<ResourceContents> {
        self
    }
}

impl IntoContents for String {
    fn into_contents(self) -> Vec<ResourceContents> {
        vec![ResourceContents::text("", self)]
    }
}

impl IntoContents for &str {
    fn into_contents(self) -> Vec<ResourceContents> {
        vec![ResourceContents::text("", self)]
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> Vec<ResourceContents> {
        vec![ResourceContents::blob("", self)]
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("uri", &self.uri).finish_non_exhaustive()
    }
}
