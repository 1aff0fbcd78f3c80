//! JSON objects read and written one level deep: members keep their order and their exact text.
//!
//! This is how params, results and definitions pass through clients and gateways without losing what
//! nobody asked about.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::encode::write_str;

/// The members of an object, values as raw JSON.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(String, &'a RawValue)>);

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
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| value.get())
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The members in their order: names, and values as raw JSON.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
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
                let mut members: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                // Two values under one name would mean different things to different readers.
                let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                match names.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Err(A::Error::custom(format!("\"{}\" appears twice", pair[0]))),
                    None => Ok(Object(members)),
                }
            }
        }
        deserializer.deserialize_map(Members)
    }
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

    /// The whole object.
    pub fn finish(mut self) -> Bytes {
        self.0.push(b'}');
        Bytes::from(self.0)
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
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
    }
}
