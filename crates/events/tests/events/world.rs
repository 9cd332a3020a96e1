//! Random events and filters, and the naive model of a relay: a list of events, and every filter tested on every event.

use std::cmp::Reverse;
use std::ops::Range;

use birdhouse_events::{
    Deletion, Event, EventId, Filter, Keys, Kind, KindClass, Letter, Letters, Tag, Timestamp, UnsignedEvent, Vanish,
    VerifiedEvent,
};

/// Deterministic generator (`SplitMix64`): the seed reproduces a failing world.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn one_of<T: Clone>(&mut self, some: &[T]) -> T {
        some[usize::try_from(self.below(some.len() as u64)).unwrap()].clone()
    }

    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.next().to_be_bytes()));
        bytes
    }
}

/// Returns the seeds of a random test: `BIRDHOUSE_SEEDS` from `BIRDHOUSE_FROM` on, else the first `usual`.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BIRDHOUSE_FROM").unwrap_or(0);
    first..first + number("BIRDHOUSE_SEEDS").unwrap_or(usual)
}

/// Random source and building blocks of events: few values, so that conditions often hold.
pub(crate) struct World {
    pub(crate) rng: Rng,
    /// If set, half of the authors fell silent early.
    pub(crate) has_quiet_authors: bool,
    pub(crate) authors: Vec<Keys>,
    pub(crate) values: Vec<String>,
}

/// Requests to vanish are rare, because they leave nothing of an author.
const KINDS: [u16; 20] = [0, 1, 1, 1, 1, 7, 7, 7, 7, 1000, 1000, 10_002, 10_002, 30_023, 30_023, 5, 5, 5, 62, 1059];
const LETTERS: [&str; 4] = ["e", "p", "t", "E"];

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let authors = (0..60).map(|_| Keys::from_secret(rng.bytes()).unwrap()).collect();
        let mut values: Vec<String> = (0..6).map(|_| format!("{:032x}{:032x}", rng.next(), rng.next())).collect();
        values.extend(["", "rust", "Rust", "ABCDEF0123456789", "abcdef0123456789", "käfer\n\"\\"].map(str::to_owned));
        Self { rng, has_quiet_authors: false, authors, values }
    }

    pub(crate) fn event(&mut self, seen: &[VerifiedEvent]) -> VerifiedEvent {
        let kind = Kind(self.rng.one_of(&KINDS));
        // A few authors publish most events.
        let spread = if self.rng.one_in(3) { self.authors.len() as u64 } else { 4 };
        let author = self.rng.below(spread);
        let mut tags: Vec<Tag> = (0..self.rng.below(4)).map(|_| self.tag()).collect();
        if kind == Kind::DELETION && !seen.is_empty() {
            tags.extend((0..self.rng.below(4)).map(|_| target(&self.rng.one_of(seen))));
        }
        if kind == Kind::VANISH {
            tags.push(Tag(vec!["relay".to_owned(), "ALL_RELAYS".to_owned()]));
        }
        if kind == Kind::GIFT_WRAP {
            tags.push(Tag(vec!["p".to_owned(), self.rng.one_of(&self.authors).pubkey().to_string()]));
        }
        if kind.class() == KindClass::Addressable && !self.rng.one_in(4) {
            tags.push(Tag(vec!["d".to_owned(), self.rng.one_of(&self.values)]));
        }
        let seconds = if self.has_quiet_authors && author >= 30 { 3 } else { 40 };
        let created_at = Timestamp(1000 + self.rng.below(seconds));
        let event = UnsignedEvent { created_at, kind, tags, content: self.rng.one_of(&self.values) };
        event.sign(&self.authors[usize::try_from(author).unwrap()])
    }

    fn tag(&mut self) -> Tag {
        let name = if self.rng.one_in(8) { "title".to_owned() } else { self.rng.one_of(&LETTERS).to_owned() };
        let values = self.rng.below(3);
        Tag(std::iter::once(name).chain((0..values).map(|_| self.rng.one_of(&self.values))).collect())
    }

    pub(crate) fn filter(&mut self, events: &[VerifiedEvent]) -> Filter {
        let mut filter = Filter::default();
        if self.rng.one_in(8) {
            let ids = (0..self.rng.below(6)).map(|_| self.rng.one_of(events).id);
            filter.ids = Some(sorted(ids.chain([EventId([0; 32])]).collect()));
        }
        if self.rng.one_in(2) {
            let count = [200, 14, self.rng.below(4)][usize::try_from(self.rng.below(3)).unwrap()];
            let from = if self.rng.one_in(2) { 0 } else { 4 };
            filter.authors =
                Some(sorted((0..count).map(|_| self.rng.one_of(&self.authors[from..]).pubkey()).collect()));
        }
        if self.rng.one_in(2) {
            filter.kinds = Some(sorted((0..self.rng.below(4)).map(|_| Kind(self.rng.one_of(&KINDS))).collect()));
        }
        let letters = if self.rng.one_in(2) { 0 } else { 1 + self.rng.below(2) };
        let letters = sorted((0..letters).map(|_| Letter::parse(self.rng.one_of(&LETTERS)).unwrap()).collect());
        filter.tags = letters.into_iter().map(|letter| (letter, self.values())).collect();
        if self.rng.one_in(3) {
            filter.since = Some(Timestamp(1000 + self.rng.below(45)));
        }
        if self.rng.one_in(3) {
            filter.until = Some(Timestamp(995 + self.rng.below(45)));
        }
        filter
    }

    /// Returns the tags with posting lists: all, or some.
    pub(crate) fn letters(&mut self) -> Letters {
        if self.rng.one_in(2) {
            return Letters::ALL;
        }
        let letters = LETTERS.iter().filter_map(|name| Letter::parse(name)).collect::<Vec<_>>();
        letters.into_iter().filter(|_| self.rng.one_in(2)).collect()
    }

    fn values(&mut self) -> Vec<String> {
        sorted((0..self.rng.below(5)).map(|_| self.rng.one_of(&self.values)).collect())
    }
}

