//! Whole numbers as JSON Schema means them: `5` and `5.0` are the same.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use lyceum_kb::Error;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A whole number in an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Whole(pub(crate) i64);

/// The number given, or `default`; INVALID_ARGUMENT beyond `range`.
pub(crate) fn within(
    name: &str,
    given: Option<Whole>,
    default: i64,
    range: RangeInclusive<i64>,
) -> lyceum_kb::Result<usize> {
    let value = given.map_or(default, |given| given.0);
    let outside = || {
        let (least, most) = (range.start(), range.end());
        Error::invalid(format!("{name}: give {least} to {most}")).with("given", value)
    };
    if !range.contains(&value) {
        return Err(outside());
    }
    usize::try_from(value).map_err(|_| outside())
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_i64().or_else(|| {
            let value = number.as_f64()?;
            // Beyond 2^53 a float no longer says which whole number it is.
            (value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0).then_some(value as i64)
        });
        whole.map(Whole).ok_or_else(|| de::Error::custom(format!("{number} is no whole number")))
    }
}

impl JsonSchema for Whole {
    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_be_written_with_a_point() {
        for (text, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("-1", Some(-1)),
            ("5.5", None),
            ("1e300", None),
            ("\"5\"", None),
            ("9223372036854775807", Some(i64::MAX)),
        ] {
            let read: Option<Whole> = serde_json::from_str(text).ok();
            assert_eq!(read.map(|whole| whole.0), expected, "{text}");
        }
    }

    #[test]
    fn numbers_beyond_the_range_are_refused_by_name() {
        assert_eq!(within("limit", None, 5, 1..=20), Ok(5));
        assert_eq!(within("limit", Some(Whole(20)), 5, 1..=20), Ok(20));
        for beyond in [0, 21, -1, i64::MAX] {
            let error = within("limit", Some(Whole(beyond)), 5, 1..=20).unwrap_err();
            assert_eq!(error.message(), "limit: give 1 to 20");
        }
    }
}
