//! JSON objects read and written one level deep: members keep their order and their exact text.
//!
//! This is how params, results and definitions pass through clients and gateways without losing what
//! nobody asked about.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::encode::write_str;
use crate::scan::{Malformed, Scanner};

/// Members for which room is made at first: most objects have no more.
const FEW: usize = 8;

/// The members of an object, values as raw JSON.
#[derive(Debug, Default)]
pub struct Object<'a>(Members<'a>);

/// Names and values; a name is a copy only if it has escapes.
type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

impl<'a> Object<'a> {
    /// Reads an object; no bytes at all count as an empty one.
    pub fn parse(raw: &'a [u8]) -> Result<Object<'a>, String> {
        if raw.is_empty() {
            return Ok(Object::default());
        }
        let members = members(raw).map_err(|malformed| malformed.message().to_owned())?;
        let members = members.ok_or("it is not a JSON object")?;
        // Two values under one name would mean different things to different readers.
        match repeated(&members) {
            Some(name) => Err(format!("\"{name}\" appears twice")),
            None => Ok(Object(members)),
        }
    }

    /// A member's raw JSON.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The members in their order: names, and values as raw JSON.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

/// The members of the object that these bytes are; None if they are another value.
fn members(raw: &[u8]) -> Result<Option<Members<'_>>, Malformed> {
    let text = std::str::from_utf8(raw).map_err(|_| Malformed::Utf8)?;
    let mut scanner = Scanner::new(raw)?;
    if scanner.ahead() != b'{' {
        scanner.skip()?;
        return scanner.end().map(|()| None);
    }
    let mut members = Vec::new();
    scanner.members(|scanner, name| {
        if members.is_empty() {
            members.reserve(FEW);
        }
        let name = match name.escaped {
            true => scanner.text(name),
            false => Cow::Borrowed(&text[name.span.range()]),
        };
        let (_, value) = scanner.token()?;
        members.push((name, &text[value.range()]));
        Ok(())
    })?;
    scanner.end()?;
    Ok(Some(members))
}

/// A name that two members share.
fn repeated<'a>(members: &'a [(Cow<'_, str>, &str)]) -> Option<&'a str> {
    let name = |(name, _): &'a (Cow<'_, str>, &str)| -> &'a str { name };
    if members.len() <= FEW {
        let mut pairs = members.iter().enumerate();
        let seen = |(at, member)| members[..at].iter().any(|other| name(other) == name(member));
        return pairs.find(|pair| seen(*pair)).map(|(_, member)| name(member));
    }
    let mut names: Vec<&str> = members.iter().map(name).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Writes an object, member by member.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// An object without members so far.
    pub fn new() -> Writer {
        Writer(vec![b'{'])
    }

    /// The same, with room for an object of so many bytes.
    pub fn with_capacity(length: usize) -> Writer {
        let mut out = Vec::with_capacity(length);
        out.push(b'{');
        Writer(out)
    }

    /// Adds a member whose value is raw JSON already.
    pub fn raw(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.name(name);
        self.0.extend_from_slice(value.as_ref());
    }

    /// Adds a member that is a string.
    pub fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_str(&mut self.0, value);
    }

    /// Adds a member that is an object, whose members `fill` adds.
    pub fn object(&mut self, name: &str, fill: impl FnOnce(&mut Writer)) {
        self.name(name);
        self.0.push(b'{');
        fill(self);
        self.0.push(b'}');
    }

    /// The whole object.
    pub fn finish(self) -> Bytes {
        Bytes::from(self.into_vec())
    }

    /// The whole object, in the room made for it.
    pub fn into_vec(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    fn name(&mut self, name: &str) {
        // No value ends like an object that has just been opened.
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        write_str(&mut self.0, name);
        self.0.push(b':');
    }
}

/// The elements of a JSON array, as raw JSON.
pub fn elements(raw: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(raw: &str) -> Result<String, String> {
        let object = Object::parse(raw.as_bytes())?;
        let mut writer = Writer::new();
        for (name, value) in object.iter() {
            writer.raw(name, value);
        }
        Ok(String::from_utf8(writer.finish().to_vec()).unwrap())
    }

    #[test]
    fn members_keep_order_and_text() {
        let raw =
            r#"{"z":1.0,"a":{"deep":[1,  2]},"big":123456789012345678901234567890,"é":"\u00e9"}"#;
        assert_eq!(rewritten(raw).as_deref(), Ok(raw));
        assert_eq!(rewritten("").as_deref(), Ok("{}"));
        assert_eq!(rewritten(" { } ").as_deref(), Ok("{}"));
    }

    #[test]
    fn what_is_no_object_or_says_things_twice_is_refused() {
        for raw in ["[]", "1", "{", r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, "{} {}"] {
            assert!(rewritten(raw).is_err(), "{raw}");
        }
        for n in 1..30 {
            let members: Vec<_> = (0..n).map(|n| format!(r#""m{n}":{n}"#)).collect();
            let object = format!("{{{}}}", members.join(","));
            assert_eq!(rewritten(&object), Ok(object));
            let twice = format!(r#"{{{},"m{}":0}}"#, members.join(","), n / 2);
            assert!(rewritten(&twice).unwrap_err().contains("appears twice"), "{twice}");
        }
    }

    #[test]
    fn objects_are_written_inside_each_other() {
        let mut writer = Writer::with_capacity(10);
        writer.object("empty", |_| {});
        writer.object("full", |inner| {
            inner.raw("a", "{}");
            inner.text("b", "{");
        });
        writer.raw("last", "1");
        assert_eq!(writer.finish(), r#"{"empty":{},"full":{"a":{},"b":"{"},"last":1}"#);
    }
}
