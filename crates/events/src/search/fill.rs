//! Filling the full-text index from the log, piece by piece, on the caller's thread. Writers of events never wait for
//! it.

use parking_lot::MutexGuard;

use super::SearchIndex;
use super::index::{Engine, Logged};
use super::queue::has_words;
use super::storage::SearchStorage;
use crate::error::{Error, Result};
use crate::event::{EventId, Seq};
use crate::log::{Head, Location, LogReader, Packed};
use crate::state::Reader;
use crate::text::text_of;

/// Events whose heads are read together.
const PIECE: u64 = 1024;
/// Bytes of events that one call indexes; its last event may go beyond.
const CALL_BYTES: u64 = 4 << 20;

/// Exclusive right to fill the index.
pub(crate) struct Filler<'a> {
    index: &'a SearchIndex,
    /// `None` while the index is closed: before its first use, and after a failure.
    engine: MutexGuard<'a, Option<Engine>>,
}

impl SearchIndex {
    /// Waits until no one else fills the index. Create the reader afterwards, so that it sees every event that is
    /// indexed.
    pub(crate) fn filler(&self) -> Filler<'_> {
        Filler { index: self, engine: self.engine.lock() }
    }
}

// === impl Filler ===

impl Filler<'_> {
    /// Indexes up to `most` more events, fewer if they are large; returns the number of events that remain.
    pub(crate) fn fill(&mut self, reader: Reader<'_>, most: u64) -> Result<u64> {
        self.with_engine(reader, |engine| {
            let stop = Seq(engine.next.0.saturating_add(most)).min(reader.end);
            let mut left = CALL_BYTES;
            while engine.next < stop && left > 0 {
                let piece_end = Seq(engine.next.0 + PIECE).min(stop);
                let seqs = || (engine.next.0..piece_end.0).map(Seq);
                // The heads of others may be gone.
                let live: Vec<Seq> = seqs().filter(|seq| !reader.tombstones.contains(*seq)).collect();
                let heads = reader.log.heads(live.iter().copied())?;
                let mut fits = |head: &Head| {
                    let fits = left > 0;
                    left = left.saturating_sub(head.bytes().into());
                    fits
                };
                let count = heads.iter().take_while(|head| fits(head)).count();
                for (seq, head) in live.iter().zip(&heads[..count]) {
                    add(engine, reader, *seq, head)?;
                }
                engine.next = live.get(count).copied().unwrap_or(piece_end);
            }
            Ok(reader.end.0 - engine.next.0)
        })
    }

    /// Commits the index, without tombstoned events, and installs it for searches. `settle` waits until the events of
    /// the reader are durable.
    pub(crate) fn commit(&mut self, reader: Reader<'_>, settle: impl FnOnce() -> Result<()>) -> Result<()> {
        let index = self.index;
        self.with_engine(reader, |engine| {
            let has_new_tombstones = reader.tombstones.count() != engine.deleted;
            if engine.next == engine.committed && !has_new_tombstones {
                return Ok(());
            }
            if has_new_tombstones {
                engine.delete_tombstoned(reader.tombstones.clone())?;
            }
            let last = engine.next.0.checked_sub(1).map(|last| id_of(reader.log, Seq(last))).transpose()?.flatten();
            // An event that the index names must not be lost from the log.
            settle()?;
            engine.commit(last)?;
            index.install(Some(engine.snapshot()?));
            Ok(())
        })
    }

    /// Runs some work on the index. Opens the index first if it is closed, and closes it if the work fails.
    fn with_engine<T>(&mut self, reader: Reader<'_>, work: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        if self.index.take_damage() {
            self.engine.take();
            self.index.install(None);
            if let SearchStorage::Folder(folder) = &self.index.storage {
                *self.engine = Some(Engine::new_in(folder)?);
            }
        }
        let mut engine = if let Some(engine) = self.engine.take() {
            engine
        } else {
            let logged = |seq: Seq| match (seq < reader.end).then(|| id_of(reader.log, seq)) {
                Some(Ok(Some(id))) => Logged::Event(id),
                Some(Ok(None)) => Logged::Gone,
                Some(Err(_)) | None => Logged::Nothing,
            };
            let engine = Engine::open(&self.index.storage, &logged)?;
            self.index.install(Some(engine.snapshot()?));
            engine
        };
        let done = work(&mut engine)?;
        *self.engine = Some(engine);
        Ok(done)
    }
}

/// Adds an event to the index, if it has words.
fn add(engine: &mut Engine, reader: Reader<'_>, seq: Seq, head: &Head) -> Result<()> {
    let event = |packed: Packed<'_>| packed.kind().is_text().then(|| packed.to_event());
    let Some(event) = reader.log.visit(seq, head, event)? else { return Ok(()) };
    let event = event.ok_or(Error::CorruptEvent(seq))?;
    if let Some(text) = text_of(&event).filter(|text| has_words(text)) {
        engine.add(&event, seq, &text)?;
    }
    Ok(())
}

/// Returns the id of an event; `None` if the event is gone.
fn id_of(log: LogReader<'_>, seq: Seq) -> Result<Option<EventId>> {
    if log.moved().locate(seq) == Location::Gone {
        return Ok(None);
    }
    Ok(Some(EventId(log.heads([seq])?[0].id)))
}
