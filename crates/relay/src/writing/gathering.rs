//! Events of several front ends that wait for the store: whoever's turn it is stores all of them together, because a
//! publish costs as much for one event as for hundreds.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use birdhouse_events::VerifiedEvent;
use parking_lot::Mutex;

use crate::limits::BATCH_EVENTS;
use crate::message::Outcome;
use crate::writing::ingest::Depot;

/// The outcome of each event, and the time that it took the writer.
pub(super) type Outcomes = Vec<(Outcome, Duration)>;

/// Batches that wait, and the turn to store them.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    waiting: Mutex<Vec<Batch>>,
    turn: Mutex<()>,
}

/// Events of one front end.
#[derive(Debug)]
struct Batch {
    events: Vec<VerifiedEvent>,
    /// Has room for the one answer.
    answer: SyncSender<Outcomes>,
}

// === impl Gathering ===

impl Gathering {
    /// Stores events, with those of others that wait. Returns `None` if storing them failed by a defect.
    pub(crate) fn store(&self, depot: &Depot, events: Vec<VerifiedEvent>) -> Option<Outcomes> {
        self.store_with(events, |events| {
            let mut spent = vec![Duration::ZERO; events.len()];
            let outcomes = depot.take_in(events, &mut spent);
            outcomes.into_iter().zip(spent).collect()
        })
    }

    fn store_with(
        &self,
        events: Vec<VerifiedEvent>,
        store: impl Fn(&[&VerifiedEvent]) -> Outcomes,
    ) -> Option<Outcomes> {
        let (answer, answered) = sync_channel(1);
        self.waiting.lock().push(Batch { events, answer });
        let _turn = self.turn.lock();
        loop {
            if let Ok(outcomes) = answered.try_recv() {
                return Some(outcomes);
            }
            let batches = take_some(&mut self.waiting.lock());
            if batches.is_empty() {
                // Somebody took them and did not come to the end.
                return None;
            }
            let together: Vec<&VerifiedEvent> = batches.iter().flat_map(|batch| &batch.events).collect();
            let mut outcomes = store(&together).into_iter();
            for Batch { events, answer } in batches {
                // One that is gone needs no answer.
                let _ = answer.send(outcomes.by_ref().take(events.len()).collect());
            }
        }
    }
}

/// Takes the first batches, as many as one commit makes durable.
fn take_some(waiting: &mut Vec<Batch>) -> Vec<Batch> {
    let mut events = 0;
    let is_within = |batch: &&Batch| {
        events += batch.events.len();
        events <= BATCH_EVENTS
    };
    let count = waiting.iter().take_while(is_within).count().max(1).min(waiting.len());
    waiting.drain(..count).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{scope, sleep};

    use birdhouse_events::{Keys, Kind, Rejection, Timestamp, UnsignedEvent};

    use super::*;

    fn event(number: u64) -> VerifiedEvent {
        let unsigned =
            UnsignedEvent { created_at: Timestamp(number), kind: Kind(1), tags: Vec::new(), content: String::new() };
        unsigned.sign(&Keys::from_secret([1; 32]).unwrap())
    }

    /// An outcome by which an event can be told from others.
    fn outcome(event: &VerifiedEvent) -> (Outcome, Duration) {
        (Outcome::Refused(Rejection::Error(event.created_at.0.to_string().into())), Duration::ZERO)
    }

    #[test]
    fn those_that_wait_are_stored_together_and_each_gets_the_outcomes_of_its_own_events() {
        let (gathering, calls) = (Gathering::default(), AtomicUsize::new(0));
        scope(|scope| {
            for client in 0..20 {
                let (gathering, calls) = (&gathering, &calls);
                scope.spawn(move || {
                    let events: Vec<_> = (0..=client % 3).map(|number| event(10 * client + number)).collect();
                    let expected: Vec<_> = events.iter().map(outcome).collect();
                    let store = |events: &[&VerifiedEvent]| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_millis(20));
                        events.iter().map(|event| outcome(event)).collect()
                    };
                    let outcomes = gathering.store_with(events, store).unwrap();
                    assert_eq!(format!("{outcomes:?}"), format!("{expected:?}"));
                });
            }
        });
        let calls = calls.into_inner();
        assert!(calls < 20, "{calls} calls for 20 batches");
    }

    #[test]
    fn a_batch_that_somebody_took_and_lost_is_not_waited_for() {
        let (gathering, taken) = (Gathering::default(), AtomicUsize::new(0));
        scope(|scope| {
            let (gathering, taken) = (&gathering, &taken);
            let failing = scope.spawn(move || {
                gathering.store_with(vec![event(1)], |_| {
                    taken.store(1, Ordering::Relaxed);
                    while gathering.waiting.lock().is_empty() {
                        std::thread::yield_now();
                    }
                    // It takes the other's events along.
                    gathering.waiting.lock().clear();
                    panic!("a defect")
                })
            });
            while taken.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(gathering.store_with(vec![event(2)], |_| panic!("there is nothing")).is_none());
            assert!(failing.join().is_err());
        });
    }

    #[test]
    fn a_commit_has_a_bound_of_events_and_one_batch_at_least() {
        let batch = |count: usize| Batch { events: vec![event(1); count], answer: sync_channel(1).0 };
        let mut waiting = vec![batch(BATCH_EVENTS), batch(BATCH_EVENTS - 1), batch(1), batch(1)];
        let taken: Vec<usize> =
            std::iter::from_fn(|| Some(take_some(&mut waiting).len()).filter(|len| *len > 0)).collect();
        assert_eq!(taken, [1, 2, 1]);
    }
}
