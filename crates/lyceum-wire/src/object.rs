//! JSON objects read and written one level deep: members keep their order and their exact text.
//!
//! This is how params, results and definitions pass through clients and gateways without losing what
//! nobody asked about.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::encode::write_str;

/// Members for which room is made at first: most objects have no more.
const FEW: usize = 8;

/// The members of an object, values as raw JSON.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(Name<'a>, &'a RawValue)>);

/// The name of a member; a copy only if it has escapes.
#[derive(Debug)]
struct Name<'a>(Cow<'a, str>);

impl<'a> Object<'a> {
    /// Reads an object; no bytes at all count as an empty one.
    pub fn parse(raw: &'a [u8]) -> Result<Object<'a>, String> {
        if raw.is_empty() {
            return Ok(Object::default());
        }
        serde_json::from_slice(raw).map_err(|error| error.to_string())
    }

    /// A member's raw JSON.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member.0 == name).map(|(_, value)| value.get())
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The members in their order: names, and values as raw JSON.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&*name.0, value.get()))
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members: Vec<(Name<'de>, &'de RawValue)> = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.is_empty() {
                        members.reserve(FEW);
                    }
                    members.push(member);
                }
                // Two values under one name would mean different things to different readers.
                match repeated(&members) {
                    Some(name) => Err(A::Error::custom(format!("\"{name}\" appears twice"))),
                    None => Ok(Object(members)),
                }
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A name that two members share.
fn repeated<'a>(members: &'a [(Name<'_>, &RawValue)]) -> Option<&'a str> {
    let name = |(name, _): &'a (Name<'_>, &RawValue)| -> &'a str { &name.0 };
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
