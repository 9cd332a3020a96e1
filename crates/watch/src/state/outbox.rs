//! Two tables of the channels.
//!
//! - `outbox`: `channel, seq u64` -> nothing: a notice of the log that a channel has not delivered yet.
//! - `channels`: `channel` -> its state as JSON: of its oldest entry, and what operators see.

use std::collections::HashSet;

use redb::{ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::{State, log};
use crate::error::{Error, Result};
use crate::file::ChannelName;
use crate::notice::Notice;

const OUTBOX: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("outbox");
const CHANNELS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("channels");

/// State of a channel's deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelRecord {
    /// Attempts for the oldest entry that have failed.
    pub(crate) attempts: u32,
    /// Time of the next attempt, in milliseconds since 1970.
    pub(crate) next_ms: u64,
    /// The reason why the channel is not used.
    pub(crate) disabled: Option<String>,
    /// Time of the last delivery, in seconds since 1970.
    pub(crate) last_delivery: Option<u64>,
    /// The last failure.
    pub(crate) last_error: Option<Failure>,
    /// Deliveries so far.
    pub(crate) successes: u64,
    /// Entries that were given up.
    pub(crate) given_up: u64,
}

/// A failure, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Time, in seconds since 1970.
    pub at: u64,
    /// The reason, in one line.
    pub why: String,
}

/// The oldest entry of an outbox.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    /// `None` if the log has lost it: more than [`crate::limits::NOTICES_MAX`] came after it.
    pub(crate) notice: Option<Notice>,
}

/// A channel's state, and its oldest entry.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) delivery: ChannelRecord,
    pub(crate) head: Option<Head>,
}

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(OUTBOX)?;
    transaction.open_table(CHANNELS)?;
    Ok(())
}

/// Adds a notice to a channel's outbox.
pub(super) fn enqueue(
    transaction: &WriteTransaction,
    channel: &ChannelName,
    notice: &Notice,
) -> Result<(), redb::Error> {
    transaction.open_table(OUTBOX)?.insert((channel.as_str(), notice.seq), ())?;
    Ok(())
}

impl State {
    /// Returns the state of a channel, and its oldest entry.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn pending(&self, channel: &ChannelName) -> Result<Pending> {
        let (delivery, seq, notices) = self.read(|transaction| {
            let seq = match transaction.open_table(OUTBOX)?.range(entries(channel))?.next() {
                Some(row) => Some(row?.0.value().1),
                None => None,
            };
            let notices = seq.map(|seq| log::read(transaction, seq, 1)).transpose()?;
            Ok((delivery(transaction, channel)?, seq, notices))
        })?;
        let notice = notices.transpose()?.into_iter().flatten().find(|notice| Some(notice.seq) == seq);
        Ok(Pending { delivery: delivery?, head: seq.map(|seq| Head { seq, notice }) })
    }

    /// Returns the number of entries of a channel, and its state.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn waiting(&self, channel: &ChannelName) -> Result<Waiting> {
        let (count, delivery) = self.read(|transaction| {
            let count = transaction.open_table(OUTBOX)?.range(entries(channel))?.count();
            Ok((count, delivery(transaction, channel)?))
        })?;
        Ok(Waiting { count, delivery: delivery? })
    }

    /// Changes the state of a channel.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn change_delivery(&self, channel: &ChannelName, change: impl FnOnce(&mut ChannelRecord)) -> Result<()> {
        self.write(|transaction| changed(transaction, channel, change))?
    }

    /// Changes the state of a channel and removes an entry, in one transaction.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn remove_entry(
        &self,
        channel: &ChannelName,
        seq: u64,
        change: impl FnOnce(&mut ChannelRecord),
    ) -> Result<()> {
        self.write(|transaction| {
            transaction.open_table(OUTBOX)?.remove((channel.as_str(), seq))?;
            changed(transaction, channel, change)
        })?
    }

    /// Removes entries and states of all channels but these.
    ///
    /// # Errors
    /// Failures of the disk.
    pub(crate) fn keep_channels(&self, channels: &HashSet<&str>) -> Result<()> {
        self.write(|transaction| {
            transaction.open_table(OUTBOX)?.retain(|(channel, _), ()| channels.contains(channel))?;
            transaction.open_table(CHANNELS)?.retain(|channel, _| channels.contains(channel))?;
            Ok(())
        })
    }
}

/// A channel's state, and the number of its entries.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) count: usize,
    pub(crate) delivery: ChannelRecord,
}

fn entries(channel: &ChannelName) -> std::ops::RangeInclusive<(&str, u64)> {
    (channel.as_str(), 0)..=(channel.as_str(), u64::MAX)
}

fn delivery(transaction: &ReadTransaction, channel: &ChannelName) -> Result<Result<ChannelRecord>, redb::Error> {
    Ok(decode(transaction.open_table(CHANNELS)?.get(channel.as_str())?.as_ref().map(redb::AccessGuard::value)))
}

fn changed(
    transaction: &WriteTransaction,
    channel: &ChannelName,
    change: impl FnOnce(&mut ChannelRecord),
) -> Result<Result<()>, redb::Error> {
    let mut table = transaction.open_table(CHANNELS)?;
    let found = decode(table.get(channel.as_str())?.as_ref().map(redb::AccessGuard::value));
    let mut delivery = match found {
        Ok(delivery) => delivery,
        Err(error) => return Ok(Err(error)),
    };
    change(&mut delivery);
    table.insert(channel.as_str(), encode(&delivery).as_slice())?;
    Ok(Ok(()))
}

fn encode(delivery: &ChannelRecord) -> Vec<u8> {
    serde_json::to_vec(delivery).expect("its keys are texts")
}

fn decode(bytes: Option<&[u8]>) -> Result<ChannelRecord> {
    let Some(bytes) = bytes else { return Ok(ChannelRecord::default()) };
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table: "channels" })
}
