//! Giving back the space of events that are gone: which parts are worth rewriting, and the move of a unit of the log.
//!
//! A part (a unit of the log, a segment) is rewritten when a quarter of it is gone. When more than a 24th of all parts
//! together is gone, the part with the largest share goes first. So at most a 24th stays, and a byte that is given back
//! costs at most 24 that are written, three where events go quickly. With a sixteenth in place of a 24th, the arrays of
//! a million events, of which half were gone, took 1.108 times as much as without those that are gone.
//!
//! A unit is moved in steps: between two steps nothing is held but memory. Nothing counts before the manifest names the
//! unit at its new offset; until then its former bytes stay as they are.
//!
//! The former bytes become holes when nobody reads a version that has them there (`Retired`). What a power cut leaves
//! behind is discarded at the next start.

pub(crate) mod state;

use std::ops::ControlFlow;
use std::ops::Range;

use zerocopy::IntoBytes;

use crate::error::Result;
use crate::event::Seq;
use crate::log::head::{HEAD_BYTES, Head};
use crate::log::moved::{MovedArrays, MovedUnit, OpenUnit, UnitBits};
use crate::log::tombstones::Tombstones;
use crate::log::{Log, LogReader};

/// Fraction of a part that is gone at which the part is rewritten.
const PART: u64 = 4;
/// Fraction of all parts that is gone at which the part with the largest share is rewritten.
const WHOLE: u64 = 24;
/// Bytes that one step copies at most, but for one event: some milliseconds of work.
const STEP_BYTES: usize = 1 << 20;

/// The size of a part, and how much of it is gone, in one unit of measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Share {
    pub(crate) gone: u64,
    pub(crate) all: u64,
}

/// A unit of the log that is being moved.
pub(crate) struct Move {
    entry: MovedUnit,
    kept: UnitBits,
    /// The kept events, with their heads before the move.
    events: Vec<(Seq, Head)>,
    /// Heads after the move of the events that are copied.
    copied: Vec<Head>,
    /// Offset of the next body.
    next: u64,
}

/// Returns the index of the part to rewrite next.
pub(crate) fn choose(parts: impl IntoIterator<Item = Share>) -> Option<usize> {
    let (mut best, mut sum) = (None::<(usize, Share)>, Share::default());
    for (index, part) in parts.into_iter().enumerate() {
        sum = Share { gone: sum.gone + part.gone, all: sum.all + part.all };
        let is_better =
            |best: &Share| u128::from(part.gone) * u128::from(best.all) > u128::from(best.gone) * u128::from(part.all);
        if part.gone > 0 && best.as_ref().is_none_or(|(_, best)| is_better(best)) {
            best = Some((index, part));
        }
    }
    let (index, best) = best?;
    let is_due = PART * best.gone >= best.all || WHOLE * sum.gone >= sum.all && WHOLE * best.gone >= best.all;
    is_due.then_some(index)
}

/// Returns the events of a unit that the log has.
pub(super) fn present(reader: LogReader<'_>, unit: u64) -> UnitBits {
    if let Some(moved) = reader.moved().get(unit) {
        return moved.kept.clone();
    }
    let words = usize::try_from(reader.moved().unit_events() / 64).expect("a unit fits in memory");
    UnitBits::of_words(vec![u64::MAX; words])
}

/// Returns the events of a unit that the log has, and that have a tombstone.
pub(crate) fn tombstoned(reader: LogReader<'_>, tombstones: &Tombstones, unit: u64) -> UnitBits {
    let first = unit * reader.moved().unit_events() / 64;
    let has = present(reader, unit);
    UnitBits::of_words((first..).zip(has.words()).map(|(word, has)| has & tombstones.word(word)).collect())
}

/// Returns the bytes that a unit takes, and those of its gone events.
pub(crate) fn share(reader: LogReader<'_>, gone: &UnitBits, unit: u64) -> Result<Share> {
    let first = unit * reader.moved().unit_events();
    let heads = reader.heads(gone.indices().map(|index| Seq(first + index)))?;
    let gone = heads.iter().map(|head| HEAD_BYTES as u64 + u64::from(head.bytes())).sum();
    let all = if let Some(moved) = reader.moved().get(unit) {
        moved.entry().bytes()
    } else {
        let bodies = unmoved_bodies(reader, unit)?;
        HEAD_BYTES as u64 * reader.moved().unit_events() + bodies.end - bodies.start
    };
    Ok(Share { gone, all })
}

