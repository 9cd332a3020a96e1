//! Filters as JSON objects on the wire (NIP-01, [NIP-50], [NIP-91]), parsed once at the edge.
//!
//! A condition that matches nothing is valid: kinds that no event has, times before 1970, empty lists.
//!
//! A condition on tags that cannot be answered is refused even where unknown keys are ignored: without it the filter
//! would ask for everything.
//!
//! [NIP-50]: https://github.com/nostr-protocol/nips/blob/master/50.md
//! [NIP-91]: https://github.com/nostr-protocol/nips/blob/master/91.md

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Filter;
use super::limits::{FilterLimits, UnknownKeys};
use super::wire::{Integer, WireFilter, form};
use crate::event::{EventId, Kind, Letter, Pubkey, Rejection, Timestamp, hex, mistake};
use crate::text::Search;

// === impl Filter ===

impl Filter {
    /// Parses the text of a JSON object, for example of a `RawValue`.
    pub fn from_json(text: &str, limits: &FilterLimits) -> Result<Self, Rejection> {
        let wire: WireFilter = serde_json::from_str(text).map_err(|_| mistake(text, "a filter", form, &[]))?;
        wire.checked(limits)
    }

    /// Converts a parsed object.
    pub fn from_object(object: &Map<String, Value>, limits: &FilterLimits) -> Result<Self, Rejection> {
        let text = || serde_json::to_string(object).expect("an object is JSON");
        let wire = WireFilter::deserialize(object).map_err(|_| mistake(&text(), "a filter", form, &[]))?;
        wire.checked(limits)
    }
}

// === impl WireFilter ===

impl WireFilter {
    fn checked(self, limits: &FilterLimits) -> Result<Filter, Rejection> {
        self.check_known(limits)?;
        self.check_size(limits)?;
        self.check_names()?;
        let limit = self.limit.as_ref().map(|limit| usize::try_from(limit.0));
        let limit = limit.transpose().map_err(|_| Rejection::invalid("limit is negative"))?;
        if self.until.as_ref().is_some_and(|until| until.0 < 0) {
            return Ok(Filter { limit, ..Filter::nothing() });
        }
        // No event is older than 1970, so a negative `since` excludes nothing.
        let time = |integer: Option<Integer>| Some(Timestamp(u64::try_from(integer?.0).ok()?));
        let kind = |integer: Integer| u16::try_from(integer.0).ok().map(Kind);
        Ok(Filter {
            ids: self.ids.map(|ids| ascending(ids.into_iter().map(|id| EventId(id.0)).collect())),
            authors: self.authors.map(|authors| ascending(authors.into_iter().map(|key| Pubkey(key.0)).collect())),
            kinds: self.kinds.map(|kinds| ascending(kinds.into_iter().filter_map(kind).collect())),
            tags: conditions(self.any, self.all),
            since: time(self.since),
            until: time(self.until),
            limit,
            search: self.search.and_then(|search| Search::parse(&search)),
        })
    }

    fn check_known(&self, limits: &FilterLimits) -> Result<(), Rejection> {
        let refused = match limits.unknown_keys {
            UnknownKeys::Ignored => self.unknown_tag,
            UnknownKeys::Unsupported => self.unknown_tag || self.unknown,
        };
        if refused {
            return Err(Rejection::Unsupported("filter contains unknown elements".into()));
        }
        Ok(())
    }

    fn check_size(&self, limits: &FilterLimits) -> Result<(), Rejection> {
        let values = self.ids.as_ref().map_or(0, Vec::len)
            + self.authors.as_ref().map_or(0, Vec::len)
            + self.kinds.as_ref().map_or(0, Vec::len)
            + self.tags().map(|(_, values)| values.len()).sum::<usize>();
        let conditions = self.any.len() + self.all.iter().map(|(_, values)| values.len()).sum::<usize>();
        let value_bytes = self.tags().flat_map(|(_, values)| values).map(String::len).max().unwrap_or(0);
        within("values in a filter", values, limits.values_max)?;
        within("conditions on tags", conditions, limits.tag_conditions_max)?;
        within("bytes of a tag's value", value_bytes, limits.tag_value_bytes_max)?;
        within("bytes of search", self.search.as_ref().map_or(0, String::len), limits.search_bytes_max)?;
        Ok(())
    }

    /// Checks that values of `e` and `p` are ids and keys (NIP-01).
    fn check_names(&self) -> Result<(), Rejection> {
        let mut names =
            self.tags().filter(|(letter, _)| matches!(letter.byte(), b'e' | b'p')).flat_map(|(_, names)| names);
        if names.all(|name| hex::parse::<32>(name).is_some()) {
            return Ok(());
        }
        Err(Rejection::invalid("#e and #p are 64 lowercase hex digits"))
    }

    fn tags(&self) -> impl Iterator<Item = &(Letter, Vec<String>)> {
        self.any.iter().chain(&self.all)
    }
}

/// Returns the conditions on tags: one for each `#` letter, and one for each value of an `&` letter, which `#` need not
/// repeat (NIP-91). An empty list matches nothing in either form.
fn conditions(any: Vec<(Letter, Vec<String>)>, all: Vec<(Letter, Vec<String>)>) -> Vec<(Letter, Vec<String>)> {
    let mut conditions = Vec::with_capacity(any.len());
    for (letter, mut values) in any {
        let needed = all.iter().find(|(other, _)| *other == letter).map_or(&[][..], |(_, needed)| needed);
        let asked = values.len();
        values.retain(|value| !needed.contains(value));
        if asked == 0 || !values.is_empty() {
            conditions.push((letter, ascending(values)));
        }
    }
    for (letter, values) in all {
        if values.is_empty() {
            conditions.push((letter, values));
        } else {
            conditions.extend(values.into_iter().map(|value| (letter, vec![value])));
        }
    }
    ascending(conditions)
}

fn ascending<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

fn within(what: &str, size: usize, max: usize) -> Result<(), Rejection> {
    if size > max {
        return Err(Rejection::invalid(format!("{size} {what}, at most {max} are allowed")));
    }
    Ok(())
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
