//! Filter -> plan. Pure: how much a list holds is an argument.
//!
//! A plan names the lists that hold every event of a filter, and what a posting alone can rule out. Lists are merged newest
//! first; where there are many of them, the newest events of all are looked through before any is opened.

use crate::event::EventId;
use crate::filter::Filter;
use crate::kind::Kind;
use crate::posting::{Common, ListKey, ListName, Lists, Posting};

/// More lists are opened only when the newest events of all authors did not suffice.
const SCAN_BEFORE_LISTS: usize = 16;
/// Postings that are looked through then, for each event that is wanted, and at least.
const SCAN_PER_EVENT: usize = 8;
const SCAN_MIN: usize = 1024;
/// More than that is never looked through.
const SCAN_MAX: usize = 1 << 16;

/// How a filter is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing can match.
    Nothing,
    /// Each event is looked up.
    Ids(Vec<EventId>),
    /// Lists are merged.
    Merge(Merge),
}

/// Lists to be merged, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    /// First and last list of each range; the ranges ascend.
    pub(crate) spans: Vec<(ListKey, ListKey)>,
    pub(crate) check: Check,
    /// What to look through before.
    pub(crate) scan: Option<Scan>,
}

/// Lists whose newest postings are looked through first, in the hope that they suffice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) spans: Vec<(ListKey, ListKey)>,
    /// Postings to look through at most.
    pub(crate) budget: usize,
}

/// What a posting must say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// Ascending.
    pub(crate) authors: Option<Vec<u32>>,
    /// Ascending.
    pub(crate) kinds: Option<Vec<Kind>>,
}

impl Check {
    pub(crate) fn passes(&self, posting: &Posting) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.binary_search(&posting.kind()).is_ok())
            && self.authors.as_ref().is_none_or(|authors| authors.binary_search(&posting.author()).is_ok())
    }
}

/// Plans a filter of which `rows` events are wanted. `size` says how many postings lists hold, roughly.
pub(crate) fn plan(
    filter: &Filter,
    rows: usize,
    lists: &Lists,
    mut size: impl FnMut(&[(ListKey, ListKey)]) -> u64,
) -> Plan {
    if let Some(ids) = &filter.ids {
        return Plan::Ids(ids.clone());
    }
    let is_empty = filter.authors.as_ref().is_some_and(Vec::is_empty)
        || filter.kinds.as_ref().is_some_and(Vec::is_empty)
        || filter.tags.iter().any(|(_, values)| values.is_empty());
    if is_empty {
        return Plan::Nothing;
    }
    let kinds = filter.kinds.as_deref();
    let authors = filter.authors.as_ref();
    let by_tag = filter
        .tags
        .iter()
        .map(|(letter, values)| spans(values.iter().map(|value| lists.name(Common::Tag(*letter, value))), kinds));
    let by_author =
        authors.map(|authors| spans(authors.iter().map(|author| lists.name(Common::Author(author))), kinds));
    let mut choices: Vec<_> = by_tag.chain(by_author).collect();
    let all = || spans(std::iter::once(lists.name(Common::All)), kinds);
    let chosen = match choices.len() {
        0 => all(),
        1 => choices.remove(0),
        _ => choices.into_iter().min_by_key(|spans| size(spans)).expect("there are several"),
    };
    let check = Check { authors: authors.map(|authors| lists.authors(authors)), kinds: filter.kinds.clone() };
    // Only authors and kinds are seen in a posting.
    let scan = (filter.tags.is_empty() && chosen.len() > SCAN_BEFORE_LISTS)
        .then(|| Scan { spans: all(), budget: rows.saturating_mul(SCAN_PER_EVENT).clamp(SCAN_MIN, SCAN_MAX) });
    Plan::Merge(Merge { spans: chosen, check, scan })
}

/// The lists of these names and kinds, ascending.
fn spans(names: impl Iterator<Item = ListName>, kinds: Option<&[Kind]>) -> Vec<(ListKey, ListKey)> {
    let mut spans: Vec<_> = match kinds {
        Some(kinds) => {
            names.flat_map(|name| kinds.iter().map(move |kind| (name.of_kind(*kind), name.of_kind(*kind)))).collect()
        }
        None => names.map(ListName::of_all_kinds).collect(),
    };
    spans.sort_unstable();
    spans.dedup();
    spans
}
