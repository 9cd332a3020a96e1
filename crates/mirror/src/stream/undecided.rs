//! Events that were read to be sent and have no final outcome, and the place below which all have one. Pure.

use std::collections::{BTreeSet, HashMap};

use birdhouse_events::{EventId, Seq};

/// Events by their numbers.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    seqs: BTreeSet<Seq>,
    of: HashMap<EventId, Seq>,
}

impl Undecided {
    pub(super) fn add(&mut self, id: EventId, seq: Seq) {
        if let Some(before) = self.of.insert(id, seq) {
            self.seqs.remove(&before);
        }
        self.seqs.insert(seq);
    }

    /// Notes the outcome of an event.
    pub(super) fn decide(&mut self, id: &EventId) {
        if let Some(seq) = self.of.remove(id) {
            self.seqs.remove(&seq);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Returns the number below which all have an outcome; `next` was not read yet.
    pub(super) fn decided_below(&self, next: Seq) -> Seq {
        self.seqs.first().copied().unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_below_the_first_event_without_an_outcome() {
        let id = |number: u8| EventId([number; 32]);
        let mut undecided = Undecided::default();
        for number in [3, 5, 9] {
            undecided.add(id(number), Seq(number.into()));
        }
        let place = |undecided: &Undecided| undecided.decided_below(Seq(12)).0;
        assert_eq!(place(&undecided), 3);
        undecided.decide(&id(5));
        undecided.decide(&id(7));
        assert_eq!((place(&undecided), undecided.len()), (3, 2));
        undecided.decide(&id(3));
        assert_eq!(place(&undecided), 9);
        undecided.decide(&id(9));
        assert_eq!((place(&undecided), undecided.len()), (12, 0));
    }
}
