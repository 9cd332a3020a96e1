//! The cache of chunks: records of arrays that were read lately, up to a number of bytes.
//!
//! Records that a manifest covers never change, but others of the same chunk may be written later. So an entry knows
//! which of its bytes somebody has asked for, and answers for these alone. A cut is the one exception: an array counts
//! its cuts, and each count has entries of its own.

use std::ops::Range;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::layout::CHUNK_BYTES;

/// Memory of an entry beside its bytes, an estimate.
const ENTRY_BYTES: u64 = 120;

/// The array, the number of its cuts, and the chunk.
type ChunkId = (Arc<str>, u32, u64);

/// A chunk, and those of its bytes that were asked for.
#[derive(Debug, Clone)]
struct Known {
    bytes: Arc<[u8]>,
    asked: Range<usize>,
}

/// Chunks; those that were not used lately leave first.
#[derive(Debug)]
pub(super) struct ChunkCache(Cache<ChunkId, Known, ByBytes>);

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<ChunkId, Known> for ByBytes {
    fn weight(&self, _: &ChunkId, known: &Known) -> u64 {
        known.bytes.len() as u64 + ENTRY_BYTES
    }
}

impl Known {
    fn touches(&self, asked: &Range<usize>) -> bool {
        self.asked.start <= asked.end && asked.start <= self.asked.end
    }

    /// Returns false for bytes that were read before somebody wrote what was asked for here.
    fn agrees(&self, bytes: &[u8]) -> bool {
        bytes.get(self.asked.clone()) == self.bytes.get(self.asked.clone())
    }
}

impl ChunkCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        let chunks = usize::try_from(bytes_max / CHUNK_BYTES as u64).unwrap_or(usize::MAX).max(1);
        Self(Cache::with_weighter(chunks, bytes_max, ByBytes))
    }

    /// Returns a chunk in which these bytes are right.
    pub(super) fn get(&self, id: &ChunkId, asked: &Range<usize>) -> Option<Arc<[u8]>> {
        let known = self.0.get(id)?;
        (known.asked.start <= asked.start && asked.end <= known.asked.end).then_some(known.bytes)
    }

    /// Keeps a chunk that was read because these bytes were asked for.
    pub(super) fn insert(&self, id: ChunkId, asked: Range<usize>, bytes: &Arc<[u8]>) {
        let asked = match self.0.get(&id) {
            Some(before) if before.touches(&asked) && before.agrees(bytes) => {
                before.asked.start.min(asked.start)..before.asked.end.max(asked.end)
            }
            _ => asked,
        };
        self.0.insert(id, Known { bytes: Arc::clone(bytes), asked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_answers_for_the_bytes_that_were_asked_for() {
        let cache = ChunkCache::new(1 << 20);
        let id = |cuts| (Arc::<str>::from("place/array"), cuts, 3);
        let (old, new): (Arc<[u8]>, Arc<[u8]>) = ([1, 2, 0, 0].into(), [1, 2, 3, 4].into());
        cache.insert(id(0), 0..2, &old);
        assert_eq!(cache.get(&id(0), &(1..2)).as_ref(), Some(&old));
        assert_eq!(cache.get(&id(0), &(1..3)), None, "somebody may have written it since");
        assert_eq!(cache.get(&id(1), &(0..2)), None, "they may have been cut off");
        cache.insert(id(0), 2..3, &new);
        assert_eq!(cache.get(&id(0), &(0..3)).as_ref(), Some(&new));
        cache.insert(id(0), 2..2, &old);
        cache.insert(id(2), 0..1, &old);
        cache.insert(id(2), 3..4, &new);
        assert_eq!(cache.get(&id(2), &(0..1)), None, "the last answer counts alone");
        cache.insert(id(3), 2..4, &new);
        cache.insert(id(3), 0..2, &old);
        assert_eq!(cache.get(&id(3), &(2..4)), None, "an answer that was late is not right there");
    }
}
