//! How secrets are written into a sealed entry, and nowhere else: fields opt in one by one.

use serde::{Deserialize, Deserializer, Serializer};

use crate::credentials::Secret;

pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret.expose())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(Secret::new)
}

pub(super) mod optional {
    //! The same for secrets that may be missing.

    use super::*;

    pub(in crate::oauth) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.expose()),
            None => to.serialize_none(),
        }
    }

    pub(in crate::oauth) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::new))
    }
}
