//! Sweeps of the retention rules: through all stored events, again and again, in steps with long rests between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::{Error, Events, Retention, Sweep};
use parking_lot::RwLock;
use tracing::{info, warn};

use crate::rules::RuleBook;

/// Least time between the starts of two sweeps.
const SWEEP_EACH: Duration = Duration::from_mins(10);
/// A sweep rests this many times as long as it worked, so that sweeps take a twentieth of one processor.
const REST: u32 = 20;

/// The rules as they are now, replaced as a whole.
#[derive(Debug)]
pub(crate) struct CurrentRules(RwLock<Arc<Retention>>);

/// The rules of the sweep that is under way, and the sweep.
pub(crate) struct Retaining {
    current: Arc<CurrentRules>,
    /// Keeps the audit log.
    book: Arc<RuleBook>,
    rules: Arc<Retention>,
    sweep: Sweep,
    /// Time that the sweep has worked.
    worked: Duration,
    /// Start of the sweep.
    began: Instant,
    is_over: bool,
}

// === impl CurrentRules ===

impl CurrentRules {
    pub(crate) fn new(rules: Retention) -> Self {
        Self(RwLock::new(Arc::new(rules)))
    }

    pub(crate) fn get(&self) -> Arc<Retention> {
        Arc::clone(&self.0.read())
    }

    pub(crate) fn set(&self, rules: Retention) {
        *self.0.write() = Arc::new(rules);
    }
}

// === impl Retaining ===

impl Retaining {
    /// Begins the first sweep.
    pub(crate) fn new(current: Arc<CurrentRules>, book: Arc<RuleBook>, now: Instant) -> Self {
        let rules = current.get();
        let (sweep, is_over) = (Sweep::new(&rules), !rules.is_some());
        Self { current, book, rules, sweep, worked: Duration::ZERO, began: now, is_over }
    }

    /// Takes a step of a sweep that is due at `now`, which is `seconds` since 1970. Returns true if there are more. New
    /// rules begin a new sweep at once.
    pub(super) fn step(&mut self, events: &Events, seconds: u32, now: Instant) -> Result<bool, Error> {
        let is_changed = !Arc::ptr_eq(&self.rules, &self.current.get());
        if is_changed || self.is_over && self.rules.is_some() && now >= self.next() {
            if !self.is_over {
                self.enter();
            }
            *self = Self::new(Arc::clone(&self.current), Arc::clone(&self.book), now);
        }
        if self.is_over {
            return Ok(false);
        }
        let is_more = events.retain(&self.rules, &mut self.sweep, seconds);
        self.worked += now.elapsed();
        self.is_over = matches!(is_more, Ok(false));
        if self.is_over {
            self.enter();
        }
        is_more
    }

    /// Adds what the sweep has deleted to the logs.
    fn enter(&self) {
        let events = self.sweep.deleted();
        if events == 0 {
            return;
        }
        info!(events, "deleted events that the retention rules do not keep");
        let by_rule = self.sweep.judged().iter().map(|judged| judged.unkept.events).collect();
        if let Err(error) = self.book.enter_deletion(by_rule) {
            warn!(%error, "the audit log lacks what the retention rules have deleted");
        }
    }

    /// Returns the start of the next sweep.
    fn next(&self) -> Instant {
        self.began + SWEEP_EACH.max(self.worked * REST)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{EventsOptions, Keys, Kind, RetentionRule, TABLES, Timestamp, UnsignedEvent};
    use birdhouse_store::{SegmentOptions, SegmentStore};
    use tempfile::TempDir;

    use super::*;
    use crate::rules::{Actor, Deed};

    /// A time after which every sweep of this test is due again.
    const LATER: Duration = Duration::from_hours(1);

    fn current(rules: Vec<RetentionRule>) -> Arc<CurrentRules> {
        Arc::new(CurrentRules::new(Retention(rules)))
    }

    /// Returns a store with notes of the times 1000 and 2000.
    fn events(folder: &TempDir) -> Events {
        let store = SegmentStore::open(folder.path(), TABLES, SegmentOptions::default()).unwrap();
        let events = Events::open(Arc::new(store), [7; 16], EventsOptions::default()).unwrap();
        let keys = Keys::from_secret([1; 32]).unwrap();
        for created_at in [Timestamp(1000), Timestamp(2000)] {
            let (kind, content) = (Kind(1), String::new());
            events.accept(&[&UnsignedEvent { created_at, kind, tags: Vec::new(), content }.sign(&keys)]).unwrap();
        }
        events
    }

    #[test]
    fn new_rules_begin_a_sweep_at_once() {
        let folder = TempDir::new().unwrap();
        let (events, began, rules) = (events(&folder), Instant::now(), current(Vec::new()));
        let mut retaining = Retaining::new(Arc::clone(&rules), Arc::new(RuleBook::in_memory()), began);
        assert!(!retaining.step(&events, 1100, began).unwrap());
        rules.set(Retention(vec![RetentionRule { seconds: Some(100), ..RetentionRule::default() }]));
        while retaining.step(&events, 1100, began).unwrap() {}
        assert_eq!(events.live_events(), 1);
        rules.set(Retention::default());
        assert!(!retaining.step(&events, 2100, began + LATER).unwrap());
        assert_eq!(events.live_events(), 1, "without rules everything is kept");
    }

    #[test]
    fn sweeps_follow_each_other_after_a_rest() {
        let folder = TempDir::new().unwrap();
        let events = events(&folder);
        let (book, began) = (Arc::new(RuleBook::in_memory()), Instant::now());
        let rules = current(vec![RetentionRule { seconds: Some(100), ..RetentionRule::default() }]);
        let mut retaining = Retaining::new(rules, Arc::clone(&book), began);
        while retaining.step(&events, 1100, began).unwrap() {}
        assert_eq!(events.live_events(), 1);
        assert!(!retaining.step(&events, 2100, began + Duration::from_mins(1)).unwrap());
        assert_eq!(events.live_events(), 1, "it rests");
        while retaining.step(&events, 2100, began + LATER).unwrap() {}
        assert_eq!(events.live_events(), 0);
        let entries = book.audit().unwrap();
        assert!(entries.iter().all(|one| one.entry.actor == Actor::Retention));
        let deeds: Vec<_> = entries.iter().map(|one| one.entry.deed.clone()).collect();
        // The test may run at midnight.
        let in_two_days = [(); 2].map(|()| Deed::Deleted(vec![1]));
        assert!(deeds == [Deed::Deleted(vec![2])] || deeds == in_two_days, "all sweeps of a day: {deeds:?}");

        let mut none = Retaining::new(current(Vec::new()), Arc::new(RuleBook::in_memory()), began);
        assert!(!none.step(&events, 2100, began).unwrap() && !none.step(&events, 2100, began + LATER).unwrap());
    }
}
