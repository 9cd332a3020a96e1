//! Retention rules: how long events are kept, and how many bytes of them. Pure: time is an argument.
//!
//! The first rule that covers an event decides on it. A rule without a bound keeps what it covers; an event that no
//! rule covers is kept. Requests to delete and to vanish are covered only by rules that name their kinds: without them
//! the relay would take back what they deleted.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use crate::event::kind::Kind;
use crate::event::rejection::Rejection;
use crate::event::{Event, Pubkey};

/// Rules, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct Retention(pub Vec<RetentionRule>);

/// A rule: the events that it covers, and its bounds.
#[derive(Debug, Clone, Default)]
pub struct RetentionRule {
    /// Kinds that it covers; `None` for all but requests to delete and to vanish.
    pub kinds: Option<Vec<RangeInclusive<u16>>>,
    /// Authors that it covers; `None` for all.
    pub authors: Option<HashSet<Pubkey>>,
    /// Covers only events of more bytes.
    pub larger_than: Option<u64>,
    /// Seconds from an event's `created_at` until it is deleted.
    pub seconds: Option<u32>,
    /// Bytes of covered events that are kept, the last accepted ones.
    pub bytes: Option<u64>,
}

/// The facts about a stored event that rules read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) pubkey: Pubkey,
    pub(crate) kind: Kind,
    pub(crate) created_at: u32,
    /// Bytes in the log.
    pub(crate) bytes: u64,
}

/// A walk through all stored events, the last accepted first.
#[derive(Debug)]
pub struct Sweep {
    /// Events below this number are left.
    pub(crate) end: u64,
    /// Bytes of events that are not too old, by the rule that decided.
    used: Vec<u64>,
    /// Amounts that the sweep has judged, by the rule that decided.
    judged: Vec<Judged>,
    /// Events that the sweep has deleted.
    pub(crate) deleted: u64,
}

/// Events on which a rule has decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Those that it keeps.
    pub kept: Amount,
    /// Those that it does not keep.
    pub unkept: Amount,
}

/// A number of stored events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Their number.
    pub events: u64,
    /// Their bytes in the log.
    pub bytes: u64,
}

// === impl Retention ===

impl Retention {
    /// Returns true if there are rules.
    pub fn is_some(&self) -> bool {
        !self.0.is_empty()
    }

    /// Refuses an event that is older than its rule keeps. Its size in the log is that of its packed form, which is
    /// not known yet, so rules about sizes are not asked.
    pub fn check(&self, event: &Event, now: u32) -> Result<(), Rejection> {
        let (kind, created_at) = (event.kind, event.created_at.to_u32());
        let facts = Facts { pubkey: event.pubkey, kind, created_at, bytes: 0 };
        let decides = self.0.iter().find(|rule| rule.larger_than.is_some() || rule.covers(&facts));
        let is_old = |rule: &RetentionRule| rule.larger_than.is_none() && rule.is_over(created_at, now);
        if decides.is_some_and(is_old) {
            return Err(Rejection::Blocked("it is older than events of its sort are kept here".into()));
        }
        Ok(())
    }
}

// === impl RetentionRule ===

impl RetentionRule {
    fn covers(&self, facts: &Facts) -> bool {
        let is_request = facts.kind == Kind::DELETION || facts.kind == Kind::VANISH;
        let has_kind = match &self.kinds {
            Some(kinds) => kinds.iter().any(|range| range.contains(&facts.kind.0)),
            None => !is_request,
        };
        has_kind
            && self.authors.as_ref().is_none_or(|authors| authors.contains(&facts.pubkey))
            && self.larger_than.is_none_or(|bytes| facts.bytes > bytes)
    }

    /// Returns true if an event of this time is due.
    fn is_over(&self, created_at: u32, now: u32) -> bool {
        self.seconds.is_some_and(|seconds| created_at.saturating_add(seconds) <= now)
    }
}

// === impl Sweep ===

impl Sweep {
    /// Begins a sweep.
    pub fn new(retention: &Retention) -> Self {
        let rules = retention.0.len();
        Self { end: u64::MAX, used: vec![0; rules], judged: vec![Judged::default(); rules], deleted: 0 }
    }

    /// Returns the number of events that the sweep has deleted so far.
    pub fn deleted(&self) -> u64 {
        self.deleted
    }

    /// Returns what the sweep has judged so far, by the rule that decided, in the order of the rules.
    pub fn judged(&self) -> &[Judged] {
        &self.judged
    }

