//! Table `warnings`: what a warning of the server is about -> its notice as JSON, from its beginning until its end was
//! announced.

use std::collections::BTreeMap;

use birdhouse_database::redb::{self, ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use crate::error::{Error, Result};
use crate::notice::Health;

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("warnings");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(TABLE)?;
    Ok(())
}

/// Keeps a warning that is announced, or forgets it at its end.
pub(super) fn put(transaction: &WriteTransaction, about: &str, health: &Health) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(TABLE)?;
    if health.is_over {
        table.remove(about)?;
    } else {
        table.insert(about, serde_json::to_vec(health).expect("its keys are texts").as_slice())?;
    }
    Ok(())
}

/// Returns all warnings that are announced and whose end is not.
pub(super) fn all(transaction: &ReadTransaction) -> Result<Result<BTreeMap<String, Health>>, redb::Error> {
    let table = transaction.open_table(TABLE)?;
    let mut warnings = BTreeMap::new();
    for row in table.iter()? {
        let (about, health) = row?;
        match serde_json::from_slice(health.value()) {
            Ok(health) => warnings.insert(about.value().to_owned(), health),
            Err(_) => return Ok(Err(Error::Damaged { table: "warnings" })),
        };
    }
    Ok(Ok(warnings))
}
