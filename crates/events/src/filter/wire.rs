//! The JSON object of a filter, with only its form checked: types, and keys that occur twice.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::event::{Form, Hex, Letter};

/// Fields of the object, with only their form checked.
#[derive(Default)]
pub(super) struct WireFilter {
    pub(super) ids: Option<Vec<Hex<32>>>,
    pub(super) authors: Option<Vec<Hex<32>>>,
    pub(super) kinds: Option<Vec<Integer>>,
    pub(super) since: Option<Integer>,
    pub(super) until: Option<Integer>,
    pub(super) limit: Option<Integer>,
    pub(super) search: Option<String>,
    /// Conditions that one value fulfils (`#`).
    pub(super) any: Vec<(Letter, Vec<String>)>,
    /// Conditions that need all values (`&`).
    pub(super) all: Vec<(Letter, Vec<String>)>,
    /// The object has an unknown key.
    pub(super) unknown: bool,
    /// The object has a condition on tags with a longer name.
    pub(super) unknown_tag: bool,
}

/// JSON integer, clamped to 64 bits.
pub(super) struct Integer(pub(super) i64);

// === impl WireFilter ===

impl WireFilter {
    /// Stores the value of a key.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "ids" => once(&mut self.ids, "ids", map),
            "authors" => once(&mut self.authors, "authors", map),
            "kinds" => once(&mut self.kinds, "kinds", map),
            "since" => once(&mut self.since, "since", map),
            "until" => once(&mut self.until, "until", map),
            "limit" => once(&mut self.limit, "limit", map),
            "search" => once(&mut self.search, "search", map),
            _ => self.read_tags(key, map),
        }
    }

    fn read_tags<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let (list, name) = match key.split_at_checked(1) {
            Some(("#", name)) => (&mut self.any, name),
            Some(("&", name)) => (&mut self.all, name),
            _ => {
                self.unknown = true;
                return map.next_value::<IgnoredAny>().map(|_| ());
            }
        };
        let Some(letter) = Letter::parse(name) else {
            self.unknown_tag = true;
            return map.next_value::<IgnoredAny>().map(|_| ());
        };
        if list.iter().any(|(other, _)| *other == letter) {
            return Err(de::Error::custom("a tag's letter comes twice"));
        }
        list.push((letter, map.next_value()?));
        Ok(())
    }
}

/// Returns the form of a key's value; `None` for a key without a meaning.
pub(super) fn form(key: &str) -> Option<Form> {
    Some(match key {
        "ids" => Form::of::<Vec<Hex<32>>>("a list of ids of 64 lowercase hex digits"),
        "authors" => Form::of::<Vec<Hex<32>>>("a list of keys of 64 lowercase hex digits"),
        "kinds" => Form::of::<Vec<Integer>>("a list of integers"),
        "since" | "until" | "limit" => Form::of::<Integer>("an integer"),
        "search" => Form::of::<String>("a string"),
        _ => {
            let letter = key.strip_prefix(['#', '&']).and_then(Letter::parse);
            return letter.map(|_| Form::of::<Vec<String>>("a list of strings"));
        }
    })
}

/// Reads the value of a key that must not occur twice.
fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    key: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    match slot.replace(map.next_value()?) {
        None => Ok(()),
        Some(_) => Err(de::Error::duplicate_field(key)),
    }
}

impl<'de> Deserialize<'de> for WireFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = WireFilter;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a filter, which is an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireFilter, A::Error> {
                let mut filter = WireFilter::default();
                while let Some(key) = map.next_key::<String>()? {
                    filter.read(&key, &mut map)?;
                }
                Ok(filter)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Integer;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an integer")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Integer, E> {
                Ok(Integer(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Integer, E> {
                Ok(Integer(value.try_into().unwrap_or(i64::MAX))) // beyond every time, kind and count alike
            }
        }
        deserializer.deserialize_i64(Number)
    }
}
