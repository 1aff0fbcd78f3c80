//! [`Params`]: a message's `params`, with the members that routing needs already found.
//!
//! The members are slices of the body. Nothing is decoded until someone asks for it.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::error::ParseError;
use crate::id::kept_token;
use crate::scan::{Kind, Scan, Scanner, Span};
use crate::text::{token_is, token_text};

/// A member of `params` that is found while the body is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Member {
    /// `name`: the tool or prompt.
    Name,
    /// `uri`: the resource.
    Uri,
    /// `taskId`.
    TaskId,
    /// `arguments` of a tool or prompt.
    Arguments,
    /// `_meta` as a whole.
    Meta,
    /// `cursor` of a list request.
    Cursor,
    /// `requestState` of a retried request.
    RequestState,
    /// `inputResponses` of a retried request.
    InputResponses,
    /// `protocolVersion` of `initialize`.
    ProtocolVersion,
    /// `capabilities` of `initialize`.
    Capabilities,
    /// `clientInfo` of `initialize`.
    ClientInfo,
    /// `level` of `logging/setLevel`.
    Level,
    /// `requestId` of `notifications/cancelled`.
    RequestId,
    /// `task` of a 2025-11-25 request that wants to run as a task.
    Task,
    /// `notifications` of `subscriptions/listen`.
    Notifications,
    /// `_meta["io.modelcontextprotocol/protocolVersion"]`.
    MetaProtocolVersion,
    /// `_meta["io.modelcontextprotocol/clientCapabilities"]`.
    MetaClientCapabilities,
    /// `_meta["io.modelcontextprotocol/clientInfo"]`.
    MetaClientInfo,
    /// `_meta["io.modelcontextprotocol/logLevel"]`.
    MetaLogLevel,
    /// `_meta.progressToken`.
    MetaProgressToken,
    /// `_meta.traceparent`.
    MetaTraceparent,
}

const N_MEMBERS: usize = Member::MetaTraceparent as usize + 1;

/// Keys in `_meta` that the protocol reserves for itself start like this.
const META_PREFIX: &[u8] = b"io.modelcontextprotocol/";

/// A message's `params`, or their absence. Cheap to clone: it shares the body.
#[derive(Clone, Default)]
pub struct Params {
    body: Bytes,
    found: Found,
}

/// Where `params` and its members are in the body.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    all: Span,
    members: [Span; N_MEMBERS],
}

impl Params {
    /// Params from their JSON text, for tests and clients.
    pub fn from_raw(raw: Bytes) -> Result<Params, ParseError> {
        let mut scanner = Scanner::new(&raw)?;
        scanner.ahead();
        let mut found = Found::default();
        let kind = found.scan(&mut scanner)?;
        scanner.end()?;
        if kind != Kind::Object {
            return Err(ParseError::invalid_request("params must be an object"));
        }
        if scanner.repeated {
            return Err(ParseError::repeated_name());
        }
        Ok(Params { body: raw, found })
    }

    pub(crate) fn new(body: &Bytes, found: Found) -> Params {
        if found.all.is_empty() {
            return Params::default();
        }
        Params { body: body.clone(), found }
    }

    /// Whether the message has `params` at all.
    pub fn is_present(&self) -> bool {
        !self.found.all.is_empty()
    }

    /// The whole object as it stands in the body.
    pub fn raw(&self) -> Option<Bytes> {
        self.is_present().then(|| self.body.slice(self.found.all.range()))
    }

    /// The raw JSON of a member.
    pub fn get(&self, member: Member) -> Option<&[u8]> {
        let span = self.found.members[member as usize];
        (!span.is_empty()).then(|| &self.body[span.range()])
    }

    /// The raw JSON of a member, sharing the body.
    pub fn slice(&self, member: Member) -> Option<Bytes> {
        let span = self.found.members[member as usize];
        (!span.is_empty()).then(|| self.body.slice(span.range()))
    }

    /// The token to repeat in progress notifications. It does not keep a large body alive.
    pub fn progress_token(&self) -> Option<Bytes> {
        let span = self.found.members[Member::MetaProgressToken as usize];
        (!span.is_empty()).then(|| kept_token(&self.body, span.range()))
    }

    /// Whether a member is the string `text`.
    pub fn text_is(&self, member: Member, text: &str) -> bool {
        self.get(member).is_some_and(|token| token_is(token, text.as_bytes()))
    }

    /// The text of a member; None if it is absent or not a string.
    pub fn text(&self, member: Member) -> Option<Cow<'_, str>> {
        token_text(self.get(member)?)
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = &self.body[self.found.all.range()];
        write!(f, "Params({})", String::from_utf8_lossy(raw))
    }
}

impl Found {
    pub(crate) fn progress_token_len(&self) -> usize {
        self.members[Member::MetaProgressToken as usize].len() as usize
    }

    /// Steps over the value of `params`, noting where it and its members are.
    pub(crate) fn scan(&mut self, scanner: &mut Scanner<'_>) -> Scan<Kind> {
        if scanner.peek() != b'{' {
            return scanner.value();
        }
        let start = scanner.pos;
        let members = &mut self.members;
        scanner.members(|scanner, name| {
            let start = scanner.pos;
            let member = scanner.named(name, member);
            match member {
                Some(Member::Meta) if scanner.peek() == b'{' => meta(scanner, members)?,
                _ => scanner.skip()?,
            }
            if let Some(member) = member {
                members[member as usize] = Span::new(start, scanner.pos);
            }
            Ok(())
        })?;
        self.all = Span::new(start, scanner.pos);
        Ok(Kind::Object)
    }
}

fn meta(scanner: &mut Scanner<'_>, members: &mut [Span; N_MEMBERS]) -> Scan<()> {
    scanner.members(|scanner, name| {
        let (_, span) = scanner.token()?;
        if let Some(member) = scanner.named(name, meta_member) {
            members[member as usize] = span;
        }
        Ok(())
    })
}

fn member(name: &[u8]) -> Option<Member> {
    Some(match name {
        b"name" => Member::Name,
        b"uri" => Member::Uri,
        b"taskId" => Member::TaskId,
        b"arguments" => Member::Arguments,
        b"_meta" => Member::Meta,
        b"cursor" => Member::Cursor,
        b"requestState" => Member::RequestState,
        b"inputResponses" => Member::InputResponses,
        b"protocolVersion" => Member::ProtocolVersion,
        b"capabilities" => Member::Capabilities,
        b"clientInfo" => Member::ClientInfo,
        b"level" => Member::Level,
        b"requestId" => Member::RequestId,
        b"task" => Member::Task,
        b"notifications" => Member::Notifications,
        _ => return None,
    })
}

fn meta_member(name: &[u8]) -> Option<Member> {
    let Some(reserved) = name.strip_prefix(META_PREFIX) else {
        return match name {
            b"progressToken" => Some(Member::MetaProgressToken),
            b"traceparent" => Some(Member::MetaTraceparent),
            _ => None,
        };
    };
    Some(match reserved {
        b"protocolVersion" => Member::MetaProtocolVersion,
        b"clientCapabilities" => Member::MetaClientCapabilities,
        b"clientInfo" => Member::MetaClientInfo,
        b"logLevel" => Member::MetaLogLevel,
        _ => return None,
    })
}
