//! Rate limits: a leaky bucket for each key. Pure; time is an argument.
//!
//! A bucket is one instant: the time at which it will be empty. Invariants: a key that keeps to the rate is never
//! refused; there are never more buckets than the maximum.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::bound::Bound;

/// A number of actions in a time. The same number may happen at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Number of actions.
    pub count: u32,
    /// The time in which they may happen.
    pub per: Duration,
}

/// Leaky buckets by key.
#[doc(alias("leaky bucket", "rate limit", "token bucket"))]
#[derive(Debug)]
pub struct Buckets<K> {
    rate: Rate,
    keys_max: usize,
    /// The time at which each bucket is empty.
    empty_at: HashMap<K, Instant>,
}

/// Units of time, shortest first.
const UNITS: [(&str, Duration); 4] = [
    ("s", Duration::from_secs(1)),
    ("min", Duration::from_mins(1)),
    ("h", Duration::from_hours(1)),
    ("d", Duration::from_hours(24)),
];

// === impl Rate ===

impl Rate {
    /// Returns a rate of `count` a minute.
    pub const fn per_minute(count: u32) -> Self {
        Self { count, per: Duration::from_mins(1) }
    }
}

impl Bound for Rate {
    fn expected() -> String {
        "a rate like \"10/s\", \"600/min\", \"1000/h\", \"5000/d\"".into()
    }

    fn to_text(&self) -> String {
        let named = UNITS.iter().find(|(_, unit)| *unit == self.per);
        named.map_or_else(
            || format!("{}/{}", self.count, self.per.to_text()),
            |(name, _)| format!("{}/{name}", self.count),
        )
    }

    fn from_text(text: &str) -> Option<Self> {
        let (count, unit) = text.split_once('/')?;
        let (_, per) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        Some(Self { count: count.trim().parse().ok()?, per: *per })
    }
}

// === impl Buckets ===

impl<K: Eq + Hash> Buckets<K> {
    /// Returns an empty set of at most `keys_max` buckets. When one more is needed, the emptier half is dropped.
    pub fn new(rate: Rate, keys_max: usize) -> Self {
        Self { rate, keys_max: keys_max.max(1), empty_at: HashMap::new() }
    }

    /// Counts one action of `key`.
    ///
    /// # Errors
    /// Returns the time to wait when the rate is exceeded; the action is not counted.
    pub fn take(&mut self, key: K, now: Instant) -> Result<(), Duration> {
        let Rate { count, per } = self.rate;
        let Some(cost) = per.checked_div(count) else { return Err(per) };
        let empty_at = self.empty_at.get(&key).copied().unwrap_or(now).max(now) + cost;
        let beyond = (empty_at - now).saturating_sub(per);
        if !beyond.is_zero() {
            return Err(beyond);
        }
        self.empty_at.insert(key, empty_at);
        if self.empty_at.len() > self.keys_max {
            self.drop_emptier_half();
        }
        Ok(())
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.empty_at.len()
    }

    /// Returns `true` when there is no bucket.
    pub fn is_empty(&self) -> bool {
        self.empty_at.is_empty()
    }

    /// Drops the emptier half of the buckets, even where some of these are not empty, so that one pass makes room for
    /// many.
    fn drop_emptier_half(&mut self) {
        let mut all: Vec<Instant> = self.empty_at.values().copied().collect();
        let middle = all.len() / 2;
        let (_, median, _) = all.select_nth_unstable(middle);
        let median = *median;
        self.empty_at.retain(|_, empty_at| *empty_at > median);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { count: 6, per: Duration::from_mins(1) };

    #[test]
    fn burst_passes_and_then_one_by_one() {
        let (mut buckets, start) = (Buckets::new(RATE, 10), Instant::now());
        for _ in 0..6 {
            buckets.take("a", start).unwrap();
        }
        assert_eq!(buckets.take("a", start), Err(Duration::from_secs(10)));
        buckets.take("b", start).unwrap();
        assert!(buckets.take("a", start + Duration::from_millis(9999)).is_err());
        buckets.take("a", start + Duration::from_secs(10)).unwrap();
        assert!(buckets.take("a", start + Duration::from_secs(10)).is_err());
    }

    #[test]
    fn rate_of_zero_refuses_everything() {
        let rate = Rate { count: 0, ..RATE };
        assert_eq!(Buckets::new(rate, 10).take((), Instant::now()), Err(rate.per));
    }

    #[test]
    fn emptiest_buckets_are_dropped_when_there_are_too_many() {
        let (mut buckets, now) = (Buckets::new(RATE, 100), Instant::now());
        for _ in 0..6 {
            buckets.take(0, now).unwrap();
        }
        for key in 1..10_000 {
            let _ = buckets.take(key, now);
            assert!(buckets.len() <= 100);
        }
        assert!(buckets.take(0, now).is_err(), "the fullest bucket stays");
    }

    #[test]
    fn dropping_makes_room_for_many() {
        let (mut buckets, start) = (Buckets::new(RATE, 100), Instant::now());
        buckets.take(0, start).unwrap();
        // By then this bucket is empty, and the only one that is.
        for key in 1..=100 {
            buckets.take(key, start + Duration::from_secs(10) + Duration::from_millis(key)).unwrap();
        }
        assert!(buckets.len() <= 51, "{} are left: the next few would need another pass", buckets.len());
    }

    #[test]
    fn rates_are_parsed_as_they_are_written() {
        for text in ["10/s", "600/min", "1000/h", "0/d"] {
            assert_eq!(Rate::from_text(text).unwrap().to_text(), text);
        }
        for wrong in ["", "10", "/min", "10/", "-1/s", "10/week", "1.5/s", "none"] {
            assert_eq!(Rate::from_text(wrong), None, "{wrong}");
        }
        assert_eq!(Option::<Rate>::from_text("none"), Some(None));
    }

    proptest! {
        #[test]
        fn keeping_to_the_rate_is_never_refused_and_nobody_gets_more(
            pauses in proptest::collection::vec(0u64..30_000, 1..200), count in 1u32..50,
        ) {
            let rate = Rate { count, per: Duration::from_mins(1) };
            let (mut buckets, start) = (Buckets::new(rate, 10), Instant::now());
            let (mut now, mut taken) = (start, 0_u32);
            for pause in pauses {
                now += Duration::from_millis(pause);
                match buckets.take("a", now) {
                    Ok(()) => taken += 1,
                    Err(wait) => {
                        prop_assert!(pause < 60_000 / u64::from(count), "it kept to the rate");
                        prop_assert!(buckets.take("a", now + wait).is_ok());
                        now += wait;
                        taken += 1;
                    }
                }
                let most = f64::from(count) * (1.0 + (now - start).as_secs_f64() / 60.0);
                prop_assert!(f64::from(taken) <= most + 0.001);
            }
        }
    }
}
