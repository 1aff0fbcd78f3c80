//! JSON as serde_json sees it, with the two facts it does not tell: depth and repeated names.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// What can be said for certain about a text.
pub(crate) enum Verdict {
    /// Not JSON, whoever reads it.
    Malformed,
    /// JSON, with its value.
    Json(Value),
    /// Readers may differ: a number out of range, half a surrogate pair.
    Unsure,
}

pub(crate) fn judge(text: &[u8]) -> Verdict {
    // Syntax alone: IgnoredAny minds neither the size of numbers nor the pairing of surrogates.
    if std::str::from_utf8(text).is_err() || serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return Verdict::Malformed;
    }
    match serde_json::from_slice(text) {
        Ok(value) => Verdict::Json(value),
        Err(_) => Verdict::Unsure,
    }
}

/// How deep objects and arrays nest in a text that is JSON.
pub(crate) fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Whether any object in a text that is JSON has the same name twice.
pub(crate) fn repeats_a_name(json: &[u8]) -> bool {
    serde_json::from_slice::<Distinct>(json).is_err()
}

/// Deserializes from anything whose names are distinct.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Distinct, D::Error> {
        deserializer.deserialize_any(Distinct)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON with distinct names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, Distinct)) = map.next_entry::<String, Distinct>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("repeated name"));
            }
        }
        Ok(Distinct)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Distinct, A::Error> {
        while let Some(Distinct) = list.next_element()? {}
        Ok(Distinct)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(Distinct)
    }
}
