//! Nostream's table `events`, in every version: the database lists its columns, and absent ones are not needed.
//!
//! Seven columns hold the signed fields and exist since the first version (May 2022); `deleted_at` came in August 2022,
//! `expires_at` in February 2023.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use postgres::Client;

/// Largest size of a row's tags and content, in bytes.
pub(super) const ROW_BYTES_MAX: usize = 16 << 20;

/// Columns of the signed fields, with their type where it must be `bytea`.
const SIGNED: [(&str, Option<&str>); 7] = [
    ("event_id", Some("bytea")),
    ("event_pubkey", Some("bytea")),
    ("event_created_at", None),
    ("event_kind", None),
    ("event_tags", None),
    ("event_content", None),
    ("event_signature", Some("bytea")),
];

/// Selects schema, name and type of the columns of every table `events`.
const COLUMNS: &str = "SELECT table_schema::text, column_name::text, udt_name::text FROM information_schema.columns \
     WHERE table_name = 'events' AND table_schema::text = ANY(current_schemas(false)::text[]) \
     ORDER BY array_position(current_schemas(false)::text[], table_schema::text)";

/// A table of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Quoted, with the schema.
    name: String,
    has_soft_deletes: bool,
    has_expirations: bool,
}

impl Table {
    /// Finds the table, and its optional columns.
    pub(super) fn find(client: &mut Client) -> Result<Self> {
        let rows = client.query(COLUMNS, &[]).context("failed to list the tables")?;
        let mut columns = BTreeMap::new();
        let mut schema: Option<String> = None;
        for row in &rows {
            // Only the first schema of the search path that has such a table.
            let of: String = row.try_get(0)?;
            if schema.get_or_insert_with(|| of.clone()) == &of {
                columns.insert(row.try_get(1)?, row.try_get(2)?);
            }
        }
        match schema {
            Some(schema) => Self::of(&schema, &columns),
            None => bail!("no table `events` that this user may read; is this the database of a Nostream?"),
        }
    }

    fn of(schema: &str, columns: &BTreeMap<String, String>) -> Result<Self> {
        for (name, type_name) in SIGNED {
            match (columns.get(name), type_name) {
                (None, _) => {
                    bail!("no column `{name}` that this user may read in the table `events`; is it a Nostream's?")
                }
                (Some(found), Some(wanted)) if found != wanted => {
                    bail!("column `{name}` of the table `events` is {found}, not {wanted}; is it a Nostream's?")
                }
                _ => {}
            }
        }
        let has = |name| columns.contains_key(name);
        let name = format!("\"{}\".events", schema.replace('"', "\"\""));
        Ok(Self { name, has_soft_deletes: has("deleted_at"), has_expirations: has("expires_at") })
    }

    /// Returns the query for the number of rows.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }

    /// Returns the query for the next ids from `$1` on, below `$2`.
    pub(super) fn ids(&self, page: usize) -> String {
        let name = &self.name;
        format!("SELECT event_id FROM {name} WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id LIMIT {page}")
    }

    /// Returns the query for the rows of the ids `$1`, in the form that [`Row`](super::row::Row) reads.
    pub(super) fn rows(&self) -> String {
        let name = &self.name;
        let (deleted, expires) = (self.deleted(), if self.has_expirations { "e.expires_at" } else { "NULL" });
        // OFFSET 0 keeps PostgreSQL from converting the tags to text for each use.
        format!(
            "SELECT e.event_id, e.event_pubkey, e.event_created_at::int8, e.event_kind::int8, \
             CASE WHEN sizes.is_fit THEN texts.tags END, CASE WHEN sizes.is_fit THEN texts.content END, \
             e.event_signature, {deleted}, {expires}::int8 FROM {name} e \
             CROSS JOIN LATERAL (SELECT coalesce(e.event_tags::text, '[]') AS tags, e.event_content::text AS content \
             OFFSET 0) texts CROSS JOIN LATERAL (SELECT octet_length(texts.tags) + octet_length(texts.content) \
             <= {ROW_BYTES_MAX} AS is_fit OFFSET 0) sizes WHERE e.event_id = ANY($1)"
        )
    }

    /// Returns the SQL condition for a deleted row. A deletion request counts as present although another request
    /// deleted it: it stays in force (NIP-09), and without it the events that it deleted could come back. If its author
    /// requested to vanish it counts as deleted, and the vanish request keeps out its events (NIP-62).
    fn deleted(&self) -> String {
        if !self.has_soft_deletes {
            return "false".to_owned();
        }
        format!(
            "(e.deleted_at IS NOT NULL AND (e.event_kind <> 5 OR EXISTS (SELECT 1 FROM {} v \
             WHERE v.event_pubkey = e.event_pubkey AND v.event_kind = 62 AND v.deleted_at IS NULL)))",
            self.name
        )
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn columns(types: &[(&str, &str)]) -> BTreeMap<String, String> {
        types.iter().map(|(name, type_name)| ((*name).to_owned(), (*type_name).to_owned())).collect()
    }

    fn signed() -> BTreeMap<String, String> {
        columns(&SIGNED.map(|(name, type_name)| (name, type_name.unwrap_or("text"))))
    }

    #[test]
    fn columns_that_an_old_table_lacks_are_not_needed() {
        let old = Table::of("public", &signed()).unwrap();
        assert!(old.rows().contains("false, NULL::int8"));
        let mut with_newer = signed();
        with_newer.extend(columns(&[("deleted_at", "timestamp"), ("expires_at", "int4"), ("remote_address", "inet")]));
        let new = Table::of("public", &with_newer).unwrap();
        assert!(new.rows().contains("deleted_at IS NOT NULL") && new.rows().contains("e.expires_at::int8"));
    }

    #[test]
    fn a_table_without_a_signed_field_is_refused_with_the_name_of_the_column() {
        for (name, _) in SIGNED {
            let mut lacking = signed();
            lacking.remove(name);
            assert!(Table::of("public", &lacking).unwrap_err().to_string().contains(name));
        }
        let mut other = signed();
        other.insert("event_id".to_owned(), "text".to_owned());
        assert!(Table::of("public", &other).unwrap_err().to_string().contains("is text, not bytea"));
    }
}
