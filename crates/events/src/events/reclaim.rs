//! Giving back the space of events that are gone, step by step, beside readers and the writer.

use std::sync::Arc;

use super::{Events, Writer};
use crate::error::{Error, Result};
use crate::event::Seq;
use crate::log::reclaim::state::{Assessed, AssessedSegment, Freed, Retired, Upkeep};
use crate::log::{Location, Move, Section, Share, Tombstone, reclaim};
use crate::postings::OpenSegment;
use crate::state::Version;

/// Fraction of a part's events that go before the part is assessed again.
const ASSESSED_AGAIN: u64 = 64;
/// Units that one step assesses: the heads of their gone events are read.
const ASSESSED_TOGETHER: usize = 16;

/// Tombstones that are not needed any more, above half of all, before these are written again.
const TOMBSTONES_MIN: u64 = 1024;
/// Tombstones that are written again together, at most: some milliseconds of work.
const TOMBSTONES_MAX: u64 = 1 << 18;

/// The next unit to move.
enum Chosen {
    Unit(u64),
    /// Not all units are assessed yet.
    Later,
    None,
}

impl Events {
    /// Returns the number of deleted, replaced and expired events that still take space in the log.
    /// [`compact`](Self::compact) gives it back, but keeps up to a 24th of the log.
    pub fn unreclaimed_events(&self) -> u64 {
        let version = self.installed();
        version.tombstones.count().saturating_sub(version.moved.gone())
    }

    /// Takes one step toward giving back the log's space. Returns false if there was nothing to do.
    pub(super) fn reclaim_step(&self, upkeep: &mut Upkeep) -> Result<bool> {
        let has_freed = self.free_retired(upkeep)? || self.drop_tombstones()?;
        let version = self.installed();
        let mut moving = match upkeep.moving.take() {
            Some(moving) => moving,
            None => match Self::choose_unit(upkeep, &version)? {
                Chosen::Unit(unit) => self.begin_move(upkeep, &version, unit)?,
                Chosen::Later => return Ok(true),
                Chosen::None => return Ok(has_freed),
            },
        };
        match moving.step(version.log(), &self.log.moved) {
            Ok(false) => upkeep.moving = Some(moving),
            Ok(true) => self.change(|writer| self.publish_move(writer, upkeep, moving))?,
            Err(error) => {
                upkeep.abandon(&moving);
                return Err(noted(upkeep, moving.unit(), error));
            }
        }
        Ok(true)
    }

    fn begin_move(&self, upkeep: &mut Upkeep, version: &Version, unit: u64) -> Result<Move> {
        let begun = Move::begin(version.log(), &self.log, &version.tombstones, unit);
        begun.map_err(|error| noted(upkeep, unit, error))
    }

    /// Returns the unit to move next, among those whose postings are in segments.
    fn choose_unit(upkeep: &mut Upkeep, version: &Version) -> Result<Chosen> {
        let log = version.log();
        let units = version.memtable.read().first().0 / log.moved().unit_events();
        let now = (version.tombstones.count(), units);
        if upkeep.rested == Some(now) {
            return Ok(Chosen::None);
        }
        let mut left = ASSESSED_TOGETHER;
        upkeep.units.resize(usize::try_from(units).expect("units fit in memory"), None);
        for (unit, assessed) in (0..).zip(&mut upkeep.units) {
            if upkeep.damaged.contains(&unit) {
                *assessed = None;
                continue;
            }
            let gone = reclaim::tombstoned(log, &version.tombstones, unit);
            let events = gone.count();
            if assessed.is_none_or(|before| events >= before.events + log.moved().unit_events() / ASSESSED_AGAIN) {
                if left == 0 {
                    return Ok(Chosen::Later);
                }
                left -= 1;
                match reclaim::share(log, &gone, unit) {
                    Ok(share) => *assessed = Some(Assessed { events, share }),
                    Err(error) if is_damage(&error) => drop(upkeep.damaged.insert(unit)),
                    Err(error) => return Err(error),
                }
            }
        }
        let chosen = reclaim::choose(upkeep.units.iter().map(|assessed| assessed.unwrap_or_default().share));
        if chosen.is_none() {
            upkeep.rested = Some(now);
        }
        Ok(chosen.map_or(Chosen::None, |index| Chosen::Unit(index as u64)))
    }

