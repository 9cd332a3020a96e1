//! Values that JSON carries as text, such as hashes in their displayed form.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Parses text into its type, for `#[serde(deserialize_with)]`.
pub(crate) fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// A text that is the whole answer of a call.
#[derive(Debug, Deserialize)]
#[serde(transparent, bound = "T: FromStr<Err: Display>")]
pub(crate) struct Parsed<T>(#[serde(deserialize_with = "parsed")] pub(crate) T);
