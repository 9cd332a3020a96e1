//! The health of the relay, from the states of its threads. Pure: time is an argument.
//!
//! Storing events is what makes a relay healthy; `/health` lists failures of compaction and of search beside it.

use std::time::{Duration, Instant};

use crate::free_disk::DiskShort;
use crate::worker::Heartbeat;

/// Longest time for a batch of events. A disk under load takes a second or two for a sync.
const BATCH_MAX: Duration = Duration::from_secs(30);

/// The health of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// State of storing events. Queries are answered in each of them.
    pub storing: Storing,
    /// Failures of threads without which the relay serves, by the thread's name: `compaction`, `search`.
    pub failures: Vec<(&'static str, String)>,
}

/// State of storing events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storing {
    /// Events are stored.
    Works,
    /// A write failed, and events are refused; the relay tries to open them again.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The disk has less room than it must keep, and events are refused until there is more.
    Short {
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that must stay free.
        floor_bytes: u64,
    },
    /// One batch has taken this time so far: the disk does not answer.
    Stalled {
        /// The time.
        busy: Duration,
    },
    /// The thread has ended by a defect, and cannot start again.
    Ended,
}

/// Threads of a relay, as they show themselves.
pub(crate) struct Threads<'a> {
    pub(crate) has_ended: bool,
    pub(crate) failure: Option<String>,
    pub(crate) short: Option<DiskShort>,
    pub(crate) writer: &'a Heartbeat,
    pub(crate) others: &'a [(&'static str, Heartbeat)],
}

// === impl Health ===

impl Health {
    /// Returns the health at `now`.
    pub(crate) fn assess(threads: Threads<'_>, now: Instant) -> Self {
        let storing = match (threads.failure, threads.writer.busy(now)) {
            _ if threads.has_ended => Storing::Ended,
            (Some(reason), _) => Storing::Failed { reason },
            (None, Some(busy)) if busy > BATCH_MAX => Storing::Stalled { busy },
            (None, _) => match threads.short {
                Some(DiskShort { free_bytes, floor_bytes }) => Storing::Short { free_bytes, floor_bytes },
                None => Storing::Works,
            },
        };
        let failures = threads.others.iter().filter_map(|(name, beat)| Some((*name, beat.failure()?)));
        Self { storing, failures: failures.collect() }
    }

    /// Returns `true` if clients should use this relay.
    pub fn is_good(&self) -> bool {
        self.storing == Storing::Works
    }

    /// Returns `true` if only a start of the process can help.
    pub fn is_lost(&self) -> bool {
        matches!(self.storing, Storing::Stalled { .. } | Storing::Ended)
    }
}

impl Storing {
    /// Returns a constant name of the state.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Works => "serving",
            Self::Failed { .. } => "cannot store events",
            Self::Short { .. } => "refuses events",
            Self::Stalled { .. } => "stalled",
            Self::Ended => "ended",
        }
    }

    /// Returns what explains a state in which events are not stored.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Works => None,
            Self::Failed { reason } => Some(reason.clone()),
            Self::Short { free_bytes, floor_bytes } => Some(format!(
                "the disk has {} MB left, and {} MB must stay free; make room",
                free_bytes / 1_000_000,
                floor_bytes / 1_000_000
            )),
            Self::Stalled { busy } => {
                Some(format!("the disk has not taken a batch of events for {} s", busy.as_secs()))
            }
            Self::Ended => Some("the thread that stores events has ended; restart, and report the log".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: DiskShort = DiskShort { free_bytes: 3_000_000, floor_bytes: 5_000_000 };

    fn storing(failure: Option<&str>, busy: Option<Duration>) -> Storing {
        assess(failure, None, busy)
    }

    fn assess(failure: Option<&str>, short: Option<DiskShort>, busy: Option<Duration>) -> Storing {
        let began = Instant::now();
        let writer = Heartbeat::new(began);
        if busy.is_some() {
            writer.begin(began);
        }
        let failure = failure.map(str::to_owned);
        let threads = Threads { has_ended: false, failure, short, writer: &writer, others: &[] };
        Health::assess(threads, began + busy.unwrap_or(BATCH_MAX * 2)).storing
    }

    #[test]
    fn a_writer_may_rest_for_ever_and_work_for_a_while() {
        assert_eq!(storing(None, None), Storing::Works);
        assert_eq!(storing(None, Some(BATCH_MAX)), Storing::Works);
        let busy = BATCH_MAX + Duration::from_secs(1);
        assert_eq!(storing(None, Some(busy)), Storing::Stalled { busy });
        assert_eq!(storing(Some("full"), Some(busy)), Storing::Failed { reason: "full".into() });
        let writer = Heartbeat::new(Instant::now());
        let ended = Threads { has_ended: true, failure: None, short: None, writer: &writer, others: &[] };
        assert_eq!(Health::assess(ended, Instant::now()).storing, Storing::Ended);
    }

    #[test]
    fn a_short_disk_refuses_events_and_can_get_room() {
        let short = assess(None, Some(SHORT), None);
        assert_eq!(short, Storing::Short { free_bytes: 3_000_000, floor_bytes: 5_000_000 });
        let health = Health { storing: short.clone(), failures: Vec::new() };
        assert!(!health.is_good() && !health.is_lost());
        assert_eq!(short.reason().as_deref(), Some("the disk has 3 MB left, and 5 MB must stay free; make room"));
        let failed = Storing::Failed { reason: "full".into() };
        assert_eq!(assess(Some("full"), Some(SHORT), None), failed, "a failed write is worse");
    }

    #[test]
    fn a_failure_of_compaction_is_told_and_leaves_the_relay_healthy() {
        let (now, compaction) = (Instant::now(), Heartbeat::new(Instant::now()));
        compaction.report(Some("damaged".into()));
        let (writer, others) = (Heartbeat::new(now), [("compaction", compaction)]);
        let threads = Threads { has_ended: false, failure: None, short: None, writer: &writer, others: &others };
        let health = Health::assess(threads, now);
        assert!(health.is_good() && health.failures == [("compaction", "damaged".to_owned())]);
    }
}