    /// Decides whether the next event is kept.
    pub(crate) fn keeps(&mut self, retention: &Retention, facts: &Facts, now: u32) -> bool {
        let Some(index) = retention.0.iter().position(|rule| rule.covers(facts)) else { return true };
        let (rule, used, judged) = (&retention.0[index], &mut self.used[index], &mut self.judged[index]);
        let mut is_kept = !rule.is_over(facts.created_at, now);
        if is_kept {
            // Once one does not fit, no older one is kept, however small.
            *used = used.saturating_add(facts.bytes);
            is_kept = rule.bytes.is_none_or(|bytes| *used <= bytes);
        }
        let amount = if is_kept { &mut judged.kept } else { &mut judged.unkept };
        amount.events += 1;
        amount.bytes = amount.bytes.saturating_add(facts.bytes);
        is_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Pubkey = Pubkey([1; 32]);
    const OTHER: Pubkey = Pubkey([2; 32]);
    const NOW: u32 = 1_000_000;

    fn facts(pubkey: Pubkey, kind: u16, age: u32, bytes: u64) -> Facts {
        Facts { pubkey, kind: Kind(kind), created_at: NOW - age, bytes }
    }

    /// Keeps the operator's events and private messages; large ones for 10 s, reactions for 100 s, others for 1000 s.
    fn rules() -> Retention {
        let all = RetentionRule::default;
        Retention(vec![
            RetentionRule { authors: Some(HashSet::from([OWN])), ..all() },
            RetentionRule { kinds: Some(vec![4..=4, 1059..=1059]), ..all() },
            RetentionRule { larger_than: Some(5000), seconds: Some(10), ..all() },
            RetentionRule { kinds: Some(vec![6..=7]), seconds: Some(100), ..all() },
            RetentionRule { seconds: Some(1000), ..all() },
        ])
    }

    fn keeps(facts: Facts) -> bool {
        Sweep::new(&rules()).keeps(&rules(), &facts, NOW)
    }

    #[test]
    fn the_first_rule_that_covers_an_event_decides() {
        assert!(keeps(facts(OTHER, 1, 999, 500)) && !keeps(facts(OTHER, 1, 1000, 500)));
        assert!(keeps(facts(OTHER, 7, 99, 500)) && !keeps(facts(OTHER, 7, 100, 500)));
        assert!(keeps(facts(OTHER, 1, 9, 5001)) && !keeps(facts(OTHER, 1, 10, 5001)));
        assert!(keeps(facts(OTHER, 1, 10, 5000)), "not larger");
        assert!(keeps(facts(OTHER, 1059, 900_000, 9000)), "private messages are kept");
        assert!(keeps(facts(OWN, 7, 900_000, 9000)), "the operator's own events are kept");
        let none = Retention::default();
        assert!(Sweep::new(&none).keeps(&none, &facts(OTHER, 1, 900_000, 9000), NOW), "no rule covers it");
    }

    #[test]
    fn requests_to_delete_and_to_vanish_stay_unless_a_rule_names_them() {
        assert!(keeps(facts(OTHER, 5, 900_000, 500)) && keeps(facts(OTHER, 62, 900_000, 500)));
        let named = RetentionRule { kinds: Some(vec![5..=5]), seconds: Some(1000), ..RetentionRule::default() };
        let named = Retention(vec![named]);
        assert!(!Sweep::new(&named).keeps(&named, &facts(OTHER, 5, 1000, 500), NOW));
    }

    #[test]
    fn the_last_accepted_events_are_kept_up_to_the_bytes_of_their_rule() {
        let few = RetentionRule { kinds: Some(vec![1..=1]), bytes: Some(1000), ..RetentionRule::default() };
        let few = Retention(vec![few]);
        let mut sweep = Sweep::new(&few);
        let kept = [(1, 600), (2, 900), (1, 400), (1, 1), (1, 0), (2, 900)];
        let kept = kept.map(|(kind, bytes)| sweep.keeps(&few, &facts(OTHER, kind, 0, bytes), NOW));
        assert_eq!(kept, [true, true, true, false, false, true]);
    }

    #[test]
    fn an_event_that_would_be_deleted_at_once_is_refused() {
        let event = |kind, age: u32| Event {
            id: crate::event::EventId([0; 32]),
            pubkey: OTHER,
            created_at: crate::event::Timestamp((NOW - age).into()),
            kind: Kind(kind),
            tags: Vec::new(),
            content: String::new(),
            sig: crate::event::Signature([0; 64]),
        };
        let mut rules = rules();
        assert!(rules.check(&event(7, 100), NOW).is_ok(), "a rule about sizes comes before");
        rules.0.remove(2);
        assert!(rules.check(&event(7, 100), NOW).is_err_and(|refused| refused.prefix() == "blocked"));
        assert!(rules.check(&event(7, 99), NOW).is_ok());
        assert!(rules.check(&event(4, 900_000), NOW).is_ok());
    }
}
