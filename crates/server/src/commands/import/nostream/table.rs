//! Nostream's table `events`, in every version: what it has is asked of the database, and the rest is done without.
//!
//! Seven columns say what was signed and have been there since the first version (May 2022); `deleted_at` came in August 2022,
//! `expires_at` in February 2023.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use postgres::Client;

/// Bytes of tags and content of a row that is read.
pub(super) const ROW_BYTES_MAX: usize = 16 << 20;

/// What was signed, and as which types it can be read: any, or bytes only.
const SIGNED: [(&str, Option<&str>); 7] = [
    ("event_id", Some("bytea")),
    ("event_pubkey", Some("bytea")),
    ("event_created_at", None),
    ("event_kind", None),
    ("event_tags", None),
    ("event_content", None),
    ("event_signature", Some("bytea")),
];

/// The columns of a table, by name, with their types.
const COLUMNS: &str = "SELECT table_schema::text, column_name::text, udt_name::text FROM information_schema.columns \
     WHERE table_name = 'events' AND table_schema::text = ANY(current_schemas(false)::text[]) \
     ORDER BY array_position(current_schemas(false)::text[], table_schema::text)";

/// A table of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Quoted, with its schema.
    name: String,
    has_soft_deletes: bool,
    has_expirations: bool,
}

impl Table {
    /// Looks what this database has.
    pub(super) fn find(client: &mut Client) -> Result<Self> {
        let rows = client.query(COLUMNS, &[]).context("cannot see what tables there are")?;
        let mut columns = BTreeMap::new();
        let mut schema: Option<String> = None;
        for row in &rows {
            // The first schema of the search path that has such a table.
            let of: String = row.try_get(0)?;
            if schema.get_or_insert_with(|| of.clone()) == &of {
                columns.insert(row.try_get(1)?, row.try_get(2)?);
            }
        }
        match schema {
            Some(schema) => Self::of(&schema, &columns),
            None => bail!("no table `events` that this user may read is in this database: is it Nostream's?"),
        }
    }

    fn of(schema: &str, columns: &BTreeMap<String, String>) -> Result<Self> {
        for (name, type_name) in SIGNED {
            match (columns.get(name), type_name) {
                (None, _) => {
                    bail!("the table `events` has no column `{name}` that this user may read: is it Nostream's?")
                }
                (Some(found), Some(wanted)) if found != wanted => {
                    bail!("column `{name}` of the table `events` is {found}, not {wanted}: is it Nostream's?")
                }
                _ => {}
            }
        }
        let has = |name| columns.contains_key(name);
        let name = format!("\"{}\".events", schema.replace('"', "\"\""));
        Ok(Self { name, has_soft_deletes: has("deleted_at"), has_expirations: has("expires_at") })
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }

    /// The next ids from `$1` on, below `$2`.
    pub(super) fn ids(&self, page: usize) -> String {
        let name = &self.name;
        format!("SELECT event_id FROM {name} WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id LIMIT {page}")
    }

    /// The rows of the ids `$1`, as [`Row`](super::row::Row) reads them.
    pub(super) fn rows(&self) -> String {
        let name = &self.name;
        let (deleted, expires) = (self.deleted(), if self.has_expirations { "e.expires_at" } else { "NULL" });
        // OFFSET 0 keeps tags from being turned to text for each use.
        format!(
            "SELECT e.event_id, e.event_pubkey, e.event_created_at::int8, e.event_kind::int8, \
             CASE WHEN sizes.is_fit THEN texts.tags END, CASE WHEN sizes.is_fit THEN texts.content END, \
             e.event_signature, {deleted}, {expires}::int8 FROM {name} e \
             CROSS JOIN LATERAL (SELECT coalesce(e.event_tags::text, '[]') AS tags, e.event_content::text AS content \
             OFFSET 0) texts CROSS JOIN LATERAL (SELECT octet_length(texts.tags) + octet_length(texts.content) \
             <= {ROW_BYTES_MAX} AS is_fit OFFSET 0) sizes WHERE e.event_id = ANY($1)"
        )
    }

    /// Whether a row was deleted. A request to delete that another one deleted still holds (NIP-09): without it what it deleted
    /// could come back. If its author asked to vanish it is gone, and that request keeps out the rest (NIP-62).
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
    fn what_an_old_table_lacks_is_done_without() {
        let old = Table::of("public", &signed()).unwrap();
        assert!(old.rows().contains("false, NULL::int8"));
        let mut with_newer = signed();
        with_newer.extend(columns(&[("deleted_at", "timestamp"), ("expires_at", "int4"), ("remote_address", "inet")]));
        let new = Table::of("public", &with_newer).unwrap();
        assert!(new.rows().contains("deleted_at IS NOT NULL") && new.rows().contains("e.expires_at::int8"));
    }

    #[test]
    fn a_table_without_what_was_signed_is_refused_by_the_name_of_the_column() {
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
