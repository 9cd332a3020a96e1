//! Flush of the memtable, and compaction of segments.

use std::sync::Arc;

use parking_lot::RwLock;

use super::reclaim::choose_segment;
use super::{Events, Writer};
use crate::error::Result;
use crate::postings::compaction::context::CompactionContext;
use crate::postings::{Memtable, OpenSegment, Segment, SegmentOffsets, compaction};
use crate::state::{Manifest, Version};

impl Events {
    /// Returns the number of events in segments that lack posting lists which the options ask for.
    /// [`compact`](Self::compact) adds them.
    pub fn unindexed_events(&self) -> u64 {
        let version = self.installed();
        let lacking = version.segments.iter().filter(|segment| self.lacks_lists(segment));
        lacking.map(|segment| segment.segment.ids.count).sum()
    }

    /// Runs one compaction beside readers and the writer: merges segments, adds the posting lists that a segment lacks,
    /// or takes a step toward giving back the space of events that are gone. Returns false if there was nothing to do.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept) if the new segment cannot be published. Any other error leaves everything as it
    /// was.
    pub fn compact(&self) -> Result<bool> {
        self.compact_while(&|| true)
    }

    /// Compacts as [`compact`](Self::compact) does. A rewrite of segments ends when `go_on` returns false.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact); [`Error::Stopped`](crate::Error::Stopped) if `go_on` ended it.
    pub fn compact_while(&self, go_on: &dyn Fn() -> bool) -> Result<bool> {
        let mut upkeep = self.upkeep.lock();
        let version = self.installed();
        let sizes: Vec<(u64, bool)> = version.segments.iter().map(|segment| self.size_of(segment)).collect();
        let mut chosen = compaction::choose(&sizes, self.options.memtable_events as u64);
        if chosen.is_none() {
            chosen = choose_segment(&mut upkeep, &version)?.map(|index| vec![index]);
        }
        let Some(chosen) = chosen else {
            drop(version);
            return self.reclaim_step(&mut upkeep);
        };
        let chosen: Vec<Arc<OpenSegment>> =
            chosen.into_iter().map(|index| Arc::clone(&version.segments[index])).collect();
        let added = compaction::missing_postings(self.context(&version), &chosen)?;
        let reserved = self.change(|writer| {
            let reserved = compaction::reserve(&chosen, added, writer.segments_end);
            writer.segments_end = reserved.end();
            Ok(reserved)
        })?;
        // If the rewrite fails, the next sweep gives the reserved space back.
        let segment = compaction::rewrite(self.context(&version), &chosen, added, &reserved, go_on)?;
        drop(version);
        self.change(|writer| self.replace(writer, chosen, segment))?;
        Ok(true)
    }

    /// Flushes the memtable if it has as many events or as much memory as it may have.
    pub(super) fn flush_if_full(&self, writer: &mut Writer) -> Result<()> {
        let is_full = {
            let version = self.installed();
            let memtable = version.memtable.read();
            let events = memtable.end().0 - writer.manifest.memtable_first.0;
            events >= self.options.memtable_events as u64 || memtable.bytes() >= self.options.memtable_bytes
        };
        if is_full {
            self.finish_vanishing(writer)?;
            self.flush(&mut writer.manifest, &mut writer.segments_end)?;
        }
        Ok(())
    }

    /// Writes the memtable as a segment and installs an empty one.
    fn flush(&self, manifest: &mut Manifest, segments_end: &mut SegmentOffsets) -> Result<()> {
        let version = self.installed();
        let (segment, end) = {
            let memtable = version.memtable.read();
            (compaction::flush(self.context(&version), &memtable, *segments_end)?, memtable.end())
        };
        (*segments_end, manifest.memtable_first) = (segment.end(), end);
        manifest.segments.push(segment);
        self.store.publish(&manifest.encode())?;
        let opened = Arc::new(self.arrays.segment(segment)?);
        let mut installed = self.installed.write();
        installed.memtable = Arc::new(RwLock::new(Memtable::new(end)));
        installed.segments = installed.segments.iter().cloned().chain([opened]).collect();
        Ok(())
    }

    /// Publishes and installs a segment in place of those that it was made of.
    fn replace(&self, writer: &mut Writer, chosen: Vec<Arc<OpenSegment>>, segment: Segment) -> Result<()> {
        let is_chosen = |segment: &Segment| chosen.iter().any(|one| one.segment == *segment);
        writer.manifest.segments.retain(|segment| !is_chosen(segment));
        let has_events = segment.ids.count > 0;
        writer.manifest.segments.extend(has_events.then_some(segment));
        self.store.publish(&writer.manifest.encode())?;
        let opened = if has_events { Some(Arc::new(self.arrays.segment(segment)?)) } else { None };
        {
            let mut installed = self.installed.write();
            let kept = installed.segments.iter().filter(|one| !is_chosen(&one.segment)).cloned();
            installed.segments = kept.chain(opened).collect();
        }
        let mut retired = self.retired.lock();
        retired.extend(chosen);
        // Segments that readers still use stay until the next compaction.
        retired.retain(|segment| Arc::strong_count(segment) > 1);
        let used = writer.manifest.segments.iter().chain(retired.iter().map(|segment| &segment.segment));
        self.arrays.sweep(used, writer.segments_end)?;
        // Space is freed by a publish.
        Ok(self.store.publish(&writer.manifest.encode())?)
    }

    /// Returns the size of a segment in events of the usual number of postings, and whether it lacks posting lists.
    fn size_of(&self, segment: &OpenSegment) -> (u64, bool) {
        (compaction::size(&segment.segment), self.lacks_lists(segment))
    }

    fn lacks_lists(&self, segment: &OpenSegment) -> bool {
        !self.index.letters.without(segment.segment.letters).is_empty()
    }

    fn context<'a>(&'a self, version: &'a Version) -> CompactionContext<'a> {
        let log = version.log();
        CompactionContext { log, index: &self.index, arrays: &self.arrays, tombstones: &version.tombstones }
    }
}