    /// Publishes and installs a unit at its new offset. Its former bytes stay until nobody reads them.
    fn publish_move(&self, writer: &mut Writer, upkeep: &mut Upkeep, moving: Move) -> Result<()> {
        let version = self.installed();
        let unit = moving.unit();
        let former = version.moved.get(unit).map(|former| former.entry().range());
        let opened = moving.finish();
        let bytes = match former {
            Some(range) => Freed::Moved(range),
            None => Freed::Unmoved(unit, opened.entry().former_bodies()),
        };
        let moved = Arc::new(version.moved.with(opened));
        writer.manifest.moved = self.log.moved.write_entries(&moved)?;
        self.store.publish(&writer.manifest.encode())?;
        let former = std::mem::replace(&mut self.installed.write().moved, moved);
        upkeep.retired.push_back(Retired { version: former, bytes });
        let assessed = usize::try_from(unit).ok().and_then(|unit| upkeep.units.get_mut(unit));
        if let Some(assessed) = assessed {
            *assessed = None;
        }
        upkeep.rested = None;
        Ok(())
    }

    /// Gives back bytes that nobody reads any more; returns false if there are none.
    fn free_retired(&self, upkeep: &mut Upkeep) -> Result<bool> {
        let is_unread = |retired: &Retired| Arc::strong_count(&retired.version) == 1;
        let count = upkeep.retired.iter().take_while(|retired| is_unread(retired)).count();
        if count == 0 {
            return Ok(false);
        }
        self.change(|writer| {
            for Retired { bytes, .. } in upkeep.retired.drain(..count) {
                match bytes {
                    Freed::Moved(range) => self.log.moved.discard(&range)?,
                    Freed::Unmoved(unit, bodies) => {
                        self.log.discard_heads(unit, writer.manifest.unit_bits)?;
                        self.log.discard_bodies(&bodies)?;
                    }
                }
            }
            self.log.moved.discard_entries_before(writer.manifest.moved)?;
            // Space is freed by a publish.
            Ok(self.store.publish(&writer.manifest.encode())?)
        })?;
        Ok(true)
    }

    /// Writes the tombstones again without those of events that are gone, if these are more than half.
    fn drop_tombstones(&self) -> Result<bool> {
        let Some(needed) = self.needed_tombstones()? else { return Ok(false) };
        self.write_tombstones_again(needed)?;
        Ok(true)
    }

    /// Reads the tombstones that are still needed; `None` if they need not be written again yet.
    fn needed_tombstones(&self) -> Result<Option<Needed>> {
        let version = self.installed();
        let Some(section) = self.writer.lock().as_ref().map(|writer| writer.manifest.tombstones) else {
            return Ok(None);
        };
        let needed = version.tombstones.count().saturating_sub(version.moved.gone());
        if section.count < 2 * needed + TOMBSTONES_MIN || needed > TOMBSTONES_MAX {
            return Ok(None);
        }
        let tombstones = self.tombstone_array.filtered(section, &|seq| is_needed(&version, seq))?;
        Ok(Some(Needed { version, section, tombstones }))
    }

    /// Writes tombstones again, with those that were added since they were read.
    fn write_tombstones_again(&self, needed: Needed) -> Result<()> {
        let Needed { version, section, mut tombstones } = needed;
        self.change(|writer| {
            let now = writer.manifest.tombstones;
            let end = section.first + section.count;
            let since = Section { first: end, count: now.first + now.count - end };
            tombstones.extend(self.tombstone_array.filtered(since, &|seq| is_needed(&version, seq))?);
            let empty = Section { first: now.first + now.count, count: 0 };
            writer.manifest.tombstones = self.tombstone_array.append(empty, &tombstones)?;
            self.store.publish(&writer.manifest.encode())?;
            self.tombstone_array.discard_before(writer.manifest.tombstones)?;
            // Space is freed by a publish.
            Ok(self.store.publish(&writer.manifest.encode())?)
        })
    }
}

/// Tombstones of a section that are needed in a version.
struct Needed {
    version: Version,
    section: Section,
    tombstones: Vec<Tombstone>,
}

/// True if the space of an event is not given back yet.
fn is_needed(version: &Version, seq: Seq) -> bool {
    version.moved.locate(seq) != Location::Gone
}

/// Takes note of a unit that cannot be read: it stays as it is, and others are moved.
fn noted(upkeep: &mut Upkeep, unit: u64, error: Error) -> Error {
    if is_damage(&error) {
        upkeep.damaged.insert(unit);
    }
    error
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Store(birdhouse_store::Error::Corrupt { .. }) | Error::CorruptEvent(_))
}

