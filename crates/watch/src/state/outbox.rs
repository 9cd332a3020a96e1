//! Table `outbox`: `channel, seq u64` -> the state of a delivery. A new entry is empty: never tried.

use redb::{TableDefinition, WriteTransaction};

use crate::error::Result;
use crate::file::ChannelName;
use crate::notice::Notice;

const TABLE: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("outbox");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(TABLE)?;
    Ok(())
}

/// Adds a notice to a channel's outbox.
pub(super) fn enqueue(
    transaction: &WriteTransaction,
    channel: &ChannelName,
    notice: &Notice,
) -> Result<(), redb::Error> {
    transaction.open_table(TABLE)?.insert((channel.as_str(), notice.seq), [].as_slice())?;
    Ok(())
}
