//! JSON objects read and written one level deep: members keep their order and their exact text.
//!
//! This is how params, results and definitions pass through clients and gateways without losing what
//! nobody asked about.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::checked::{self, Members};
use crate::encode::write_str;
use crate::scan::{Malformed, Scan, Scanner};
use crate::text::token_text;

/// Members for which room is made at first: most objects have no more.
const FEW: usize = 8;

/// The members of an object, values as raw JSON.
#[derive(Debug, Default)]
pub struct Object<'a>(Members<'a>);

impl<'a> Object<'a> {
    /// Reads an object; no bytes at all count as an empty one.
    pub fn parse(raw: &'a [u8]) -> Result<Object<'a>, String> {
        if raw.is_empty() {
            return Ok(Object::default());
        }
        let mut scanner = Scanner::new(raw).map_err(Malformed::message)?;
        let members = members(&mut scanner).map_err(Malformed::message)?;
        let members = members.ok_or("it is not a JSON object")?;
        // Two values under one name would mean different things to different readers. The scanner
        // knows whether any object has them, this one or one inside.
        if scanner.repeated
            && let Some(name) = repeated(&members)
        {
            return Err(format!("\"{name}\" appears twice"));
        }
        Ok(Object(members))
    }

    /// Reads an object that is known to be one, because it was parsed as part of a message or
    /// written by [`Writer`]; no bytes at all count as an empty one. Cheaper than
    /// [`parse`](Self::parse), because nothing is checked again.
    pub fn of_checked(raw: &'a [u8]) -> Object<'a> {
        Object(checked::members(std::str::from_utf8(raw).unwrap_or_default()))
    }

    /// [`of_checked`](Self::of_checked), and the same of the member `inner`, in one pass.
    pub fn of_checked_with(raw: &'a [u8], inner: &str) -> (Object<'a>, Object<'a>) {
        let text = std::str::from_utf8(raw).unwrap_or_default();
        let (members, inside) = checked::members_with(text, inner);
        (Object(members), Object(inside))
    }

    /// A member's raw JSON.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        string(self.get(name)?).map(Cow::into_owned)
    }

    /// The members in their order: names, and values as raw JSON.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

/// The members in their order: names, and values as raw JSON.
impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, &'a str);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The members of the object that is scanned; None if it is another value.
fn members<'a>(scanner: &mut Scanner<'a>) -> Scan<Option<Members<'a>>> {
    if scanner.ahead() != b'{' {
        scanner.skip()?;
        return scanner.end().map(|()| None);
    }
    let mut members = Vec::with_capacity(FEW);
    scanner.members(|scanner, name| {
        let (_, value) = scanner.token()?;
        members.push((scanner.text(name), &scanner.source[value.range()]));
        Ok(())
    })?;
    scanner.end()?;
    Ok(Some(members))
}

/// A name that two members share.
fn repeated<'a>(members: &'a [(Cow<'_, str>, &str)]) -> Option<&'a str> {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
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
        Writer::at_end_of(Vec::with_capacity(length))
    }

    /// An object at the end of what was written so far.
    pub(crate) fn at_end_of(mut out: Vec<u8>) -> Writer {
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

    /// Adds members that are written already, in pieces.
    pub fn written(&mut self, pieces: &[&[u8]]) {
        self.separate();
        pieces.iter().for_each(|piece| self.0.extend_from_slice(piece));
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
        self.separate();
        write_str(&mut self.0, name);
        self.0.push(b':');
    }

    fn separate(&mut self) {
        // No value ends like an object that has just been opened.
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
    }
}

/// The text of a member of an [`Object`]; None if its value is not a string.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    token_text(raw.as_bytes())
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
