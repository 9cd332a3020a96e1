//! Filters that decide of packed events.

use super::Packed;
use super::text::put_text;
use crate::event::Timestamp;
use crate::filter::Filter;

/// A filter, and the values of its tags in the form that texts have in packed events: equal forms are equal texts.
#[derive(Debug)]
pub struct PackedFilter<'a> {
    filter: &'a Filter,
    tags: Vec<Asked>,
}

/// A condition on tags.
#[derive(Debug)]
struct Asked {
    letter: u8,
    /// Ascending.
    forms: Vec<Vec<u8>>,
}

// === impl PackedFilter ===

impl<'a> PackedFilter<'a> {
    /// Ready to decide of many events.
    pub fn new(filter: &'a Filter) -> Self {
        let asked = filter.tags.iter().map(|(letter, values)| {
            let form = |value: &String| {
                let mut form = Vec::with_capacity(value.len() + 2);
                put_text(&mut form, value);
                form
            };
            let mut forms: Vec<Vec<u8>> = values.iter().map(form).collect();
            forms.sort_unstable();
            Asked { letter: letter.byte(), forms }
        });
        Self { filter, tags: asked.collect() }
    }

    /// Whether the event fulfils every condition but `limit` and `search`; `None` if its bytes are damaged.
    pub fn matches(&self, event: Packed<'_>) -> Option<bool> {
        let created_at = Timestamp(event.created_at().into());
        if !self.filter.matches_head(&event.id(), &event.pubkey(), created_at, event.kind()) {
            return Some(false);
        }
        match &self.tags[..] {
            [] => Some(true),
            [asked] => event.any_tag(|letter, form| asked.is_met(letter, form)),
            several => {
                let mut missing: Vec<&Asked> = several.iter().collect();
                event.any_tag(|letter, form| {
                    missing.retain(|asked| !asked.is_met(letter, form));
                    missing.is_empty()
                })
            }
        }
    }
}

impl Asked {
    fn is_met(&self, letter: u8, form: &[u8]) -> bool {
        self.letter == letter
            && match &self.forms[..] {
                [one] => one == form,
                several => several.binary_search_by(|one| one.as_slice().cmp(form)).is_ok(),
            }
    }
}
