//! Sweeps of the retention rules: through all stored events, again and again, in steps with long rests between them.

use std::time::{Duration, Instant};

use birdhouse_events::{Error, Events, Retention, Sweep};
use tracing::info;

/// Least time between the starts of two sweeps.
const SWEEP_EACH: Duration = Duration::from_mins(10);
/// A sweep rests this many times as long as it worked, so that sweeps take a twentieth of one processor.
const REST: u32 = 20;

/// The rules, and the sweep that is under way.
pub(crate) struct Retaining {
    retention: Retention,
    sweep: Sweep,
    /// Time that the sweep has worked.
    worked: Duration,
    /// Start of the sweep.
    began: Instant,
    is_over: bool,
}

// === impl Retaining ===

impl Retaining {
    /// Begins the first sweep.
    pub(crate) fn new(retention: Retention, now: Instant) -> Self {
        let is_over = !retention.is_some();
        Self { sweep: Sweep::new(&retention), retention, worked: Duration::ZERO, began: now, is_over }
    }

    /// Takes a step of a sweep that is due at `now`, which is `seconds` since 1970. Returns true if there are more.
    pub(crate) fn step(&mut self, events: &Events, seconds: u32, now: Instant) -> Result<bool, Error> {
        if self.is_over && !(self.retention.is_some() && now >= self.next()) {
            return Ok(false);
        }
        if self.is_over {
            *self = Self::new(std::mem::take(&mut self.retention), now);
        }
        let is_more = events.retain(&self.retention, &mut self.sweep, seconds);
        self.worked += now.elapsed();
        self.is_over = matches!(is_more, Ok(false));
        if self.is_over && self.sweep.deleted() > 0 {
            info!(events = self.sweep.deleted(), "deleted events that the retention rules do not keep");
        }
        is_more
    }

    /// Returns the start of the next sweep.
    fn next(&self) -> Instant {
        self.began + SWEEP_EACH.max(self.worked * REST)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use birdhouse_events::{EventsOptions, Keys, Kind, RetentionRule, TABLES, Timestamp, UnsignedEvent};
    use birdhouse_store::{SegmentOptions, SegmentStore};

    use super::*;

    /// A time after which every sweep of this test is due again.
    const LATER: Duration = Duration::from_hours(1);

    #[test]
    fn sweeps_follow_each_other_after_a_rest() {
        let folder = tempfile::tempdir().unwrap();
        let store = SegmentStore::open(folder.path(), TABLES, SegmentOptions::default()).unwrap();
        let events = Events::open(Arc::new(store), [7; 16], EventsOptions::default()).unwrap();
        let keys = Keys::from_secret([1; 32]).unwrap();
        for created_at in [Timestamp(1000), Timestamp(2000)] {
            let (kind, content) = (Kind(1), String::new());
            events.accept(&[&UnsignedEvent { created_at, kind, tags: Vec::new(), content }.sign(&keys)]).unwrap();
        }
        let rule = RetentionRule { seconds: Some(100), ..RetentionRule::default() };
        let began = Instant::now();
        let mut retaining = Retaining::new(Retention(vec![rule]), began);
        while retaining.step(&events, 1100, began).unwrap() {}
        assert_eq!(events.live_events(), 1);
        assert!(!retaining.step(&events, 2100, began + Duration::from_mins(1)).unwrap());
        assert_eq!(events.live_events(), 1, "it rests");
        while retaining.step(&events, 2100, began + LATER).unwrap() {}
        assert_eq!(events.live_events(), 0);

        let mut none = Retaining::new(Retention::default(), began);
        assert!(!none.step(&events, 2100, began).unwrap() && !none.step(&events, 2100, began + LATER).unwrap());
    }
}
