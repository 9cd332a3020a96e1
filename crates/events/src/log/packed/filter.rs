//! Filters that test packed events.

use super::Packed;
use super::text::put_text;
use crate::event::Timestamp;
use crate::filter::Filter;

/// Filter, with the values of its tags in the form of packed texts: equal forms are equal texts.
#[derive(Debug)]
pub struct PackedFilter<'a> {
    filter: &'a Filter,
    tags: Vec<TagCondition>,
}

/// Condition on tags.
#[derive(Debug)]
struct TagCondition {
    letter: u8,
    /// Ascending.
    forms: Vec<Vec<u8>>,
    /// First bytes of each form: most forms that differ differ there, and comparing numbers needs no call.
    prefixes: Vec<u64>,
}

// === impl PackedFilter ===

impl<'a> PackedFilter<'a> {
    /// Prepares a filter for many events.
    pub fn new(filter: &'a Filter) -> Self {
        let conditions = filter.tags.iter().map(|(letter, values)| {
            let form = |value: &String| {
                let mut form = Vec::with_capacity(value.len() + 2);
                put_text(&mut form, value);
                form
            };
            let mut forms: Vec<Vec<u8>> = values.iter().map(form).collect();
            forms.sort_unstable();
            let prefixes = forms.iter().map(|form| prefix(form)).collect();
            TagCondition { letter: letter.byte(), forms, prefixes }
        });
        Self { filter, tags: conditions.collect() }
    }

    /// Prepares a filter without its conditions on tags.
    pub(crate) fn without_tags(filter: &'a Filter) -> Self {
        Self { filter, tags: Vec::new() }
    }

    /// Returns true if the event fulfils every condition but `limit` and `search`; `None` if its bytes are damaged.
    pub fn matches(&self, event: Packed<'_>) -> Option<bool> {
        let created_at = Timestamp(event.created_at().into());
        if !self.filter.matches_head(&event.id(), &event.pubkey(), created_at, event.kind()) {
            return Some(false);
        }
        match &self.tags[..] {
            [] => Some(true),
            [condition] => event.any_tag(|letter, form| condition.is_met(letter, form)),
            several => {
                let mut missing: Vec<&TagCondition> = several.iter().collect();
                event.any_tag(|letter, form| {
                    missing.retain(|condition| !condition.is_met(letter, form));
                    missing.is_empty()
                })
            }
        }
    }
}

impl TagCondition {
    fn is_met(&self, letter: u8, form: &[u8]) -> bool {
        if self.letter != letter {
            return false;
        }
        let prefix = prefix(form);
        if let ([only], [of_only]) = (&self.prefixes[..], &self.forms[..]) {
            // The common case: one key among the thousands of a follow list.
            return *only == prefix && of_only == form;
        }
        let first = self.prefixes.partition_point(|other| *other < prefix);
        let mut same =
            self.prefixes[first..].iter().zip(&self.forms[first..]).take_while(|(other, _)| **other == prefix);
        same.any(|(_, other)| other == form)
    }
}

/// Returns the first bytes of a form, in its order.
fn prefix(form: &[u8]) -> u64 {
    let first = form.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..form.len()].copy_from_slice(form);
        padded
    });
    u64::from_be_bytes(first)
}
