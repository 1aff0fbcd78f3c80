//! Who the server says it is: `serverInfo`, in `initialize` and in the `_meta` of modern results.

use lyceum_wire::{Era, Revision};

use crate::annotations::{Icon, Meta};
use crate::json::{Object, object};
use crate::since;

/// The `_meta` key under which modern results name their server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The server's name and what goes with it.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) website: Option<String>,
    pub(crate) icons: Vec<Icon>,
    encoded: Encoded,
}

/// What every modern result repeats, written once.
#[derive(Debug, Default)]
struct Encoded {
    /// `{…}`
    info: Vec<u8>,
    /// `"io.modelcontextprotocol/serverInfo":{…}`
    member: Vec<u8>,
    /// `}],"_meta":{…}}`: how a modern result of one text ends.
    text_tail: Vec<u8>,
}

impl Identity {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self { name, version, ..Self::default() }
    }

    /// Prepares what is repeated; call once all fields are set.
    pub(crate) fn prepare(&mut self) {
        let mut info = Vec::new();
        self.write_brief(&mut info);
        let whole = object(|meta| {
            meta.raw(SERVER_INFO, &info);
        });
        self.encoded = Encoded {
            text_tail: [b"}],\"_meta\":".as_slice(), &whole, b"}"].concat(),
            member: whole[1..whole.len() - 1].to_vec(),
            info,
        };
    }

    /// The brief `Implementation` object that every modern result carries.
    pub(crate) fn brief(&self) -> &[u8] {
        &self.encoded.info
    }

    pub(crate) fn text_tail(&self) -> &[u8] {
        &self.encoded.text_tail
    }

    /// The `Implementation` object as `revision` knows it, with members of our own.
    pub(crate) fn write(
        &self,
        revision: Revision,
        details: &[(&'static str, String)],
        out: &mut Vec<u8>,
    ) {
        let mut info = Object::open(out);
        info.field("name", &self.name);
        if revision >= since::TITLES {
            info.optional("title", self.title.as_ref());
        }
        info.field("version", &self.version);
        if revision >= since::IMPLEMENTATION_DETAILS {
            info.optional("description", self.description.as_ref())
                .optional("websiteUrl", self.website.as_ref());
        }
        Icon::write_all(&self.icons, &mut info, revision);
        for (name, value) in details {
            info.field(name, value);
        }
        info.close();
    }

    /// Name, title and version: icons can be large, and every result carries this.
    fn write_brief(&self, out: &mut Vec<u8>) {
        let mut info = Object::open(out);
        info.field("name", &self.name)
            .optional("title", self.title.as_ref())
            .field("version", &self.version);
        info.close();
    }

    /// Writes a result's `_meta`, if it has any.
    pub(crate) fn write_meta(&self, result: &mut Object<'_>, era: Era, own: &Meta) {
        if era == Era::Legacy && own.is_empty() {
            return;
        }
        let mut meta = Object::open(result.member("_meta"));
        if era == Era::Modern {
            meta.splice(&self.encoded.member);
        }
        own.write_members(&mut meta);
        meta.close();
    }
}
