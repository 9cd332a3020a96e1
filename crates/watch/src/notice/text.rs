//! Forms of values in the JSON of a notice.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer};

/// True for a value that its JSON leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Values as their text.
pub(crate) mod plain {
    use super::{Deserialize as _, Deserializer, Display, FromStr, Serializer, parsed};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        parsed(&String::deserialize(deserializer)?)
    }
}

/// Values that may be absent, as their text.
pub(crate) mod optional {
    use super::{Deserialize as _, Deserializer, Display, FromStr, Serializer, parsed};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| parsed(&text)).transpose()
    }
}

/// A balance as two numbers.
pub(crate) mod balance {
    use birdhouse_chain::Balance;

    use super::{Deserialize, Deserializer, Serializer};
    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    struct Form {
        confirmed: u64,
        unconfirmed: i64,
    }

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(crate) fn serialize<S: Serializer>(value: &Option<Balance>, serializer: S) -> Result<S::Ok, S::Error> {
        let form = value.map(|Balance { confirmed, unconfirmed }| Form { confirmed, unconfirmed });
        form.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Balance>, D::Error> {
        let form = Option::<Form>::deserialize(deserializer)?;
        Ok(form.map(|Form { confirmed, unconfirmed }| Balance { confirmed, unconfirmed }))
    }
}

/// A block as its height and its hash.
pub(crate) mod block {
    use birdhouse_chain::Height;
    use birdhouse_chain::source::BlockId;

    use super::{Deserialize, Deserializer, Serializer, parsed};
    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    struct Form {
        height: u32,
        hash: String,
    }

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(crate) fn serialize<S: Serializer>(value: &Option<BlockId>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|block| Form { height: block.height.0, hash: block.hash.to_string() }).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BlockId>, D::Error> {
        let form = Option::<Form>::deserialize(deserializer)?;
        form.map(|form| Ok(BlockId { height: Height(form.height), hash: parsed(&form.hash)? })).transpose()
    }
}

fn parsed<T: FromStr<Err: Display>, E: serde::de::Error>(text: &str) -> Result<T, E> {
    text.parse().map_err(|error| E::custom(format!("{text}: {error}")))
}

/// Outpoints as their texts.
pub(crate) mod outpoints {
    use bitcoin::OutPoint;

    use super::{Deserialize as _, Deserializer, Serializer, parsed};

    pub(crate) fn serialize<S: Serializer>(value: &[OutPoint], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OutPoint>, D::Error> {
        Vec::<String>::deserialize(deserializer)?.iter().map(|text| parsed(text)).collect()
    }
}
