//! Negentropy in one window (NIP-77), on the side that asks. Pure.

use birdhouse_events::EventId;
use birdhouse_relay::DatedId;
use negentropy::{Id, Negentropy, NegentropyStorageVector};

use crate::limits::{FRAME_BYTES, IDLE_ROUNDS_MAX, WINDOW_NAMED_MAX};

/// A comparison of our ids with those of the peer.
pub(crate) struct Comparison {
    negentropy: Negentropy<'static, NegentropyStorageVector>,
    own: usize,
    have: usize,
    need: usize,
    idle_rounds: usize,
}

/// A comparison that begins.
pub(crate) struct Begun {
    pub(crate) comparison: Comparison,
    /// The first message to the peer.
    pub(crate) first: Vec<u8>,
}

/// A step of a comparison.
#[derive(Debug)]
pub(crate) struct Step {
    /// The next message to the peer; `None` at the end.
    pub(crate) next: Option<Vec<u8>>,
    /// Events that the peer lacks.
    pub(crate) have: Vec<EventId>,
    /// Events that we lack.
    pub(crate) need: Vec<EventId>,
}

impl Comparison {
    /// Begins a comparison.
    pub(crate) fn begin(ids: &[DatedId]) -> Begun {
        let mut storage = NegentropyStorageVector::with_capacity(ids.len());
        for DatedId { created_at, id } in ids {
            storage.insert(*created_at, Id::from_byte_array(id.0)).expect("it is not sealed");
        }
        storage.seal().expect("it is not sealed");
        let mut negentropy = Negentropy::owned(storage, FRAME_BYTES).expect("the bound is large enough");
        let first = negentropy.initiate().expect("it has not begun");
        Begun { comparison: Self { negentropy, own: ids.len(), have: 0, need: 0, idle_rounds: 0 }, first }
    }

    /// Takes an answer of the peer.
    ///
    /// # Errors
    /// The reason why the peer is not to be trusted with more.
    pub(crate) fn answered(&mut self, message: &[u8]) -> Result<Step, String> {
        let (mut have, mut need) = (Vec::new(), Vec::new());
        let next = self.negentropy.reconcile_with_ids(message, &mut have, &mut need);
        let next = next.map_err(|error| format!("its message of negentropy is wrong: {error}"))?;
        (self.have, self.need) = (self.have + have.len(), self.need + need.len());
        self.idle_rounds = if have.is_empty() && need.is_empty() { self.idle_rounds + 1 } else { 0 };
        if self.idle_rounds > IDLE_ROUNDS_MAX || self.need > WINDOW_NAMED_MAX || self.have > WINDOW_NAMED_MAX {
            return Err("its comparison does not come to an end".into());
        }
        let ids = |ids: Vec<Id>| ids.into_iter().map(|id| EventId(id.to_bytes())).collect();
        Ok(Step { next, have: ids(have), need: ids(need) })
    }

    /// Returns the number of events of the side that has more, as far as it is known.
    pub(crate) fn larger_side(&self) -> usize {
        self.own.max((self.own + self.need).saturating_sub(self.have))
    }

    /// Returns the number of our events.
    pub(crate) fn own(&self) -> usize {
        self.own
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn dated(number: u32) -> DatedId {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
        id[4..8].copy_from_slice(&number.to_be_bytes());
        DatedId { created_at: u64::from(number / 3), id: EventId(id) }
    }

    /// The other side is the library itself, as relays use it.
    #[test]
    fn both_differences_are_found() {
        let (ours, theirs): (Vec<u32>, Vec<u32>) =
            ((0..30_000).filter(|n| n % 7 != 0).collect(), (0..30_000).filter(|n| n % 11 != 0).collect());
        let mut storage = NegentropyStorageVector::new();
        for DatedId { created_at, id } in theirs.iter().map(|n| dated(*n)) {
            storage.insert(created_at, Id::from_byte_array(id.0)).unwrap();
        }
        storage.seal().unwrap();
        let mut peer = Negentropy::owned(storage, FRAME_BYTES).unwrap();
        let own: Vec<DatedId> = ours.iter().map(|n| dated(*n)).collect();
        let Begun { mut comparison, first } = Comparison::begin(&own);
        let (mut have, mut need, mut message) = (BTreeSet::new(), BTreeSet::new(), Some(first));
        while let Some(ours) = message {
            let step = comparison.answered(&peer.reconcile(&ours).unwrap()).unwrap();
            have.extend(step.have);
            need.extend(step.need);
            message = step.next;
        }
        let only = |these: &[u32], those: &[u32]| -> BTreeSet<EventId> {
            let those: BTreeSet<u32> = those.iter().copied().collect();
            these.iter().filter(|n| !those.contains(n)).map(|n| dated(*n).id).collect()
        };
        assert_eq!((have, need), (only(&ours, &theirs), only(&theirs, &ours)));
        assert_eq!(comparison.larger_side(), theirs.len());
    }

    #[test]
    fn nonsense_is_an_error() {
        for message in [&b""[..], b"\x61\xff", b"\x62", &[0x61; 40]] {
            let mut comparison = Comparison::begin(&[dated(1)]).comparison;
            let answer = comparison.answered(message);
            assert!(answer.is_err() || answer.unwrap().need.is_empty(), "{message:?}");
        }
    }
}
