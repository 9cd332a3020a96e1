//! Events that are in the log and not to be found any more: replaced, deleted or vanished.
//!
//! ```text
//! array `dead`  u48 LE of the event | u48 LE of the event that ended it      12 bytes
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::{Array, ArraySpec, Store};

use crate::error::Result;
use crate::log::Seq;

const DEAD: ArraySpec = ArraySpec { name: "dead", record_bytes: 12 };

/// Words of a chunk: those of a million events.
const CHUNK_WORDS: usize = 1 << 14;

/// An event that ends another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) of: Seq,
    pub(crate) by: Seq,
}

/// One bit for each event. A clone shows what is added later, as far as its chunks were there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dead {
    chunks: Arc<Vec<Arc<[AtomicU64]>>>,
    count: u64,
}

/// The array of deaths.
pub(crate) struct Deaths(Arc<dyn Array>);

impl Deaths {
    /// Opens the array, and cuts what was not published.
    pub(crate) fn open(store: &dyn Store, len: u64) -> Result<Self> {
        let array = store.array(DEAD)?;
        array.truncate(len)?;
        Ok(Self(array))
    }

    pub(crate) fn load(&self) -> Result<Dead> {
        let mut dead = Dead::default();
        let count = usize::try_from(self.0.len()).expect("it is in memory, too");
        self.0.view_run(0, count, &mut |bytes| {
            let (records, _) = bytes.as_chunks::<12>();
            for record in records {
                dead.add(Seq::from_bytes(*record.first_chunk().expect("a record is longer")));
            }
        })?;
        Ok(dead)
    }

    pub(crate) fn append(&self, end: u64, deaths: &[Death]) -> Result<u64> {
        let records = deaths.iter().flat_map(|death| [death.of.to_bytes(), death.by.to_bytes()]);
        self.0.write(end, records.collect::<Vec<_>>().as_flattened())?;
        Ok(end + deaths.len() as u64)
    }
}

impl Dead {
    pub(crate) fn contains(&self, seq: Seq) -> bool {
        let (chunk, word, bit) = place(seq);
        self.chunks.get(chunk).is_some_and(|words| words[word].load(Ordering::Relaxed) >> bit & 1 == 1)
    }

    pub(crate) fn add(&mut self, seq: Seq) {
        let (chunk, word, bit) = place(seq);
        while self.chunks.len() <= chunk {
            Arc::make_mut(&mut self.chunks).push((0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        let before = self.chunks[chunk][word].fetch_or(1 << bit, Ordering::Relaxed);
        self.count += u64::from(before >> bit & 1 == 0);
    }

    /// It was not to be dead after all.
    pub(crate) fn remove(&mut self, seq: Seq) {
        let (chunk, word, bit) = place(seq);
        if let Some(words) = self.chunks.get(chunk) {
            let before = words[word].fetch_and(!(1 << bit), Ordering::Relaxed);
            self.count -= before >> bit & 1;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

fn place(seq: Seq) -> (usize, usize, u64) {
    let word = usize::try_from(seq.0 / 64).expect("one bit for each event is in memory");
    (word / CHUNK_WORDS, word % CHUNK_WORDS, seq.0 % 64)
}
