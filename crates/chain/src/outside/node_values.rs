//! Figures of the node that many clients ask for, such as fee rates: one call for all who wait, some seconds of
//! patience, and the last answer while the node is silent.
//!
//! A failed call is remembered too, so that a node that hangs is asked once in a while and not by each client.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use parking_lot::{Condvar, Mutex};

use crate::outside::source::NodeError;

/// Time for which an answer of a silent node is used. A fee rate that is older misleads more than it helps.
pub const NODE_VALUE_AGE_MAX: Duration = Duration::from_hours(1);
/// Time that somebody waits for a call of somebody else.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time after a failed call in which the node is not asked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Answers that are kept at most. Beyond it all of them are forgotten; few questions differ.
const VALUES_MAX: usize = 4096;

/// Answers of the node by question.
#[derive(Debug)]
pub struct NodeValues<K, V> {
    /// Time for which an answer stays valid at its tip.
    fresh: Duration,
    slots: Mutex<HashMap<K, Slot<V>>>,
    answered: Condvar,
}

/// An answer of the node, and its age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeValue<V> {
    /// The answer.
    pub value: V,
    /// Time since the node gave it.
    pub age: Duration,
}

#[derive(Debug)]
struct Slot<V> {
    last: Option<Answer<V>>,
    /// The last call, if it failed.
    failed: Option<(Instant, NodeError)>,
    /// True while a call is under way.
    is_asked: bool,
}

#[derive(Debug)]
struct Answer<V> {
    value: V,
    given: Instant,
    tip: Option<BlockHash>,
}

impl<V: Clone> Slot<V> {
    /// The answer, if it is valid at this tip.
    fn fresh(&self, tip: Option<BlockHash>, fresh: Duration) -> Option<NodeValue<V>> {
        let last = self.last.as_ref().filter(|last| last.tip == tip)?;
        let age = last.given.elapsed();
        (age < fresh).then(|| NodeValue { value: last.value.clone(), age })
    }

    /// The outcome of a call that failed lately: the answer before it, or its failure.
    fn failed(&self) -> Option<Result<NodeValue<V>, NodeError>> {
        let (at, failure) = self.failed.as_ref()?;
        (at.elapsed() < RETRY_AFTER).then(|| self.instead_of(failure.clone()))
    }

    /// The answer before a call that failed. A refusal of the node is an answer itself.
    fn instead_of(&self, failure: NodeError) -> Result<NodeValue<V>, NodeError> {
        if matches!(failure, NodeError::Rejected { .. }) {
            return Err(failure);
        }
        let last = self.last.as_ref().filter(|last| last.given.elapsed() < NODE_VALUE_AGE_MAX).ok_or(failure)?;
        Ok(NodeValue { value: last.value.clone(), age: last.given.elapsed() })
    }
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { last: None, failed: None, is_asked: false }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> NodeValues<K, V> {
    /// No answers yet. Each will be valid for `fresh` while the tip stays.
    pub fn new(fresh: Duration) -> Self {
        Self { fresh, slots: Mutex::default(), answered: Condvar::new() }
    }

    /// Returns what needs no call: a valid answer, or the last one after a call that has just failed.
    pub fn known(&self, key: &K, tip: Option<BlockHash>) -> Option<NodeValue<V>> {
        let slots = self.slots.lock();
        let slot = slots.get(key)?;
        slot.fresh(tip, self.fresh).or_else(|| slot.failed()?.ok())
    }

    /// Returns a valid answer, for which the node is asked if there is none. While the node is silent, the last answer
    /// is returned, whatever its tip. No lock is held while the node is asked; everybody else waits a few seconds.
    ///
    /// # Errors
    /// The node refuses the call, or is silent and its last answer is older than [`NODE_VALUE_AGE_MAX`].
    pub fn get(
        &self,
        key: &K,
        tip: Option<BlockHash>,
        ask: impl FnOnce() -> Result<V, NodeError>,
    ) -> Result<NodeValue<V>, NodeError> {
        let until = Instant::now() + PATIENCE;
        let mut slots = self.slots.lock();
        loop {
            if slots.len() >= VALUES_MAX && !slots.contains_key(key) {
                slots.retain(|_, slot| slot.is_asked);
            }
            let slot = slots.entry(key.clone()).or_default();
            if let Some(fresh) = slot.fresh(tip, self.fresh) {
                return Ok(fresh);
            }
            if let Some(failed) = slot.failed() {
                return failed;
            }
            if !slot.is_asked {
                slot.is_asked = true;
                break;
            }
            if self.answered.wait_until(&mut slots, until).timed_out() {
                return slots.entry(key.clone()).or_default().instead_of(silent());
            }
        }
        drop(slots);
        let asking = Asking { values: self, key };
        let answer = ask();
        asking.end(tip, answer)
    }
}

/// A call under way. It ends also if it panics.
struct Asking<'a, K: Eq + Hash + Clone, V> {
    values: &'a NodeValues<K, V>,
    key: &'a K,
}

