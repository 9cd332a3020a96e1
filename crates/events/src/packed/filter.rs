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
    /// Of each: nearly all that differ differ there, and numbers are compared without a call.
    beginnings: Vec<u64>,
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
            let beginnings = forms.iter().map(|form| beginning(form)).collect();
            Asked { letter: letter.byte(), forms, beginnings }
        });
        Self { filter, tags: asked.collect() }
    }

    /// The same without the conditions on tags.
    pub(crate) fn but_tags(filter: &'a Filter) -> Self {
        Self { filter, tags: Vec::new() }
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
        if self.letter != letter {
            return false;
        }
        let beginning = beginning(form);
        if let ([only], [of_only]) = (&self.beginnings[..], &self.forms[..]) {
            // Of a follow list one key is looked for among thousands.
            return *only == beginning && of_only == form;
        }
        let first = self.beginnings.partition_point(|other| *other < beginning);
        let mut same =
            self.beginnings[first..].iter().zip(&self.forms[first..]).take_while(|(other, _)| **other == beginning);
        same.any(|(_, other)| other == form)
    }
}

/// The first bytes of a form, in its order.
fn beginning(form: &[u8]) -> u64 {
    let first = form.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..form.len()].copy_from_slice(form);
        padded
    });
    u64::from_be_bytes(first)
}
