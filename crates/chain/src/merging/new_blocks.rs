//! New blocks as a merge takes them: by script, and by the hash of each transaction.

use std::ops::Range;

use crate::build::{PARTITION_BITS, Record, ScriptState};
use crate::error::Result;
use crate::merging::fresh::{Fresh, add};
use crate::merging::spooled::Spooled;
use crate::names::{KeyLength, ScriptKey, TxNum};
use crate::rows::{Part, Share};

/// Blocks after those of a snapshot, which have no rows yet.
pub(crate) enum NewBlocks {
    /// In memory.
    Fresh(Fresh),
    /// On disk.
    Spooled(Spooled),
}

/// The scripts of a share, ascending by key.
pub(super) struct NewScripts<'a> {
    blocks: &'a NewBlocks,
    /// Partitions that are not sorted yet.
    partitions: Range<usize>,
    /// The records of a partition, of which those from `at` on are left.
    records: Vec<Record>,
    at: usize,
    /// The state of one script, kept for its memory.
    state: ScriptState,
}

impl NewBlocks {
    /// About the number of distinct scripts.
    pub(crate) fn scripts_about(&self) -> u64 {
        match self {
            Self::Fresh(fresh) => fresh.scripts_about(),
            Self::Spooled(spooled) => spooled.scripts_about(),
        }
    }

    /// The scripts of a share.
    pub(super) fn scripts(&self, share: Share) -> Result<NewScripts<'_>> {
        let (partitions, records) = (share.partitions(PARTITION_BITS), Vec::new());
        let mut scripts = NewScripts { blocks: self, partitions, records, at: 0, state: ScriptState::default() };
        scripts.sort_next()?;
        Ok(scripts)
    }

    /// The records of a partition by script, then in the order of the chain.
    fn partition(&self, number: usize) -> Result<Vec<Record>> {
        match self {
            Self::Fresh(fresh) => Ok(fresh.partition(number)),
            Self::Spooled(spooled) => spooled.partition(number),
        }
    }

    /// The part of each hash of a share that packs keep, with the txnum; ascending, in lists that follow each other.
    pub(super) fn kept_hashes(
        &self,
        key_length: KeyLength,
        share: Share,
    ) -> Box<dyn Iterator<Item = Result<Vec<(u64, TxNum)>>> + '_> {
        match self {
            Self::Fresh(fresh) => Box::new(std::iter::once_with(move || Ok(fresh.kept_hashes(key_length, share)))),
            Self::Spooled(spooled) => Box::new(spooled.kept_hashes(share)),
        }
    }
}

impl NewScripts<'_> {
    /// The key of the next script.
    pub(super) fn key(&self) -> Option<ScriptKey> {
        self.records.get(self.at).map(Record::key)
    }

    /// Adds what the blocks do to the next script to its part, if it has this key.
    ///
    /// # Errors
    /// Failures of reading spooled records; [`Error::UnknownCoin`](crate::error::Error::UnknownCoin) where these spend
    /// an output that none of them funds.
    pub(super) fn add_to(&mut self, key: ScriptKey, part: &mut Part) -> Result<()> {
        let left = &self.records[self.at..];
        let same = left.iter().take_while(|record| record.key() == key).count();
        if same == 0 {
            return Ok(());
        }
        match self.blocks {
            NewBlocks::Fresh(_) => add(&left[..same], part),
            NewBlocks::Spooled(_) => Spooled::add(&left[..same], &mut self.state, part)?,
        }
        self.at += same;
        if self.at == self.records.len() { self.sort_next() } else { Ok(()) }
    }

    /// Sorts the next partition that has records.
    fn sort_next(&mut self) -> Result<()> {
        (self.records, self.at) = (Vec::new(), 0);
        while self.records.is_empty()
            && let Some(number) = self.partitions.next()
        {
            self.records = self.blocks.partition(number)?;
        }
        Ok(())
    }
}
