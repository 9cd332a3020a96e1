//! The rules of a relay as NIP-01, NIP-09, NIP-59 and NIP-62 state them, on events as their JSON has them: a list of
//! live events, and every rule tried on every event. It shares no code with the product.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Note {
    pub(crate) id: String,
    pub(crate) pubkey: String,
    pub(crate) created_at: u64,
    pub(crate) kind: u16,
    pub(crate) tags: Vec<Vec<String>>,
    pub(crate) content: String,
}

/// The fate of an event, as one letter of a writer's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    Duplicate,
    Superseded,
    Deleted,
}

/// The live events of a relay, by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model(pub(crate) BTreeMap<String, Note>);

// === impl Note ===

impl Note {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.tags.iter().filter(move |tag| tag.first().is_some_and(|is| is == name)).filter_map(|tag| {
            let value = tag.get(1)?;
            Some(value.as_str())
        })
    }

    /// NIP-01: one version of these stays.
    fn is_replaceable(&self) -> bool {
        matches!(self.kind, 0 | 3 | 10_000..=19_999)
    }

    fn is_addressable(&self) -> bool {
        matches!(self.kind, 30_000..=39_999)
    }

    /// Returns `kind:author:d`, for events of which one version stays.
    fn address(&self) -> Option<String> {
        let d = if self.is_addressable() { self.values("d").next().unwrap_or_default() } else { "" };
        (self.is_addressable() || self.is_replaceable()).then(|| format!("{}:{}:{d}", self.kind, self.pubkey))
    }

    /// NIP-01: the later version stays; of two of one second, that of the lower id.
    fn is_later_than(&self, other: &Self) -> bool {
        (self.created_at, &other.id) > (other.created_at, &self.id)
    }

    /// The author may delete it; and the recipient, if it is a gift wrap (NIP-59), whose author is a throwaway key.
    fn is_owned_by(&self, person: &str) -> bool {
        self.pubkey == person || self.kind == 1059 && self.values("p").any(|recipient| recipient == person)
    }

    /// NIP-09: a request of kind 5 deletes the events it names by `e`, and versions up to its time by `a`; it has no
    /// effect on other requests.
    fn deletes(&self, other: &Self) -> bool {
        if self.kind != 5 || matches!(other.kind, 5 | 62) {
            return false;
        }
        let by_id = self.values("e").any(|id| id == other.id) && other.is_owned_by(&self.pubkey);
        let by_address = other.pubkey == self.pubkey
            && other.created_at <= self.created_at
            && other.address().is_some_and(|address| self.values("a").any(|named| named == address));
        by_id || by_address
    }

    /// NIP-62: a request of kind 62 deletes everything of its author up to its time, also what was deleted, and gift
    /// wraps for the author.
    fn vanishes(&self, other: &Self) -> bool {
        self.kind == 62
            && self.values("relay").any(|relay| relay == "ALL_RELAYS")
            && other.created_at <= self.created_at
            && other.is_owned_by(&self.pubkey)
    }
}

// === impl Fate ===

impl Fate {
    pub(crate) const ALL: [(Self, char); 4] =
        [(Self::Stored, 'S'), (Self::Duplicate, 'D'), (Self::Superseded, 'V'), (Self::Deleted, 'X')];

    /// Parses a letter.
    pub(crate) fn of(letter: char) -> Option<Self> {
        Self::ALL.iter().find(|(_, is)| *is == letter).map(|(fate, _)| *fate)
    }
}

// === impl Model ===

impl Model {
    /// Accepts or refuses an event.
    pub(crate) fn accept(&mut self, note: &Note) -> Fate {
        if self.0.contains_key(&note.id) {
            return Fate::Duplicate;
        }
        if self.0.values().any(|other| other.deletes(note) || other.vanishes(note)) {
            return Fate::Deleted;
        }
        let address = note.address();
        let is_version = |other: &Note| address.is_some() && other.address() == address;
        if self.0.values().any(|other| is_version(other) && !note.is_later_than(other)) {
            return Fate::Superseded;
        }
        self.0.retain(|_, other| !(is_version(other) || note.deletes(other) || note.vanishes(other)));
        self.0.insert(note.id.clone(), note.clone());
        Fate::Stored
    }

