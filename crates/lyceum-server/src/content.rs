//! Content blocks: what tools and prompts hand to a model.
//!
//! Blocks that a client's revision does not know are told in words instead of being dropped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lyceum_wire::Revision;

use crate::annotations::{Annotations, Icon, Meta, Role};
use crate::json::{Object, array};
use crate::resource::ResourceContents;
use crate::since;

/// One block of content.
#[derive(Debug, Clone)]
pub struct Content {
    kind: Kind,
    extras: Option<Box<Extras>>,
}

#[derive(Debug, Clone)]
enum Kind {
    Text(String),
    Image(Media),
    Audio(Media),
    Resource(Box<ResourceContents>),
    Link(Box<ResourceLink>),
}

/// Base64 data and its type.
#[derive(Debug, Clone)]
struct Media {
    data: String,
    mime_type: String,
}

/// What few blocks have.
#[derive(Debug, Clone, Default)]
struct Extras {
    annotations: Annotations,
    meta: Meta,
}

/// A pointer to a resource the client may read, without its contents.
#[derive(Debug, Clone, Default)]
pub struct ResourceLink {
    /// Where to read it.
    pub uri: String,
    /// A short name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Its media type, if known.
    pub mime_type: Option<String>,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Pictures for it.
    pub icons: Vec<Icon>,
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Kind::Text(text.into()).into()
    }

    /// An image from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::image_base64(STANDARD.encode(bytes), mime_type)
    }

    /// An image that is base64 already.
    pub fn image_base64(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Kind::Image(Media { data: data.into(), mime_type: mime_type.into() }).into()
    }

    /// Sound from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::audio_base64(STANDARD.encode(bytes), mime_type)
    }

    /// Sound that is base64 already.
    pub fn audio_base64(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Kind::Audio(Media { data: data.into(), mime_type: mime_type.into() }).into()
    }

    /// A resource with its contents.
    pub fn resource(contents: ResourceContents) -> Self {
        Kind::Resource(Box::new(contents)).into()
    }

    /// A pointer to a resource.
    pub fn link(link: ResourceLink) -> Self {
        Kind::Link(Box::new(link)).into()
    }

    /// Says for whom the block is meant.
    pub fn audience(mut self, audience: impl Into<Vec<Role>>) -> Self {
        self.extras().annotations.audience = audience.into();
        self
    }

    /// Says how important the block is, from 0 to 1.
    pub fn priority(mut self, priority: f64) -> Self {
        self.extras().annotations.priority = Some(priority);
        self
    }

    /// Says when it last changed, as an ISO 8601 time.
    pub fn last_modified(mut self, time: impl Into<String>) -> Self {
        self.extras().annotations.last_modified = Some(time.into());
        self
    }

    /// Adds a member to the block's `_meta`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.extras().meta.insert(key, value);
        self
    }

    /// The text, if this block is nothing else.
    pub(crate) fn as_plain_text(&self) -> Option<&str> {
        match (&self.kind, &self.extras) {
            (Kind::Text(text), None) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut block = Object::open(out);
        match &self.kind {
            Kind::Text(text) => write_text(&mut block, text),
            Kind::Image(media) => write_media(&mut block, "image", media),
            Kind::Audio(media) if revision >= since::AUDIO => {
                write_media(&mut block, "audio", media);
            }
            Kind::Audio(media) => {
                let told = format!("[audio, {}: this client cannot take it]", media.mime_type);
                write_text(&mut block, &told);
            }
            Kind::Resource(contents) => {
                block.field("type", "resource");
                contents.encode(revision, block.member("resource"));
            }
            Kind::Link(link) if revision >= since::RESOURCE_LINKS => {
                block.field("type", "resource_link");
                link.write(&mut block, revision);
            }
            Kind::Link(link) => write_text(&mut block, &format!("{}: {}", link.name, link.uri)),
        }
        if let Some(extras) = &self.extras {
            extras.annotations.write(&mut block, revision);
            extras.meta.write(&mut block, revision);
        }
        block.close();
    }

    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

impl From<Kind> for Content {
    fn from(kind: Kind) -> Self {
        Self { kind, extras: None }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl ResourceLink {
    /// A link to `uri`, called `name`.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// Writes its members, as they stand in a list of resources too.
    pub(crate) fn write(&self, block: &mut Object<'_>, revision: Revision) {
        block.field("uri", &self.uri).field("name", &self.name);
        if revision >= since::TITLES {
            block.optional("title", self.title.as_ref());
        }
        block
            .optional("description", self.description.as_ref())
            .optional("mimeType", self.mime_type.as_ref())
            .optional("size", self.size.as_ref());
        Icon::write_all(&self.icons, block, revision);
    }
}

/// Writes blocks as a JSON array.
pub(crate) fn encode_all<'a>(
    blocks: impl IntoIterator<Item = &'a Content>,
    revision: Revision,
    out: &mut Vec<u8>,
) {
    array(out, blocks, |out, block| block.encode(revision, out));
}

fn write_text(block: &mut Object<'_>, text: &str) {
    block.field("type", "text").field("text", text);
}

fn write_media(block: &mut Object<'_>, kind: &str, media: &Media) {
    block.field("type", kind).field("data", &media.data).field("mimeType", &media.mime_type);
}
