//! The mistake in a JSON object that is no event or no filter, in the protocol's words. A parser's own words name the
//! types of a program, not what the client sent. Only what was refused is read this second time.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::rejection::Rejection;

/// Form of a field's value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// The end of "it is not ..".
    pub(crate) words: &'static str,
    /// True for the JSON of such a value.
    pub(super) is: fn(&str) -> bool,
}

/// An object's fields while they are read.
struct Fields<F> {
    form: F,
    known: Vec<String>,
    mistake: Option<String>,
}

// === impl Form ===

impl Form {
    /// Returns the form of the values that are read as `T`.
    pub(crate) const fn of<T: DeserializeOwned>(words: &'static str) -> Self {
        Self { words, is: |json| serde_json::from_str::<T>(json).is_ok() }
    }
}

/// Returns the refusal of a text that is not the object that `whole` names, such as "an event". The fields of some form
/// are those that have a meaning, and `needed` are those that must be there.
pub(crate) fn mistake(text: &str, whole: &str, form: impl Fn(&str) -> Option<Form>, needed: &[&str]) -> Rejection {
    let fields = Fields { form, known: Vec::new(), mistake: None };
    let Ok((known, mistake)) = serde_json::Deserializer::from_str(text).deserialize_map(fields) else {
        return Rejection::invalid(format!("{whole} is a JSON object"));
    };
    let missing = || needed.iter().find(|field| !known.iter().any(|known| known == *field));
    let missing = || missing().map(|field| format!("{field} is missing"));
    Rejection::invalid(mistake.or_else(missing).unwrap_or_else(|| format!("this is not {whole}")))
}

impl<'de, F: Fn(&str) -> Option<Form>> Visitor<'de> for Fields<F> {
    type Value = (Vec<String>, Option<String>);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (self.form)(&key) {
                Some(form) if self.mistake.is_none() => {
                    let value: &RawValue = map.next_value()?;
                    self.mistake = if self.known.contains(&key) {
                        Some(format!("{key} comes twice"))
                    } else if (form.is)(value.get()) {
                        None
                    } else {
                        Some(format!("{key} is not {}", form.words))
                    };
                    self.known.push(key);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((self.known, self.mistake))
    }
}