    /// Returns the events without those that have expired by `now` (NIP-40).
    pub(crate) fn without_expired(mut self, now: u32) -> Self {
        let expires = |note: &Note| note.values("expiration").next().and_then(|at| at.parse::<u32>().ok());
        self.0.retain(|_, note| expires(note).is_none_or(|at| at > now));
        self
    }

    /// Returns the ids of the events for which a condition holds, in NIP-01's order.
    pub(crate) fn find(&self, is_wanted: impl Fn(&Note) -> bool) -> Vec<String> {
        let mut found: Vec<&Note> = self.0.values().filter(|note| is_wanted(note)).collect();
        found.sort_by(|one, other| other.created_at.cmp(&one.created_at).then_with(|| one.id.cmp(&other.id)));
        found.into_iter().map(|note| note.id.clone()).collect()
    }

    /// Returns the ids of the events with this value of a tag.
    pub(crate) fn tagged(&self, name: &str, value: &str) -> Vec<String> {
        self.find(|note| note.values(name).any(|is| is == value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(id: &str, pubkey: &str, created_at: u64, kind: u16, tags: &[[&str; 2]]) -> Note {
        let tags = tags.iter().map(|tag| tag.map(str::to_owned).to_vec()).collect();
        Note { id: id.into(), pubkey: pubkey.into(), created_at, kind, tags, content: String::new() }
    }

    fn fates(notes: &[Note]) -> (Vec<Fate>, Vec<String>) {
        let mut model = Model::default();
        (notes.iter().map(|note| model.accept(note)).collect(), model.0.into_keys().collect())
    }

    #[test]
    fn the_latest_version_stays_and_the_lower_id_of_one_second() {
        use Fate::{Duplicate, Stored, Superseded};
        let versions = [
            note("b", "p", 5, 10_002, &[]),
            note("a", "p", 4, 10_002, &[]),
            note("a", "p", 5, 10_002, &[]),
            note("c", "p", 5, 10_002, &[]),
            note("a", "p", 5, 10_002, &[]),
            note("d", "p", 5, 30_023, &[["d", "x"]]),
            note("e", "p", 5, 30_023, &[["d", "y"]]),
        ];
        let (fates, live) = fates(&versions);
        assert_eq!(fates, [Stored, Superseded, Stored, Superseded, Duplicate, Stored, Stored]);
        assert_eq!(live, ["a", "d", "e"]);
    }

    #[test]
    fn requests_delete_what_is_theirs_whenever_it_comes() {
        use Fate::{Deleted, Stored};
        let deletion = note("q", "p", 9, 5, &[["e", "a"], ["e", "b"], ["a", "10002:p:"], ["e", "w"]]);
        let events = [
            note("a", "p", 1, 1, &[]),
            note("b", "other", 1, 1, &[]),
            note("l", "p", 9, 10_002, &[]),
            note("w", "throwaway", 1, 1059, &[["p", "p"]]),
        ];
        let before: Vec<Note> = events.iter().cloned().chain([deletion.clone()]).collect();
        assert_eq!(fates(&before).1, ["b", "q"]);
        let after: Vec<Note> = [deletion].into_iter().chain(events).collect();
        assert_eq!(fates(&after).0, [Stored, Deleted, Stored, Deleted, Deleted]);
    }

    #[test]
    fn whoever_vanishes_leaves_the_request_alone() {
        let events = [
            note("a", "p", 1, 1, &[]),
            note("q", "p", 2, 5, &[["e", "z"]]),
            note("w", "throwaway", 1, 1059, &[["p", "p"]]),
            note("n", "p", 8, 1, &[]),
            note("v", "p", 7, 62, &[["relay", "ALL_RELAYS"]]),
        ];
        assert_eq!(fates(&events).1, ["n", "v"]);
    }
}