/// Returns a tag by which a deletion request names an event, which may be another author's.
fn target(event: &VerifiedEvent) -> Tag {
    match event.address() {
        Some(address) if event.created_at.0.is_multiple_of(2) => Tag(vec!["a".to_owned(), address.to_string()]),
        _ => Tag(vec!["e".to_owned(), event.id.to_string()]),
    }
}

pub(crate) fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values.dedup();
    values
}

/// The naive model: all live events, in a list.
#[derive(Default)]
pub(crate) struct Model(pub(crate) Vec<VerifiedEvent>);

impl Model {
    pub(crate) fn accept(&mut self, event: &VerifiedEvent) -> bool {
        let same = |other: &Event| {
            let is_version = other.pubkey == event.pubkey && other.kind == event.kind;
            match event.kind.class() {
                KindClass::Replaceable => is_version,
                KindClass::Addressable => is_version && other.d() == event.d(),
                _ => false,
            }
        };
        let forbids = |other: &VerifiedEvent| {
            other.id == event.id
                || same(other) && other.supersedes(event)
                || Deletion::of(other).is_some_and(|deletion| deletion.covers(event))
                || Vanish::of(other, &[]).is_some_and(|vanish| vanish.covers(event))
        };
        if self.0.iter().any(forbids) {
            return false;
        }
        let (deletion, vanish) = (Deletion::of(event), Vanish::of(event, &[]));
        let is_replaced = |other: &VerifiedEvent| {
            same(other)
                || deletion.as_ref().is_some_and(|deletion| deletion.covers(other))
                || vanish.is_some_and(|vanish| vanish.covers(other))
        };
        self.0.retain(|other| !is_replaced(other));
        self.0.push(event.clone());
        true
    }

    pub(crate) fn find(&self, filter: &Filter) -> Vec<Event> {
        let mut found: Vec<Event> =
            self.0.iter().filter(|event| filter.matches(event)).map(|event| event.event().clone()).collect();
        found.sort_by_key(|event| (Reverse(event.created_at), event.id));
        found
    }
}