/// Returns the bytes of `body` that a unit takes which was not moved.
fn unmoved_bodies(reader: LogReader<'_>, unit: u64) -> Result<Range<u64>> {
    let events = reader.moved().unit_events();
    let heads = reader.heads([Seq(unit * events), Seq((unit + 1) * events - 1)])?;
    Ok(heads[0].offset()..heads[1].offset() + u64::from(heads[1].bytes()))
}

// === impl Move ===

impl Move {
    /// Begins to move a unit without its tombstoned events.
    pub(crate) fn begin(reader: LogReader<'_>, log: &Log, tombstones: &Tombstones, unit: u64) -> Result<Self> {
        let units = reader.moved();
        let gone = tombstoned(reader, tombstones, unit);
        let has = present(reader, unit);
        let kept = UnitBits::of_words(has.words().iter().zip(gone.words()).map(|(has, gone)| has & !gone).collect());
        let seqs: Vec<Seq> = kept.indices().map(|index| Seq(unit * units.unit_events() + index)).collect();
        let heads = reader.heads(seqs.iter().copied())?;
        let bytes = heads.iter().map(|head| u64::from(head.bytes())).sum();
        let former = match units.get(unit) {
            Some(moved) => moved.entry().former_bodies(),
            None => unmoved_bodies(reader, unit)?,
        };
        // What lies below may still be read, or was published and must not be written again.
        let first = log.moved.content.len();
        let entry = MovedUnit::new(unit, units.bits(), seqs.len(), bytes, first, &former);
        let (_, next) = entry.parts(units.bits());
        let copied = Vec::with_capacity(seqs.len());
        Ok(Self { entry, kept, events: seqs.into_iter().zip(heads).collect(), copied, next })
    }

    pub(crate) fn unit(&self) -> u64 {
        self.entry.unit()
    }

    /// Returns the bytes of `moved` that it writes.
    pub(super) fn range(&self) -> Range<u64> {
        self.entry.range()
    }

    /// Copies some events; returns true when all are copied. `reader` is of a version that has the unit as it was.
    pub(crate) fn step(&mut self, reader: LogReader<'_>, arrays: &MovedArrays) -> Result<bool> {
        let left = &self.events[self.copied.len()..];
        let mut bytes = Vec::new();
        let (next, copied) = (self.next, &mut self.copied);
        reader.visit_bodies(left, &mut |index, body| {
            copied.push(left[index].1.at(next + bytes.len() as u64));
            bytes.extend_from_slice(body);
            if bytes.len() < STEP_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        arrays.content.write(self.next, &bytes)?;
        self.next += bytes.len() as u64;
        if self.copied.len() < self.events.len() {
            return Ok(false);
        }
        if !self.events.is_empty() {
            arrays.content.write(self.entry.parts(reader.moved().bits()).0, self.copied.as_bytes())?;
            arrays.write_bits(&self.entry, &self.kept)?;
        }
        Ok(true)
    }

    /// Returns the unit as it is after the move.
    pub(crate) fn finish(self) -> OpenUnit {
        OpenUnit::new(self.entry, self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(parts: &[(u64, u64)]) -> Option<usize> {
        choose(parts.iter().map(|(gone, all)| Share { gone: *gone, all: *all }))
    }

    #[test]
    fn the_part_with_the_largest_share_of_gone_bytes_is_rewritten_first() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[(0, 0), (0, 100)]), None);
        assert_eq!(chosen(&[(30, 100), (25, 50), (0, 100)]), Some(1));
        assert_eq!(chosen(&[(25, 100), (0, 10_000)]), Some(0), "a quarter of a part");
        assert_eq!(chosen(&[(24, 100), (0, 10_000)]), None);
        assert_eq!(chosen(&[(8, 100), (1, 100)]), Some(0), "more than a 24th of all");
        assert_eq!(chosen(&[(8, 100), (0, 100)]), None);
    }
}
