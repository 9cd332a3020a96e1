//! Memory that one answer takes. It is asked for before it is filled, and counts with what clients have not read.
//!
//! Beyond the bounds of `unsent-bytes` and `client-unsent-bytes` an answer gets no more, and has status 503.

use std::cell::Cell;
use std::io::{Error, ErrorKind, Write};

use birdhouse_net::{Unfinished, Unsent};
use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use crate::wire::failure::Failure;

/// Bytes by which a text grows at least, and at most unless one part of it is longer.
const GROWTH_MIN: usize = 1024;
const GROWTH_MAX: usize = 1_000_000;

/// The memory of one answer.
pub(crate) struct AnswerMemory {
    unsent: Unsent,
    taken: Mutex<Unfinished>,
}

/// Memory that is needed for a while; dropping this gives it back.
pub(crate) struct Loan<'a> {
    room: &'a AnswerMemory,
    bytes: usize,
}

/// JSON text that takes its room before it grows.
pub(crate) struct Json<'a> {
    room: &'a AnswerMemory,
    text: Vec<u8>,
}

/// A JSON list whose items are made one after the other as they are written.
pub(crate) struct Each<I>(Cell<Option<I>>);

impl AnswerMemory {
    /// Nothing yet.
    pub(crate) fn new(unsent: Unsent) -> Self {
        Self { taken: Mutex::new(Unfinished::new(unsent.clone(), usize::MAX)), unsent }
    }

    /// Takes `bytes` until the answer has been read.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Failure> {
        if self.taken.lock().take(bytes) { Ok(()) } else { Err(Failure::no_memory()) }
    }

    /// Takes `bytes` until the loan is dropped.
    pub(crate) fn lend(&self, bytes: usize) -> Result<Loan<'_>, Failure> {
        self.take(bytes)?;
        Ok(Loan { room: self, bytes })
    }

    /// Gives everything back: the answer is made anew.
    pub(crate) fn clear(&self) {
        self.taken.lock().give_back(usize::MAX);
    }

    /// Returns the count of an answer of this length, which is made; nothing is left in the room.
    pub(crate) fn settle(&self, bytes: usize) -> Result<Unfinished, Failure> {
        let empty = Unfinished::new(self.unsent.clone(), usize::MAX);
        let mut taken = std::mem::replace(&mut *self.taken.lock(), empty);
        let missing = bytes.saturating_sub(taken.bytes());
        if !taken.take(missing) {
            return Err(Failure::no_memory());
        }
        taken.give_back(taken.bytes() - bytes);
        Ok(taken)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.room.taken.lock().give_back(self.bytes);
    }
}

impl<'a> Json<'a> {
    /// An empty text.
    pub(crate) fn new(room: &'a AnswerMemory) -> Self {
        Self { room, text: Vec::new() }
    }

    /// The room that it takes its memory from.
    pub(crate) fn room(&self) -> &'a AnswerMemory {
        self.room
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends a value.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_writer(&mut *self, value);
        written.map_err(|error| if error.is_io() { Failure::no_memory() } else { Failure::internal() })
    }

    /// Appends text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.grow(text.len())?;
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Appends a part of the text again.
    pub(crate) fn again(&mut self, part: std::ops::Range<usize>) -> Result<(), Failure> {
        self.grow(part.len())?;
        self.text.extend_from_within(part);
        Ok(())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// Makes room for this many bytes more.
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let capacity = self.text.capacity();
        if capacity - self.text.len() >= bytes {
            return Ok(());
        }
        let growth = capacity.clamp(GROWTH_MIN, GROWTH_MAX).max(bytes);
        self.room.take(growth)?;
        self.text.reserve_exact(growth + capacity - self.text.len());
        Ok(())
    }
}

impl Write for Json<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.grow(bytes.len()).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<I: Iterator> Each<I> {
    /// The list of these items. It can be written once.
    pub(crate) fn of(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self(Cell::new(Some(items.into_iter())))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Each<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::Ordering;

    use birdhouse_net::{Pool, SHARE_BYTES};

    use super::*;

    /// Pools of which the client's has this bound.
    fn unsent(client_max: usize) -> Unsent {
        Unsent { all: Pool::new(usize::MAX), client: Pool::new(client_max) }
    }

    fn held(unsent: &Unsent) -> usize {
        unsent.client.bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn a_list_is_refused_before_the_items_beyond_its_room_are_made() {
        let (unsent, made) = (unsent(50_000), Cell::new(0_usize));
        let room = AnswerMemory::new(unsent.clone());
        let item = |_| {
            made.set(made.get() + 1);
            "x".repeat(998)
        };
        let mut json = Json::new(&room);
        assert!(json.value(&Each::of((0..1_000_000).map(item))).is_err());
        // A pool takes at most twice its bound for what was begun.
        assert!(made.get() <= 2 * 50_000 / 1000 + 1, "{}", made.get());
        assert!(held(&unsent) <= 100_000);
        drop(json);
        drop(room);
        assert_eq!(held(&unsent), 0);
    }

    #[test]
    fn the_room_of_a_text_is_taken_before_it_grows_and_settles_at_its_length() {
        let unsent = unsent(10_000_000);
        let room = AnswerMemory::new(unsent.clone());
        let mut json = Json::new(&room);
        for at in 0..10_000 {
            json.value(&at).unwrap();
            assert!(held(&unsent) >= json.text.capacity());
        }
        json.again(0..5).unwrap();
        json.text("]").unwrap();
        let text = json.into_bytes();
        assert!(text.starts_with(b"0123") && text.ends_with(b"999901234]"));
        let counted = room.settle(text.len()).unwrap();
        assert_eq!(held(&unsent), text.len());
        drop(counted);
        assert_eq!(held(&unsent), 0);
    }

    #[test]
    fn a_loan_is_given_back_and_an_answer_that_is_made_anew_begins_with_nothing() {
        let unsent = unsent(100_000);
        let room = AnswerMemory::new(unsent.clone());
        let loan = room.lend(SHARE_BYTES + 100_000).unwrap();
        assert!(room.take(100_000).is_err());
        drop(loan);
        room.take(100_000).unwrap();
        room.clear();
        assert_eq!(held(&unsent), 0);
        assert!(room.settle(200_001).is_err());
        assert_eq!(held(&unsent), 0);
    }
}