/// Returns the index of a segment of which many postings are gone.
pub(super) fn choose_segment(upkeep: &mut Upkeep, version: &Version) -> Result<Option<usize>> {
    let known = std::mem::take(&mut upkeep.segments);
    for segment in version.segments.iter() {
        let key = segment.segment.ids.first;
        let before = known.get(&key).filter(|before| before.share.all == segment.segment.postings.count);
        upkeep.segments.insert(key, assess(segment, before.copied(), version)?);
    }
    let share = |segment: &Arc<OpenSegment>| upkeep.segments[&segment.segment.ids.first].share;
    Ok(reclaim::choose(version.segments.iter().map(share)))
}

/// Counts the gone postings of a segment, if many events have gone since `before`. The ids are counted first, because
/// there are ten times as many postings.
fn assess(segment: &OpenSegment, before: Option<AssessedSegment>, version: &Version) -> Result<AssessedSegment> {
    let events = segment.segment.ids.count;
    let all = segment.segment.postings.count;
    let mut assessed =
        before.unwrap_or(AssessedSegment { share: Share { gone: 0, all }, ..AssessedSegment::default() });
    let tombstones = version.tombstones.count();
    if tombstones < assessed.tombstones + (events / ASSESSED_AGAIN).max(1) {
        return Ok(assessed);
    }
    assessed.tombstones = tombstones;
    let gone = segment.count_ids(&|seq| version.tombstones.contains(seq))?;
    if gone >= assessed.events + (events / ASSESSED_AGAIN).max(1) {
        let gone_postings = segment.count_postings(&|seq| version.tombstones.contains(seq))?;
        (assessed.events, assessed.share.gone) = (gone, gone_postings);
    }
    Ok(assessed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_store::MemoryStore;

    use super::*;
    use crate::{EventsOptions, Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};

    const SECRET: [u8; 16] = [9; 16];
    const NOTES: u64 = 2400;

    fn event(kind: u16, number: u64, tags: Vec<Tag>) -> VerifiedEvent {
        let unsigned = UnsignedEvent {
            created_at: Timestamp(1000 + number),
            kind: Kind(kind),
            tags,
            content: "a note of some words ".repeat(10),
        };
        unsigned.sign(&Keys::from_secret([3; 32]).unwrap())
    }

    fn deletion(notes: &[VerifiedEvent]) -> VerifiedEvent {
        let tags = notes.iter().map(|note| Tag(vec!["e".to_owned(), note.id.to_string()]));
        event(5, NOTES, tags.collect())
    }

    fn open(store: &Arc<MemoryStore>, unit_bits: u32) -> Events {
        let options = EventsOptions { memtable_events: 200, unit_bits, ..EventsOptions::default() };
        Events::open(Arc::clone(store) as _, SECRET, options).unwrap()
    }

    /// Stores notes and deletes all but the first 200, which it returns.
    fn store_and_delete(events: &Events) -> Vec<VerifiedEvent> {
        let mut notes: Vec<_> = (0..NOTES).map(|number| event(1, number, Vec::new())).collect();
        notes.chunks(100).for_each(|some| drop(events.accept(&some.iter().collect::<Vec<_>>()).unwrap()));
        let gone = notes.split_off(200);
        gone.chunks(100).for_each(|some| drop(events.accept(&[&deletion(some)]).unwrap()));
        notes
    }

    #[test]
    fn a_tombstone_that_is_added_while_others_are_written_again_is_kept() {
        let store = Arc::new(MemoryStore::new());
        let events = open(&store, 9);
        let kept = store_and_delete(&events);
        let needed = loop {
            match events.needed_tombstones().unwrap() {
                Some(needed) => break needed,
                None => assert!(events.compact().unwrap(), "too few tombstones to write them again"),
            }
        };
        events.accept(&[&deletion(&kept[..1])]).unwrap();
        events.write_tombstones_again(needed).unwrap();
        drop(events);
        let events = open(&store, 9);
        assert!(!events.has(&kept[0].id).unwrap(), "deleted");
        assert!(events.has(&kept[1].id).unwrap(), "not deleted");
    }

    #[test]
    fn upkeep_ends_when_more_units_are_wholly_gone_than_one_step_assesses() {
        let events = open(&Arc::new(MemoryStore::new()), 6);
        let kept = store_and_delete(&events);
        let steps = (0..1000).take_while(|_| events.compact().unwrap()).count();
        assert!(steps < 1000, "still at work after {steps} steps");
        assert!(events.unreclaimed_events() < NOTES / 20);
        assert!(kept.iter().all(|note| events.has(&note.id).unwrap()));
    }
}
