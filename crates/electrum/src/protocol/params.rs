//! Parameters of a request, by position or by name, and their types.
//!
//! A parameter of the wrong JSON type gives error -32602, as does a wrong number of them; one of the right type with an
//! impossible value gives error 1, as in `ElectrumX`.

use std::collections::BTreeMap;
use std::vec;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{BlockHash, ScriptBuf, Txid};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{RpcError, echo};
use crate::protocol::version::{Version, VersionRange};

/// Parameters of a request that are not taken yet.
#[derive(Debug)]
pub(crate) enum Args<'a> {
    Positional(vec::IntoIter<&'a RawValue>),
    Named(BTreeMap<String, &'a RawValue>),
}

/// Type of a parameter.
pub(crate) trait Param: Sized {
    /// Parses the JSON text of the parameter called `name`.
    fn parse(name: &str, json: &str) -> Result<Self, RpcError>;
}

// === impl Args ===

impl<'a> Args<'a> {
    /// Parses the `params` member of a request; missing and null mean none.
    pub(crate) fn parse(params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let wrong = |_| RpcError::invalid_params("params is neither an array nor an object");
        match params.map(RawValue::get) {
            None => Ok(Self::Positional(Vec::new().into_iter())),
            Some(json) if json.starts_with('{') => serde_json::from_str(json).map(Self::Named).map_err(wrong),
            Some(json) => {
                let values: Vec<&'a RawValue> = serde_json::from_str(json).map_err(wrong)?;
                Ok(Self::Positional(values.into_iter()))
            }
        }
    }

    /// Takes the next parameter, which must be there.
    pub(crate) fn required<T: Param>(&mut self, name: &str) -> Result<T, RpcError> {
        let raw = self.take(name).ok_or_else(|| RpcError::invalid_params(format!("{name} is missing")))?;
        T::parse(name, raw.get())
    }

    /// Takes the next parameter; missing and null mean the default.
    pub(crate) fn optional<T: Param>(&mut self, name: &str, default: T) -> Result<T, RpcError> {
        Ok(self.maybe(name)?.unwrap_or(default))
    }

    /// Takes the next parameter; returns `None` if it is missing or null.
    pub(crate) fn maybe<T: Param>(&mut self, name: &str) -> Result<Option<T>, RpcError> {
        self.maybe_json(name).map(|json| T::parse(name, json)).transpose()
    }

    /// Takes the next parameter as JSON; returns `None` if it is missing or null.
    pub(crate) fn maybe_json(&mut self, name: &str) -> Option<&'a str> {
        self.take(name).map(RawValue::get).filter(|json| *json != "null")
    }

    /// Refuses parameters that are left over.
    pub(crate) fn end(self) -> Result<(), RpcError> {
        match self {
            Self::Positional(rest) if rest.len() > 0 => Err(RpcError::invalid_params("too many parameters")),
            Self::Named(rest) => rest.into_keys().next().map_or(Ok(()), |name| {
                Err(RpcError::invalid_params(format!("there is no parameter \"{}\"", echo(&name))))
            }),
            Self::Positional(_) => Ok(()),
        }
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        match self {
            Self::Positional(values) => values.next(),
            Self::Named(values) => values.remove(name),
        }
    }
}

// === impl Param ===

/// Numbers beyond `u32` saturate: the largest is past the end of everything that a parameter counts.
impl Param for u32 {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        let digits = json.strip_prefix('-').unwrap_or(json);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RpcError::invalid_params(format!("{name} is not an integer")));
        }
        if json.starts_with('-') {
            return Err(RpcError::bad_request(format!("{} should be a non-negative integer", echo(json))));
        }
        Ok(digits.parse().unwrap_or(u32::MAX))
    }
}

impl Param for Height {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        u32::parse(name, json).map(Self)
    }
}

/// The excluded end of a range of heights; -1 means none.
impl Param for Option<Height> {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        if json == "-1" { Ok(None) } else { Height::parse(name, json).map(Some) }
    }
}

/// 0 and 1 are accepted too, as Python's servers accept them.
impl Param for bool {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        match json {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(RpcError::invalid_params(format!("{name} is not true or false"))),
        }
    }
}

impl Param for String {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        serde_json::from_str(json).map_err(|_| RpcError::invalid_params(format!("{name} is not a string")))
    }
}

impl Param for Vec<String> {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        serde_json::from_str(json).map_err(|_| RpcError::invalid_params(format!("{name} is not an array of strings")))
    }
}

impl Param for ScriptHash {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        text(name, json, "is not a valid script hash", |text| text.parse().ok())
    }
}

/// A scriptPubKey in hexadecimal.
impl Param for ScriptBuf {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        text(name, json, NOT_HEX, |text| Self::from_hex(text).ok())
    }
}

impl Param for Txid {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        text(name, json, "should be a transaction hash", |text| text.parse().ok())
    }
}

/// A block, named by height or by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockName {
    Height(Height),
    Hash(BlockHash),
}

impl Param for BlockName {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        if !json.starts_with('"') {
            return Height::parse(name, json).map(Self::Height);
        }
        text(name, json, "should be a block hash", |text| text.parse().ok().map(Self::Hash))
    }
}

/// Hexadecimal digits without a meaning, of any length.
pub(crate) struct Padding;

impl Param for Padding {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        text(name, json, NOT_HEX, |text| text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(Self))
    }
}

/// The first parameter of `server.ping`: the number of digits in the answer. A notification, which gets no answer, has
/// its padding in this position.
pub(crate) struct PongLength(pub(crate) u32);

impl Param for PongLength {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        if json.starts_with('"') {
            return Padding::parse(name, json).map(|Padding| Self(0));
        }
        u32::parse(name, json).map(Self)
    }
}

/// A JSON object, as the client wrote it.
pub(crate) struct Object(pub(crate) String);

impl Param for Object {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        if json.starts_with('{') {
            return Ok(Self(json.to_owned()));
        }
        Err(RpcError::invalid_params(format!("{name} is not an object")))
    }
}

const NOT_HEX: &str = "should be a hex string";

/// Parses a string whose text `parse` may refuse, in these words.
fn text<T>(name: &str, json: &str, refusal: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, RpcError> {
    let text = String::parse(name, json)?;
    parse(&text).ok_or_else(|| RpcError::bad_request(format!("{} {refusal}", echo(&text))))
}

/// One version, or an array of the lowest and the highest version.
impl Param for VersionRange {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            Both(String, String),
        }
        let either = serde_json::from_str(json)
            .map_err(|_| RpcError::invalid_params(format!("{name} is neither a string nor an array of two")))?;
        let version = |text: &str| {
            text.parse::<Version>()
                .map_err(|_| RpcError::bad_request(format!("unsupported protocol version: {}", echo(text))))
        };
        match either {
            Either::One(text) => version(&text).map(|version| Self { min: version, max: version }),
            Either::Both(min, max) => Ok(Self { min: version(&min)?, max: version(&max)? }),
        }
    }
}
