//! Three tables of the channels.
//!
//! - `outbox`: `channel, seq u64` -> nothing: a notice of the log that a channel has not delivered yet.
//! - `alarms`: the same for alarms, so that none waits for a notice that fails.
//! - `channels`: `channel` -> its state as JSON: of the oldest entries, and what operators see.

use std::collections::HashSet;

use birdhouse_database::redb::{self, ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::{State, log};
use crate::error::{Error, Result};
use crate::file::ChannelName;
use crate::notice::Notice;

const OUTBOX: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("outbox");
const ALARMS: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("alarms");
const CHANNELS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("channels");

/// State of a channel's deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelRecord {
    /// Attempts for the oldest notice that is no alarm.
    #[serde(flatten)]
    pub(crate) usual: Attempts,
    /// Attempts for the oldest alarm.
    pub(crate) alarm: Attempts,
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
    /// The last one that was given up, until a test message arrives.
    pub(crate) last_given_up: Option<Failure>,
}

/// Attempts for an entry that have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Attempts {
    /// Their number.
    #[serde(rename = "attempts")]
    pub(crate) count: u32,
    /// Those among them that the other side answered by a refusal of the message.
    pub(crate) rejections: u32,
    /// Time of the next one, in milliseconds since 1970.
    pub(crate) next_ms: u64,
}

/// The entries of a channel that are delivered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Alarms,
    Usual,
}

/// An entry of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) queue: Queue,
    pub(crate) seq: u64,
}

/// The fate of an entry after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Remove,
}

impl Queue {
    fn table(self) -> TableDefinition<'static, (&'static str, u64), ()> {
        match self {
            Self::Alarms => ALARMS,
            Self::Usual => OUTBOX,
        }
    }
}

impl ChannelRecord {
    /// Returns the attempts for the oldest entry of a queue.
    pub(crate) fn attempts(&mut self, queue: Queue) -> &mut Attempts {
        match queue {
            Queue::Alarms => &mut self.alarm,
            Queue::Usual => &mut self.usual,
        }
    }

    /// Lets the oldest entries be tried at once, after a person has looked at the channel.
    pub(crate) fn begin_anew(&mut self) {
        (self.usual, self.alarm) = (Attempts::default(), Attempts::default());
        (self.disabled, self.last_given_up) = (None, None);
    }
}

/// A failure, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Time, in seconds since 1970.
    pub at: u64,
    /// The reason, in one line.
    pub why: String,
}

/// The oldest entry of a queue.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    /// `None` if the log has lost it: more than [`crate::limits::NOTICES_MAX`] came after it.
    pub(crate) notice: Option<Notice>,
}

/// A channel's state, and its oldest entries.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) delivery: ChannelRecord,
    pub(crate) alarm: Option<Head>,
    pub(crate) usual: Option<Head>,
}

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(OUTBOX)?;
    transaction.open_table(ALARMS)?;
    transaction.open_table(CHANNELS)?;
    Ok(())
}

/// Adds a notice to a channel's outbox.
pub(super) fn enqueue(
    transaction: &WriteTransaction,
    channel: &ChannelName,
    notice: &Notice,
) -> Result<(), redb::Error> {
    let queue = if notice.is_alarm() { Queue::Alarms } else { Queue::Usual };
    transaction.open_table(queue.table())?.insert((channel.as_str(), notice.seq), ())?;
    Ok(())
}

impl State {
    /// Returns the state of a channel, and its oldest entries.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn pending(&self, channel: &ChannelName) -> Result<Pending> {
        let (delivery, alarm, usual) = self.read(|transaction| {
            let head = |queue| head(transaction, channel, queue);
            Ok((delivery(transaction, channel)?, head(Queue::Alarms)?, head(Queue::Usual)?))
        })?;
        Ok(Pending { delivery: delivery?, alarm: alarm?, usual: usual? })
    }

    /// Returns the number of entries of a channel, and its state.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn waiting(&self, channel: &ChannelName) -> Result<Waiting> {
        let (count, delivery) = self.read(|transaction| {
            let mut count = 0;
            for queue in [Queue::Alarms, Queue::Usual] {
                count += transaction.open_table(queue.table())?.range(entries(channel))?.count();
            }
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

    /// Changes the state of a channel, and removes an entry if the change says so, in one transaction.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub(crate) fn note_attempt(
        &self,
        channel: &ChannelName,
        entry: Entry,
        change: impl FnOnce(&mut ChannelRecord) -> Fate,
    ) -> Result<()> {
        self.write(|transaction| {
            let fate = changed(transaction, channel, change)?;
            if matches!(fate, Ok(Fate::Remove)) {
                transaction.open_table(entry.queue.table())?.remove((channel.as_str(), entry.seq))?;
            }
            Ok(fate.map(drop))
        })?
    }

    /// Removes entries and states of all channels but these.
    ///
    /// # Errors
    /// Failures of the disk.
    pub(crate) fn keep_channels(&self, channels: &HashSet<&str>) -> Result<()> {
        self.write(|transaction| {
            for queue in [Queue::Alarms, Queue::Usual] {
                transaction.open_table(queue.table())?.retain(|(channel, _), ()| channels.contains(channel))?;
            }
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

fn head(
    transaction: &ReadTransaction,
    channel: &ChannelName,
    queue: Queue,
) -> Result<Result<Option<Head>>, redb::Error> {
    let table = transaction.open_table(queue.table())?;
    let Some(row) = table.range(entries(channel))?.next() else { return Ok(Ok(None)) };
    let seq = row?.0.value().1;
    let notices = log::read(transaction, seq, 1)?;
    let of = |notices: Vec<Notice>| notices.into_iter().find(|notice| notice.seq == seq);
    Ok(notices.map(|notices| Some(Head { seq, notice: of(notices) })))
}

fn delivery(transaction: &ReadTransaction, channel: &ChannelName) -> Result<Result<ChannelRecord>, redb::Error> {
    Ok(decode(transaction.open_table(CHANNELS)?.get(channel.as_str())?.as_ref().map(redb::AccessGuard::value)))
}

fn changed<T>(
    transaction: &WriteTransaction,
    channel: &ChannelName,
    change: impl FnOnce(&mut ChannelRecord) -> T,
) -> Result<Result<T>, redb::Error> {
    let mut table = transaction.open_table(CHANNELS)?;
    let found = decode(table.get(channel.as_str())?.as_ref().map(redb::AccessGuard::value));
    let mut delivery = match found {
        Ok(delivery) => delivery,
        Err(error) => return Ok(Err(error)),
    };
    let result = change(&mut delivery);
    table.insert(channel.as_str(), encode(&delivery).as_slice())?;
    Ok(Ok(result))
}

fn encode(delivery: &ChannelRecord) -> Vec<u8> {
    serde_json::to_vec(delivery).expect("its keys are texts")
}

fn decode(bytes: Option<&[u8]>) -> Result<ChannelRecord> {
    let Some(bytes) = bytes else { return Ok(ChannelRecord::default()) };
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table: "channels" })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_a_version_without_alarms_is_read() {
        let text = br#"{"attempts":3,"next_ms":7,"disabled":null,"last_delivery":5,"last_error":null,"successes":1,"given_up":2}"#;
        let record = decode(Some(text)).unwrap();
        assert_eq!((record.usual.count, record.usual.next_ms, record.alarm), (3, 7, Attempts::default()));
        assert_eq!((record.last_delivery, record.successes, record.given_up), (Some(5), 1, 2));
        assert_eq!(decode(Some(&encode(&record))).unwrap(), record);
    }
}
