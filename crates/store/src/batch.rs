//! Rows to write and delete together.
//!
//! One buffer holds all bytes: a block of twenty thousand rows costs two growing allocations instead of forty thousand
//! small ones.

use crate::table::Table;

/// Rows to write and delete together.
///
/// A batch need not be atomic: the manifest is the commit point. Of several operations on one key the last one holds.
#[derive(Debug, Default)]
pub struct Batch {
    /// Keys and values, one after the other, in the order of `operations`.
    bytes: Vec<u8>,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    table: Table,
    key_bytes: usize,
    /// `None` deletes the row.
    value_bytes: Option<usize>,
}

// === impl Batch ===

impl Batch {
    /// Returns a batch without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row to write.
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.push(table, key, Some(value));
    }

    /// Adds a row to delete; deleting an absent row has no effect.
    pub fn delete(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.push(table, key.as_ref(), None);
    }

    /// Returns the number of rows to write and delete.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns `true` when there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the number of bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn push(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_bytes = value.map(<[u8]>::len);
        self.operations.push(Operation { table, key_bytes: key.len(), value_bytes });
    }

    /// Returns table, key and value (`None` deletes) of every operation, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        let mut left = self.bytes.as_slice();
        self.operations.iter().map(move |operation| {
            let (key, after) = left.split_at(operation.key_bytes);
            let (value, after) = after.split_at(operation.value_bytes.unwrap_or(0));
            left = after;
            (operation.table, key, operation.value_bytes.map(|_| value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table { name: "rows", partition_bytes: 0, compress: false };

    #[test]
    fn operations_come_back_in_order_with_empty_values_apart_from_deletes() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.put(TABLE, b"key", vec![1, 2]);
        batch.delete(TABLE, b"gone");
        batch.put(TABLE, b"", b"");
        let all: Vec<_> = batch.iter().map(|(_, key, value)| (key, value)).collect();
        assert_eq!(all[0], (b"key".as_slice(), Some([1, 2].as_slice())));
        assert_eq!(all[1], (b"gone".as_slice(), None));
        assert_eq!(all[2], (b"".as_slice(), Some(b"".as_slice())));
        assert_eq!((batch.len(), batch.bytes()), (3, 9));
    }
}
