//! Table `log`: `seq u64` -> the notice as JSON. Positions ascend from 1 and are never used twice.

use birdhouse_database::redb::{self, ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use crate::error::{Error, Result};
use crate::limits::NOTICES_MAX;
use crate::notice::Notice;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(TABLE)?;
    Ok(())
}

/// Appends a notice, sets its position and its id, and deletes the oldest beyond [`NOTICES_MAX`].
pub(super) fn append(transaction: &WriteTransaction, notice: &mut Notice) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(TABLE)?;
    let last = table.last()?.map_or(0, |(seq, _)| seq.value());
    notice.seq = last + 1;
    notice.id = notice.id_at(notice.seq);
    table.insert(notice.seq, encode(notice).as_slice())?;
    if let Some(oldest) = notice.seq.checked_sub(NOTICES_MAX) {
        table.remove(oldest)?;
    }
    Ok(())
}

pub(super) fn read(
    transaction: &ReadTransaction,
    from_seq: u64,
    count: usize,
) -> Result<Result<Vec<Notice>>, redb::Error> {
    let table = transaction.open_table(TABLE)?;
    let mut notices = Vec::new();
    for row in table.range(from_seq..)?.take(count) {
        let (_, value) = row?;
        match decode(value.value()) {
            Ok(notice) => notices.push(notice),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(notices))
}

pub(super) fn next_seq(transaction: &ReadTransaction) -> Result<u64, redb::Error> {
    Ok(transaction.open_table(TABLE)?.last()?.map_or(0, |(seq, _)| seq.value()) + 1)
}

fn encode(notice: &Notice) -> Vec<u8> {
    serde_json::to_vec(notice).expect("its keys are texts")
}

fn decode(bytes: &[u8]) -> Result<Notice> {
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table: "log" })
}