impl<K: Eq + Hash + Clone, V: Clone> Asking<'_, K, V> {
    fn end(self, tip: Option<BlockHash>, answer: Result<V, NodeError>) -> Result<NodeValue<V>, NodeError> {
        let mut slots = self.values.slots.lock();
        let slot = slots.entry(self.key.clone()).or_default();
        match answer {
            Ok(value) => {
                slot.last = Some(Answer { value: value.clone(), given: Instant::now(), tip });
                slot.failed = None;
                Ok(NodeValue { value, age: Duration::ZERO })
            }
            Err(failure) => {
                slot.failed = Some((Instant::now(), failure.clone()));
                slot.instead_of(failure)
            }
        }
    }
}

impl<K: Eq + Hash + Clone, V> Drop for Asking<'_, K, V> {
    fn drop(&mut self) {
        if let Some(slot) = self.values.slots.lock().get_mut(self.key) {
            slot.is_asked = false;
        }
        self.values.answered.notify_all();
    }
}

fn silent() -> NodeError {
    NodeError::unavailable("the node does not answer")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use bitcoin::hashes::Hash as _;

    use super::*;

    /// An answer that is never new enough, so that each question asks the node.
    fn stale() -> NodeValues<&'static str, u64> {
        NodeValues::new(Duration::ZERO)
    }

    fn tip(number: u8) -> BlockHash {
        BlockHash::from_byte_array([number; 32])
    }

    fn value(found: Result<NodeValue<u64>, NodeError>) -> Option<u64> {
        found.ok().map(|found| found.value)
    }

    #[test]
    fn an_answer_is_valid_at_its_tip_and_asked_once() {
        let values: NodeValues<&str, u64> = NodeValues::new(Duration::from_hours(1));
        assert_eq!(value(values.get(&"a", Some(tip(1)), || Ok(7))), Some(7));
        assert_eq!(value(values.get(&"a", Some(tip(1)), || panic!("it is known"))), Some(7));
        assert_eq!(values.known(&"a", Some(tip(1))).map(|known| known.value), Some(7));
        assert_eq!(values.known(&"a", Some(tip(2))).map(|known| known.value), None);
        assert_eq!(value(values.get(&"a", Some(tip(2)), || Ok(8))), Some(8));
        assert_eq!(value(values.get(&"b", Some(tip(2)), || Ok(9))), Some(9));
    }

    #[test]
    fn a_silent_node_is_asked_once_in_a_while_and_its_last_answer_is_used_at_any_tip() {
        let (values, calls) = (stale(), AtomicUsize::new(0));
        let fail = || {
            calls.fetch_add(1, Ordering::SeqCst);
            Err(silent())
        };
        assert_eq!(value(values.get(&"a", Some(tip(1)), || Ok(7))), Some(7));
        for _ in 0..5 {
            assert_eq!(value(values.get(&"a", Some(tip(2)), fail)), Some(7));
            assert_eq!(values.known(&"a", Some(tip(2))).map(|known| known.value), Some(7));
            assert_eq!(value(values.get(&"b", Some(tip(2)), fail)), None);
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2, "one call for each question");
    }

    #[test]
    fn a_refusal_is_the_answer() {
        let values = stale();
        assert_eq!(value(values.get(&"a", None, || Ok(7))), Some(7));
        let refused = || Err(NodeError::Rejected { code: -32601, message: "Method not found".into() });
        assert!(matches!(values.get(&"a", None, refused), Err(NodeError::Rejected { code: -32601, .. })));
    }

    #[test]
    fn everybody_who_comes_during_a_call_gets_its_answer_and_a_panic_ends_it() {
        let (values, (answer, answered)) = (NodeValues::new(Duration::from_hours(1)), mpsc::sync_channel(1));
        let (began, has_begun) = mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                value(values.get(&"a", None, move || {
                    began.send(()).expect("the test waits for it");
                    Ok(answered.recv().expect("the test sends one"))
                }))
            });
            has_begun.recv().expect("the call begins");
            let others: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| value(values.get(&"a", None, || panic!("somebody asks already")))))
                .collect();
            answer.send(7).expect("the call waits for it");
            assert_eq!(asking.join().expect("it does not panic"), Some(7));
            for other in others {
                assert_eq!(other.join().expect("it does not panic"), Some(7));
            }
            let panicking = scope.spawn(|| value(values.get(&"b", None, || panic!("of the test"))));
            assert!(panicking.join().is_err());
            assert_eq!(value(values.get(&"b", None, || Ok(8))), Some(8));
        });
    }
}
