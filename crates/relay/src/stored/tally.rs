//! The counts of COUNT (NIP-45): events, and their authors where the filter has a HyperLogLog value.

use birdhouse_events::{Filter, Hll, Packed};

/// The counts of one query.
#[derive(Debug)]
pub(crate) struct Tally {
    count: u64,
    authors: Option<Box<Hll>>,
}

impl Tally {
    pub(crate) fn new(filters: &[Filter]) -> Self {
        let authors = if let [filter] = filters { Hll::of(filter).map(Box::new) } else { None };
        Self { count: 0, authors }
    }

    pub(crate) fn add(&mut self, event: Packed<'_>) {
        self.count += 1;
        if let Some(authors) = &mut self.authors {
            authors.add(&event.pubkey());
        }
    }

    /// The object of the answer.
    pub(crate) fn to_json(&self) -> String {
        match &self.authors {
            Some(authors) => format!("{{\"count\":{},\"hll\":\"{}\"}}", self.count, authors.to_hex()),
            None => format!("{{\"count\":{}}}", self.count),
        }
    }
}
