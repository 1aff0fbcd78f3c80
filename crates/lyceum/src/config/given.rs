//! A value together with the place it was given, so that a complaint about it can name the place.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A byte of a document not yet named; `Layer::stamp` turns it into one of the others.
    Offset(usize),
    /// A line of the configuration file.
    Line(String, usize),
    /// An environment variable.
    Variable(String),
    /// The command line.
    Flag,
    /// The built-in defaults.
    Default,
}

/// A value and where it was given.
#[derive(Debug, Clone)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// Something several documents may set, the later one winning.
pub(crate) trait Layer {
    /// Names the place of every value, which so far is only an offset.
    fn stamp(&mut self, name: &dyn Fn(usize) -> Source);

    /// Puts `upper` on top of `self`.
    fn cover(&mut self, upper: Self);
}

/// Implements [`Layer`] by naming every field; leaving one out does not compile.
macro_rules! layer {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::config::given::Layer for $type {
            fn stamp(&mut self, name: &dyn Fn(usize) -> $crate::config::given::Source) {
                let Self { $($field),* } = self;
                $($crate::config::given::Layer::stamp($field, name);)*
            }

            fn cover(&mut self, upper: Self) {
                let Self { $($field),* } = upper;
                $($crate::config::given::Layer::cover(&mut self.$field, $field);)*
            }
        }
    };
}
pub(crate) use layer;

impl<T> Layer for Given<T> {
    fn stamp(&mut self, name: &dyn Fn(usize) -> Source) {
        if let Source::Offset(offset) = self.source {
            self.source = name(offset);
        }
    }

    fn cover(&mut self, upper: Self) {
        *self = upper;
    }
}

impl<T> Layer for Option<Given<T>> {
    fn stamp(&mut self, name: &dyn Fn(usize) -> Source) {
        if let Some(given) = self {
            given.stamp(name);
        }
    }

    fn cover(&mut self, upper: Self) {
        if upper.is_some() {
            *self = upper;
        }
    }
}

/// A list is replaced as a whole: half of one list and half of another is what nobody meant.
impl<T: Layer> Layer for Vec<T> {
    fn stamp(&mut self, name: &dyn Fn(usize) -> Source) {
        for item in self {
            item.stamp(name);
        }
    }

    fn cover(&mut self, upper: Self) {
        if !upper.is_empty() {
            *self = upper;
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<T>::deserialize(deserializer)?;
        let source = Source::Offset(spanned.span().start);
        Ok(Self { value: spanned.into_inner(), source })
    }
}

/// What the command line gives.
impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(|value| Self { value, source: Source::Flag })
    }
}

/// The reference shows the value; where it came from is nobody's business there.
impl<T: JsonSchema> JsonSchema for Given<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "byte {offset}"),
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
            Self::Default => f.write_str("built-in defaults"),
        }
    }
}
