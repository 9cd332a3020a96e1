//! Bytes that wait in pieces: small ones are joined, long ones lie where they were made.

use std::collections::VecDeque;

/// Joined pieces are no longer than this.
const JOINED_BYTES: usize = 64 << 10;
/// So little is not written for itself, however long what follows.
const ALONE_BYTES_MIN: usize = 1 << 10;

/// Pieces, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    earlier: VecDeque<Vec<u8>>,
    /// Empty when there is none.
    last: Vec<u8>,
    bytes: usize,
    /// Of a piece that was written: the next ones that are joined need no fresh memory.
    spare: Vec<u8>,
}

impl Chunks {
    /// All bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds a piece at the end.
    pub(super) fn add(&mut self, piece: Vec<u8>) {
        self.bytes += piece.len();
        if self.last.is_empty() {
            self.last = piece;
        } else if self.last.len() < ALONE_BYTES_MIN || self.last.len() + piece.len() <= JOINED_BYTES {
            let joined = self.last.len() + piece.len();
            if self.last.capacity() < joined && joined <= self.spare.capacity() {
                self.spare.extend_from_slice(&self.last);
                self.last = std::mem::take(&mut self.spare);
            }
            self.last.extend_from_slice(&piece);
        } else {
            self.earlier.push_back(std::mem::replace(&mut self.last, piece));
        }
    }

    /// Adds a little to the last piece.
    pub(super) fn end_with(&mut self, little: impl FnOnce(&mut Vec<u8>)) {
        let before = self.last.len();
        little(&mut self.last);
        self.bytes += self.last.len() - before;
    }

    /// Adds the pieces of `others` at the end.
    pub(super) fn append(&mut self, others: Self) {
        for piece in others.earlier.into_iter().chain([others.last]) {
            self.add(piece);
        }
    }

    /// Takes the first piece.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.earlier.pop_front().unwrap_or_else(|| std::mem::take(&mut self.last));
        self.bytes -= piece.len();
        (!piece.is_empty()).then_some(piece)
    }

    /// Keeps the memory of a piece that is written, or gives what is not worth it back: that of a long one takes long
    /// to free.
    pub(super) fn reuse(&mut self, mut written: Vec<u8>) -> Vec<u8> {
        if !(self.spare.capacity()..=2 * JOINED_BYTES).contains(&written.capacity()) {
            return written;
        }
        written.clear();
        std::mem::replace(&mut self.spare, written)
    }

    /// Gives that memory back.
    pub(super) fn rest(&mut self) {
        self.spare = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(mut chunks: Chunks) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| chunks.pop()).collect()
    }

    #[test]
    fn what_is_long_stays_where_it_is() {
        let long = vec![b'x'; 2 * JOINED_BYTES];
        let address = long.as_ptr();
        let mut chunks = Chunks::default();
        chunks.add(vec![b'y'; ALONE_BYTES_MIN]);
        chunks.add(long);
        assert_eq!(pieces(chunks)[1].as_ptr(), address);
    }

    #[test]
    fn what_is_joined_takes_the_memory_of_what_is_written() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.reuse(Vec::with_capacity(4 * JOINED_BYTES)).capacity(), 4 * JOINED_BYTES);
        let written = Vec::with_capacity(JOINED_BYTES);
        let address = written.as_ptr();
        assert_eq!(chunks.reuse(written).capacity(), 0);
        assert_eq!(chunks.reuse(Vec::with_capacity(10)).capacity(), 10);
        chunks.add(b"one".to_vec());
        chunks.add(b"two".to_vec());
        let joined = chunks.pop();
        assert_eq!(joined.as_deref(), Some(&b"onetwo"[..]));
        assert_eq!(joined.map(|joined| joined.as_ptr()), Some(address));
        drop(chunks.reuse(Vec::with_capacity(JOINED_BYTES)));
        chunks.rest();
        assert_eq!(chunks.spare.capacity(), 0);
    }

    proptest! {
        #[test]
        fn all_bytes_come_out_in_their_order(
            lens in proptest::collection::vec(prop_oneof![0usize..3, 900usize..1100, 60_000usize..140_000], 0..12),
            cut in 0usize..12,
        ) {
            let some: Vec<Vec<u8>> = (0u8..).zip(&lens).map(|(byte, len)| vec![byte; *len]).collect();
            let (mut all, mut others) = (Chunks::default(), Chunks::default());
            for (index, piece) in some.iter().enumerate() {
                if index < cut { all.add(piece.clone()) } else { others.add(piece.clone()) }
            }
            others.end_with(|last| last.push(b'\n'));
            all.append(others);
            let expected = [some.concat(), b"\n".to_vec()].concat();
            prop_assert_eq!(all.len(), expected.len());
            let pieces = pieces(all);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            // Two that are neighbours are not both little.
            prop_assert!(pieces.windows(2).all(|two| two[0].len() >= ALONE_BYTES_MIN));
            prop_assert_eq!(pieces.concat(), expected);
        }
    }
}
