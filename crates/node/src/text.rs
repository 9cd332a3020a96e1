//! Values that JSON carries as text: hashes, in the form people see.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with)]`: text parsed into its type.
pub(crate) fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Text alone, as the answer of a call.
#[derive(Debug, Deserialize)]
#[serde(transparent, bound = "T: FromStr<Err: Display>")]
pub(crate) struct Parsed<T>(#[serde(deserialize_with = "parsed")] pub(crate) T);
