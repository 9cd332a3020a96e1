//! Filter -> plan. Pure: how much a list holds is an argument.
//!
//! A plan names the lists that hold every event of a filter, and what a posting alone can rule out. Lists are merged newest
//! first; where there are many of them, the newest events of all are looked through before any is opened.

use crate::event::EventId;
use crate::filter::Filter;
use crate::kind::{Kind, KindClass};
use crate::posting::{AuthorHash, Common, ListKey, ListName, Lists, Posting};
use crate::tag::{Letter, Letters};

/// More lists are opened only when the newest events of all authors did not suffice.
const SCAN_BEFORE_LISTS: usize = 16;
/// Postings that are looked through then, for each of those lists: about as many as one list costs. In vain, they double the cost.
const SCAN_PER_LIST: usize = 8;
/// More than that is never looked through in vain.
const SCAN_MAX: usize = 1024;
/// And more for each event that is found: where it has many, it goes on.
pub(crate) const SCAN_PER_EVENT: usize = 8;

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
    pub(crate) lists: Spans,
    pub(crate) check: Check,
    /// What to look through before.
    pub(crate) scan: Option<Scan>,
}

/// Ranges of lists, ascending: first and last of each.
pub(crate) type Ranges = Vec<(ListKey, ListKey)>;

/// Lists that hold every event of a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) ranges: Ranges,
    /// The tag that these are lists of, and the lists to read instead where it has none yet.
    pub(crate) tag: Option<(Letter, Ranges)>,
}

/// Lists whose newest postings are looked through first, in the hope that they suffice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) lists: Spans,
    /// Postings to look through in vain at most: each event that is found allows [`SCAN_PER_EVENT`] more.
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
    /// What postings say of these authors.
    pub(crate) fn authors(hashes: impl Iterator<Item = AuthorHash>) -> Vec<u32> {
        let mut authors: Vec<u32> = hashes.map(AuthorHash::in_posting).collect();
        authors.sort_unstable();
        authors
    }

    pub(crate) fn passes(&self, posting: &Posting) -> bool {
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
    /// What to read where there are lists of these tags.
    pub(crate) fn among(&self, letters: Letters) -> &Ranges {
        match &self.tag {
            Some((letter, instead)) if !letters.contains(*letter) => instead,
            _ => &self.ranges,
        }
    }

    /// Whether whatever stands in these lists fulfils what a filter says of tags, where all segments have lists of a tag.
    pub(crate) fn decide_tags(&self, filter: &Filter, have_all: impl FnOnce(Letter) -> bool) -> bool {
        match (&self.tag, &filter.tags[..]) {
            (Some((letter, _)), [(asked, _)]) => letter == asked && have_all(*letter),
            (_, tags) => tags.is_empty(),
        }
    }
}

/// Plans a filter of which `rows` events are wanted. `size` says how many postings lists hold, roughly.
pub(crate) fn plan(filter: &Filter, rows: usize, lists: &Lists, mut size: impl FnMut(&Spans) -> u64) -> Plan {
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
        filter.authors.as_ref().map(|authors| authors.iter().map(|author| lists.author(author)).collect());
    let all = || ranges(std::iter::once(lists.name(Common::All)), kinds);
    let by_author = authors.as_ref().map(|authors| ranges(authors.iter().map(|author| author.name()), kinds));
    let by_tag = filter.tags.iter().filter(|(letter, _)| lists.letters.contains(*letter)).map(|(letter, values)| {
        let names = values.iter().map(|value| lists.name(Common::Tag(*letter, value)));
        Spans { ranges: ranges(names, kinds), tag: Some((*letter, by_author.clone().unwrap_or_else(all))) }
    });
    let mut choices: Vec<Spans> = by_tag.collect();
    choices.extend(by_author.map(Spans::from));
    let chosen = match choices.len() {
        0 => all().into(),
        1 => choices.remove(0),
        _ => choices.into_iter().min_by_key(|spans| size(spans)).expect("there are several"),
    };
    let check =
        Check { authors: authors.map(|authors| Check::authors(authors.into_iter())), kinds: filter.kinds.clone() };
    let count = chosen.ranges.len();
    // Only authors and kinds are seen in a posting. Of replaceable kinds a list has one event: before all are found, all is looked through.
    let may_suffice = filter.tags.is_empty() && (rows <= count || !kinds.is_some_and(are_replaceable));
    let scan = (may_suffice && count > SCAN_BEFORE_LISTS)
        .then(|| Scan { lists: all().into(), budget: count.saturating_mul(SCAN_PER_LIST).min(SCAN_MAX) });
    Plan::Merge(Merge { lists: chosen, check, scan })
}

fn are_replaceable(kinds: &[Kind]) -> bool {
    kinds.iter().all(|kind| kind.class() == KindClass::Replaceable)
}

/// The lists of these names and kinds, ascending. So are the kinds.
fn ranges(names: impl Iterator<Item = ListName>, kinds: Option<&[Kind]>) -> Ranges {
    // Keys begin with the name.
    let mut names: Vec<ListName> = names.collect();
    names.sort_unstable();
    names.dedup();
    let names = names.into_iter();
    match kinds {
        Some(kinds) => {
            names.flat_map(|name| kinds.iter().map(move |kind| name.of_kind(*kind))).map(|key| (key, key)).collect()
        }
        None => names.map(ListName::of_all_kinds).collect(),
    }
}
