//! Writes JSON straight into a buffer, member by member.
//!
//! Results differ between revisions by a member here and there, which a derived `Serialize` cannot
//! say; and the hot path must not build trees. This writer is not a general serializer: values
//! still go through serde.

use serde::Serialize;

/// An object being written. Members appear in the order of the calls.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Opens an object at the end of `out`.
    pub(crate) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes a member; `value` must be one of our own types, which always serialize.
    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        serialize(self.member(name), value);
        self
    }

    /// Writes a member unless the value is absent.
    pub(crate) fn optional<T: Serialize>(&mut self, name: &str, value: Option<&T>) -> &mut Self {
        if let Some(value) = value {
            self.field(name, value);
        }
        self
    }

    /// Writes a member whose value is JSON already.
    pub(crate) fn raw(&mut self, name: &str, json: &[u8]) -> &mut Self {
        self.member(name).extend_from_slice(json);
        self
    }

    /// Writes a member's name and leaves its value to the caller.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        serialize(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Copies members that are JSON already, e.g. `"a":1,"b":2`.
    pub(crate) fn splice(&mut self, members: &[u8]) -> &mut Self {
        if !members.is_empty() {
            if !self.empty {
                self.out.push(b',');
            }
            self.empty = false;
            self.out.extend_from_slice(members);
        }
        self
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}

/// Writes an array, leaving each item to `write`.
pub(crate) fn array<I: IntoIterator>(
    out: &mut Vec<u8>,
    items: I,
    mut write: impl FnMut(&mut Vec<u8>, I::Item),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Writes a value of one of our own types.
pub(crate) fn serialize<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("own types have string keys and serialize infallibly");
}

/// Builds one object in a buffer of its own.
pub(crate) fn object(build: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    build(&mut object);
    object.close();
    out
}

/// A number as people write it: `50`, not `50.0`.
pub(crate) fn number(out: &mut Vec<u8>, value: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        serialize(out, &(value as i64));
    } else {
        // Infinity and NaN have no JSON; serde writes null, which the caller avoids.
        serialize(out, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_separated_and_escaped() {
        let json = object(|o| {
            o.field("a", "x\"y").optional("gone", None::<&u8>).raw("b", b"[1]").splice(b"\"c\":2");
            number(o.member("d\n"), 50.0);
        });
        assert_eq!(String::from_utf8(json).unwrap(), r#"{"a":"x\"y","b":[1],"c":2,"d\n":50}"#);
    }

    #[test]
    fn fractions_stay_fractions() {
        let mut out = Vec::new();
        number(&mut out, 0.5);
        assert_eq!(out, b"0.5");
    }
}
