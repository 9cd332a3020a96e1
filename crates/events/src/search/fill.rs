//! Fills the index of words from the log, piece by piece, for whoever calls. Nobody who writes events waits for it.

use std::sync::PoisonError;

use super::SearchPlace;
use super::index::Engine;
use super::text::words_of;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::events::Events;
use crate::log::Seq;

/// Events whose heads are read together.
const PIECE: u64 = 1024;

impl Events {
    /// Whether events are found by words.
    pub fn has_search(&self) -> bool {
        self.search.place != SearchPlace::Off
    }

    /// Indexes the words of up to `most` more events; how many events are left. They are found by the index after
    /// [`commit_words`](Self::commit_words).
    ///
    /// # Errors
    /// When the index fails. It goes on where it was committed last, the next time; searches go on without it.
    pub fn index_words(&self, most: u64) -> Result<u64> {
        self.with_engine(|engine| {
            let (end, dead) = (self.end(), self.dead());
            let stop = Seq(engine.next.0.saturating_add(most)).min(end);
            while engine.next < stop {
                let piece_end = Seq(engine.next.0 + PIECE).min(stop);
                let seqs = || (engine.next.0..piece_end.0).map(Seq);
                let heads = self.log.heads(seqs())?;
                for (seq, head) in seqs().zip(heads).collect::<Vec<_>>() {
                    if dead.contains(seq) {
                        continue;
                    }
                    let text = |packed: crate::packed::Packed<'_>| packed.kind().is_text().then(|| packed.to_event());
                    let Some(event) = self.log.view(seq, &head, text)? else { continue };
                    let event = event.ok_or(Error::CorruptEvent(seq))?;
                    if let Some(words) = words_of(&event).filter(|words| !words.is_empty()) {
                        engine.add(&event, seq, words)?;
                    }
                }
                engine.next = piece_end;
            }
            Ok(end.0 - engine.next.0)
        })
    }

    /// Makes the index as far as it was filled durable, without those that are dead by now, and lets searches see it. It does nothing where
    /// there is nothing new.
    ///
    /// # Errors
    /// As for [`index_words`](Self::index_words).
    pub fn commit_words(&self) -> Result<()> {
        self.with_engine(|engine| {
            let dead = self.dead();
            let has_died = dead.count() != engine.buried;
            if engine.next == engine.committed && !has_died {
                return Ok(());
            }
            if has_died {
                engine.bury(dead)?;
            }
            let last = engine.next.0.checked_sub(1).map(|last| self.id_of(Seq(last))).transpose()?;
            // The log must not forget what the index knows.
            self.settle()?;
            engine.commit(last)?;
            self.search.show(Some(engine.view()?));
            Ok(())
        })
    }

    /// Events below it are found by the index; later ones are looked through.
    pub fn words_watermark(&self) -> Seq {
        self.search.watermark()
    }

    /// Opens the index, if it is not, for some work; closes it when that fails.
    fn with_engine<T>(&self, work: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        let mut slot = self.search.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if self.search.take_damage() {
            slot.take();
            self.search.show(None);
            if let SearchPlace::Folder(folder) = &self.search.place {
                *slot = Some(Engine::new_in(folder)?);
            }
        }
        let mut engine = if let Some(engine) = slot.take() {
            engine
        } else {
            let id_of = |seq: Seq| (seq < self.end()).then(|| self.id_of(seq).ok()).flatten();
            let engine = Engine::open(&self.search.place, &id_of)?;
            self.search.show(Some(engine.view()?));
            engine
        };
        let done = work(&mut engine)?;
        *slot = Some(engine);
        Ok(done)
    }

    fn id_of(&self, seq: Seq) -> Result<EventId> {
        Ok(EventId(self.log.heads([seq])?[0].id))
    }
}
