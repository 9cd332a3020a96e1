//! Filter -> plan. Pure: the size of a list is an argument.
//!
//! A plan names posting lists that contain every event of a filter, and the conditions that a posting alone can rule
//! out. Lists are merged newest first. Where there are many lists, the newest postings of all events are scanned before
//! any list is opened.

use crate::event::{EventId, Kind, KindClass, Letter, Letters};
use crate::filter::Filter;
use crate::postings::{AuthorHash, ListName, ListRange, ListSubject, Posting, PostingIndex};

/// Number of lists beyond which the newest postings are scanned first.
const SCAN_BEFORE_LISTS: usize = 16;
/// Postings to scan for each of those lists: about the cost of one list. A scan in vain doubles the cost of a query.
const SCAN_PER_LIST: usize = 8;
/// Maximum number of postings to scan in vain.
const SCAN_MAX: usize = 1024;
/// Postings to scan in addition for each event found: where a scan finds many events, it goes on.
pub(super) const SCAN_PER_EVENT: usize = 8;

/// Way to answer a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing can match.
    Nothing,
    /// Looks up each event by id.
    Ids(Vec<EventId>),
    /// Merges posting lists.
    Merge(Merge),
}

/// Posting lists to merge, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merge {
    pub(crate) lists: Spans,
    pub(super) check: Check,
    /// Scan to try before the merge.
    pub(super) scan: Option<Scan>,
}

/// Ranges of lists, ascending.
pub(super) type Ranges = Vec<ListRange>;

/// Posting lists that contain every event of a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(super) ranges: Ranges,
    /// The tag of these lists, and the lists to read in segments that have none of that tag yet.
    pub(super) tag: Option<(Letter, Ranges)>,
}

/// Scan of the newest postings of some lists, in the hope that they suffice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    pub(crate) lists: Spans,
    /// Postings to scan in vain at most. Each event found allows [`SCAN_PER_EVENT`] more.
    pub(super) budget: usize,
}

/// Conditions that a posting must fulfil.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Check {
    /// Ascending.
    pub(super) authors: Option<Vec<u32>>,
    /// Ascending.
    pub(super) kinds: Option<Vec<Kind>>,
}

impl Check {
    /// Returns the author field of postings by these authors.
    pub(super) fn authors(hashes: impl Iterator<Item = AuthorHash>) -> Vec<u32> {
        let mut authors: Vec<u32> = hashes.map(AuthorHash::in_posting).collect();
        authors.sort_unstable();
        authors
    }

    pub(super) fn passes(&self, posting: &Posting) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.binary_search(&posting.kind()).is_ok())
            && self.authors.as_ref().is_none_or(|authors| authors.binary_search(&posting.author()).is_ok())
    }
}

impl From<Ranges> for Spans {
    fn from(ranges: Ranges) -> Self {
        Self { ranges, tag: None }
    }
}

impl Spans {
    /// Returns the lists to read in a segment that has lists of these tags.
    pub(super) fn among(&self, letters: Letters) -> &Ranges {
        match &self.tag {
            Some((letter, instead)) if !letters.contains(*letter) => instead,
            _ => &self.ranges,
        }
    }

    /// Returns true if every event in these lists fulfils the filter's conditions on tags. `have_all` returns true if
    /// all segments have lists of a tag.
    pub(super) fn decide_tags(&self, filter: &Filter, have_all: impl FnOnce(Letter) -> bool) -> bool {
        match (&self.tag, &filter.tags[..]) {
            (Some((letter, _)), [(asked, _)]) => letter == asked && have_all(*letter),
            (_, tags) => tags.is_empty(),
        }
    }
}

/// Plans the first `rows` events of a filter. `size` returns the approximate number of postings in lists.
pub(super) fn plan(filter: &Filter, rows: usize, index: &PostingIndex, mut size: impl FnMut(&Spans) -> u64) -> Plan {
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
    let authors: Option<Vec<AuthorHash>> =
        filter.authors.as_ref().map(|authors| authors.iter().map(|author| index.author(author)).collect());
    let all = || ranges(std::iter::once(index.name(ListSubject::All)), kinds);
    let by_author = authors.as_ref().map(|authors| ranges(authors.iter().map(|author| author.name()), kinds));
    let by_tag = filter.tags.iter().filter(|(letter, _)| index.letters.contains(*letter)).map(|(letter, values)| {
        let names = values.iter().map(|value| index.name(ListSubject::Tag(*letter, value)));
        Spans { ranges: ranges(names, kinds), tag: Some((*letter, by_author.clone().unwrap_or_else(all))) }
    });
    let mut choices: Vec<Spans> = by_tag.collect();
    choices.extend(by_author.map(Spans::from));
    let chosen = match choices.len() {
        0 => all().into(),
        1 => choices.remove(0),
        _ => choices.into_iter().min_by_key(|spans| size(spans)).expect("there are at least two choices"),
    };
    let check =
        Check { authors: authors.map(|authors| Check::authors(authors.into_iter())), kinds: filter.kinds.clone() };
    let count = chosen.ranges.len();
    // A posting shows author and kind only. A list of a replaceable kind has one event, so a scan would read everything
    // before it has found all of them.
    let may_suffice = filter.tags.is_empty() && (rows <= count || !kinds.is_some_and(are_replaceable));
    let scan = (may_suffice && count > SCAN_BEFORE_LISTS)
        .then(|| Scan { lists: all().into(), budget: count.saturating_mul(SCAN_PER_LIST).min(SCAN_MAX) });
    Plan::Merge(Merge { lists: chosen, check, scan })
}

fn are_replaceable(kinds: &[Kind]) -> bool {
    kinds.iter().all(|kind| kind.class() == KindClass::Replaceable)
}

/// Returns the lists of these names and kinds, ascending. `kinds` must be ascending.
fn ranges(names: impl Iterator<Item = ListName>, kinds: Option<&[Kind]>) -> Ranges {
    // Keys begin with the name.
    let mut names: Vec<ListName> = names.collect();
    names.sort_unstable();
    names.dedup();
    let names = names.into_iter();
    match kinds {
        Some(kinds) => {
            names.flat_map(|name| kinds.iter().map(move |kind| name.of_kind(*kind))).map(ListRange::from).collect()
        }
        None => names.map(ListName::of_all_kinds).collect(),
    }
}
