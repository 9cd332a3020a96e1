//! Rows of one generation of a table: lookups and writes, pipelined inside a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::cluster::{Link, REQUESTS_AT_ONCE, failed, patiently};
use super::layout;
use crate::error::Result;
use crate::table::Table;

/// Rows in one message. Cassandra refuses messages of more than 50 KiB unless an operator changes that.
const MESSAGE_ROWS: usize = 100;
/// Bytes of rows in one message, unless one row has more.
const MESSAGE_BYTES: usize = 40 << 10;

/// One generation of a table.
#[derive(Debug, Clone)]
pub(super) struct TableRef {
    /// Place and name.
    pub(super) name: Arc<str>,
    pub(super) generation: i64,
    pub(super) bucket_bytes: usize,
}

/// A row to write, or to delete where there is no value. The key is that inside its bucket.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// Rows of one table to write, by bucket.
pub(super) type BucketChanges = BTreeMap<Vec<u8>, Vec<Change>>;

// === impl TableRef ===

impl TableRef {
    pub(super) fn new(place: &str, table: Table, generation: i64) -> Self {
        let bucket_bytes = layout::bucket_bytes(table);
        Self { name: layout::name_of(place, table.name).into(), generation, bucket_bytes }
    }

    /// Reads rows; the values stand in the order of the keys.
    pub(super) async fn get_many(self, link: Arc<Link>, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>> {
        let get = |key: Vec<u8>| self.get(&link, key);
        stream::iter(keys.into_iter().map(get)).buffered(REQUESTS_AT_ONCE).try_collect().await
    }

    async fn get(&self, link: &Link, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let (bucket, key) = layout::split(&key, self.bucket_bytes);
        let values = (&*self.name, self.generation, bucket, key);
        let found = link.send("read a row", &link.statements.get_row, values).await?;
        Ok(rows_of::<(Vec<u8>,)>(found)?.into_iter().next().map(|(value,)| value))
    }

    /// Notes buckets that may have rows from now on.
    pub(super) async fn note_buckets(&self, link: &Link, buckets: &[Vec<u8>], timestamp: i64) -> Result<()> {
        let statement = at(&link.statements.put_bucket, timestamp);
        let put = |bucket: Vec<u8>| {
            let statement = &statement;
            async move {
                let values = (&*self.name, self.generation, bucket);
                link.send("note a bucket", statement, values).await.map(drop)
            }
        };
        stream::iter(buckets.iter().cloned().map(put)).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }

    /// Writes and deletes rows of one bucket, each key once.
    async fn change(&self, link: &Link, bucket: &[u8], changes: &[Change], timestamp: i64) -> Result<()> {
        let (name, generation) = (&*self.name, self.generation);
        let put = |(key, value): &'_ Change| Some((name, generation, bucket, key.clone(), value.clone()?));
        let puts: Vec<_> = changes.iter().filter_map(put).collect();
        let deleted = changes.iter().filter(|(_, value)| value.is_none());
        let deletes: Vec<_> = deleted.map(|(key, _)| (name, generation, bucket, key.as_slice())).collect();
        send_batch(link, &link.statements.put_row, puts, timestamp).await?;
        send_batch(link, &link.statements.delete_row, deletes, timestamp).await
    }
}

/// Sends one statement with several rows of one partition in one message.
pub(super) async fn send_batch<R: SerializeRow>(
    link: &Link,
    statement: &PreparedStatement,
    rows: Vec<R>,
    timestamp: i64,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    batch.set_timestamp(Some(timestamp));
    for _ in &rows {
        batch.append_statement(statement.clone());
    }
    patiently("write rows", || link.session.batch(&batch, &rows)).await.map(drop)
}

/// Writes rows of several tables.
pub(super) async fn write(link: &Link, tables: Vec<(TableRef, BucketChanges)>, timestamp: i64) -> Result<()> {
    let messages = tables.iter().flat_map(|(table, buckets)| {
        let of_bucket = move |(bucket, changes)| messages(changes).map(move |some| (table, bucket, some));
        buckets.iter().map(|(bucket, changes)| (bucket, changes.as_slice())).flat_map(of_bucket)
    });
    let sent = messages.map(|(table, bucket, changes)| table.change(link, bucket, changes, timestamp));
    let sent: Vec<_> = sent.collect();
    stream::iter(sent).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// Splits rows into messages.
fn messages(mut changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |change: &&Change| {
            bytes += change.0.len() + change.1.as_ref().map_or(0, Vec::len);
            bytes <= MESSAGE_BYTES
        };
        let count = changes.iter().take(MESSAGE_ROWS).take_while(fits).count().max(1).min(changes.len());
        let (some, rest) = changes.split_at(count);
        changes = rest;
        (!some.is_empty()).then_some(some)
    })
}

/// Returns a statement whose writes have this timestamp.
pub(super) fn at(statement: &PreparedStatement, timestamp: i64) -> PreparedStatement {
    let mut statement = statement.clone();
    statement.set_timestamp(Some(timestamp));
    statement
}

/// The rows of a result.
pub(super) fn rows_of<R>(result: QueryResult) -> Result<Vec<R>>
where
    R: for<'frame> scylla::deserialize::row::DeserializeRow<'frame, 'frame>,
{
    let malformed = |cause: &dyn std::error::Error| failed("read an answer of the cluster", cause);
    let rows = result.into_rows_result().map_err(|cause| malformed(&cause))?;
    let rows = rows.rows::<R>().map_err(|cause| malformed(&cause))?;
    rows.collect::<std::result::Result<_, _>>().map_err(|cause| malformed(&cause))
}
