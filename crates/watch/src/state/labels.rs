//! Table `labels`: `kind u8, reference` -> the label as JSON.

use birdhouse_database::redb::{
    self, ReadTransaction, ReadableTable as _, ReadableTableMetadata as _, TableDefinition, WriteTransaction,
};

use crate::error::{Error, Result};
use crate::invoice::{Label, LabelKind};
use crate::limits::LABELS_MAX;

const TABLE: TableDefinition<'_, (u8, &str), &[u8]> = TableDefinition::new("labels");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(TABLE)?;
    Ok(())
}

/// Adds labels. What a label leaves out stays as it is. Returns the number of those that found no room.
pub(crate) fn put(transaction: &WriteTransaction, labels: &[Label]) -> Result<usize, redb::Error> {
    let mut table = transaction.open_table(TABLE)?;
    let mut left_out = 0;
    for label in labels {
        let key = (label.kind as u8, label.reference.as_str());
        let known = table.get(key)?.and_then(|known| decode(known.value()).ok());
        if known.is_none() && table.len()? >= LABELS_MAX {
            left_out += 1;
            continue;
        }
        let merged = known.map_or_else(|| label.clone(), |known| label.clone().over(known));
        table.insert(key, serde_json::to_vec(&merged).expect("its keys are texts").as_slice())?;
    }
    Ok(left_out)
}

/// Returns a label.
pub(crate) fn get(
    transaction: &ReadTransaction,
    kind: LabelKind,
    reference: &str,
) -> Result<Result<Option<Label>>, redb::Error> {
    let row = transaction.open_table(TABLE)?.get((kind as u8, reference))?;
    Ok(row.map(|row| decode(row.value())).transpose())
}

/// Returns all labels.
pub(crate) fn all(transaction: &ReadTransaction) -> Result<Result<Vec<Label>>, redb::Error> {
    let table = transaction.open_table(TABLE)?;
    let mut labels = Vec::new();
    for row in table.iter()? {
        match decode(row?.1.value()) {
            Ok(label) => labels.push(label),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(labels))
}

fn decode(bytes: &[u8]) -> Result<Label> {
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table: "labels" })
}
