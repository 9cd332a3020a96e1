//! Nostream's tables in a PostgreSQL, in a schema that is removed at the end.
//!
//! Columns and indexes are those of its migrations until 2026, without those that only queries other than REQ use.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::nostream::{COLUMNS_SINCE, EVENTS};
use postgres::{Client, NoTls, SimpleQueryMessage};
use serde_json::Value;

use super::tree;
use crate::relays::relay::{Answer, field};

const SCHEMA: &str = "birdhouse_bench";
const COPY: &str = "COPY events \
    (event_id, event_pubkey, event_created_at, event_kind, event_tags, event_content, event_signature) FROM STDIN";
const INDEXES: [&str; 8] = [
    "CREATE UNIQUE INDEX ON events (event_id)",
    "CREATE INDEX ON events (event_pubkey)",
    "CREATE INDEX ON events (event_kind)",
    "CREATE INDEX ON events (event_created_at)",
    "CREATE INDEX ON events (expires_at)",
    "CREATE INDEX ON events (event_pubkey, event_kind, event_created_at DESC, event_id)",
    "CREATE INDEX ON events (deleted_at) WHERE deleted_at IS NOT NULL",
    "CREATE INDEX ON events USING GIN (event_tags)",
];
/// Needs PostgreSQL's additional extensions, which not every installation has.
const GIN_OF_NUMBERS: &str = "CREATE EXTENSION IF NOT EXISTS btree_gin SCHEMA public";
const KIND_INDEX: &str = "CREATE INDEX ON events USING GIN (event_kind, event_tags, event_created_at)";
const TAGS: &str = "CREATE TABLE event_tags (
    id uuid DEFAULT gen_random_uuid(), event_id bytea NOT NULL, tag_name text NOT NULL, tag_value text NOT NULL)";
const FILL_TAGS: &str = "INSERT INTO event_tags (event_id, tag_name, tag_value)
    SELECT event_id, tag->>0, tag->>1 FROM events, jsonb_array_elements(event_tags) AS tag
    WHERE length(tag->>0) = 1 AND tag->>1 <> ''";
const TAG_INDEXES: [&str; 3] = [
    "ALTER TABLE event_tags ADD PRIMARY KEY (id)",
    "CREATE INDEX ON event_tags (event_id)",
    "CREATE INDEX ON event_tags (tag_name, tag_value)",
];
const TIMEOUT: &str = "SET statement_timeout = '2min'";
const NO_TIMEOUT: &str = "SET statement_timeout = 0";

/// Place of the tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tags {
    /// In the events, as in Nostream until January 2024.
    Jsonb,
    /// In a table of their own, as in later versions.
    Table,
}

/// Cost of filling the table of tags.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackFill {
    pub(super) wall: Duration,
    pub(super) cpu: Option<Duration>,
}

/// A connection to Nostream's tables.
pub(super) struct Database {
    client: Client,
    /// The server's first process, if it runs on this machine.
    process: Option<u32>,
    lacking: Vec<String>,
}

impl Database {
    pub(super) fn open(url: &str) -> Result<Self> {
        let mut client = Client::connect(url, NoTls).context("failed to connect to PostgreSQL")?;
        client.batch_execute(&format!(
            "DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}; SET search_path = {SCHEMA}, public"
        ))?;
        let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let backend = u32::try_from(backend).ok();
        // On another machine the number belongs to another process.
        let backend = backend.filter(|pid| tree::name(*pid).is_some_and(|name| name.starts_with("postgres")));
        Ok(Self { client, process: backend.and_then(tree::parent), lacking: Vec::new() })
    }

    pub(super) fn version(&mut self) -> Result<String> {
        Ok(self.client.query_one("SHOW server_version", &[])?.get(0))
    }

    /// Returns notes about indexes that this installation does not support.
    pub(super) fn lacking(&self) -> &[String] {
        &self.lacking
    }

    /// Fills and indexes the table of events; returns their number.
    pub(super) fn load(&mut self, file: &Path) -> Result<usize> {
        self.client.batch_execute(EVENTS)?;
        self.client.batch_execute(COLUMNS_SINCE)?;
        let mut rows = self.client.copy_in(COPY)?;
        let mut count = 0;
        for line in BufReader::with_capacity(1 << 20, File::open(file)?).lines() {
            rows.write_all(row(&serde_json::from_str(&line?)?)?.as_bytes())?;
            count += 1;
        }
        rows.finish()?;
        for index in INDEXES {
            self.client.batch_execute(index)?;
        }
        match self.client.batch_execute(GIN_OF_NUMBERS) {
            Ok(()) => self.client.batch_execute(KIND_INDEX)?,
            Err(error) => self.lacking.push(format!("Without Nostream's index over kind, tags and time: {error}.")),
        }
        self.client.batch_execute("VACUUM ANALYZE events")?;
        Ok(count)
    }

    /// Fills the table of tags from the events.
    pub(super) fn back_fill(&mut self) -> Result<BackFill> {
        self.client.batch_execute(TAGS)?;
        let (started, before) = (Instant::now(), self.cpu()?);
        self.client.batch_execute(FILL_TAGS)?;
        for index in TAG_INDEXES {
            self.client.batch_execute(index)?;
        }
        let wall = started.elapsed();
        let cpu = self.cpu()?.zip(before).map(|(now, before)| now.saturating_sub(before));
        self.client.batch_execute("VACUUM ANALYZE event_tags")?;
        self.client.batch_execute(TIMEOUT)?;
        Ok(BackFill { wall, cpu })
    }

    /// Returns the events of a filter.
    pub(super) fn ask(&mut self, tags: Tags, filter: &Value) -> Result<Answer> {
        let rows = self.client.simple_query(&sql(tags, filter)?)?;
        let ids = rows.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get("event_id")),
            _ => None,
        });
        ids.map(|id| id?.strip_prefix("\\x")?.as_bytes().try_into().ok())
            .collect::<Option<_>>()
            .context("an event's id")
    }

    /// Returns the plan of a filter's statement with times.
    pub(super) fn explain(&mut self, filter: &Value) -> Result<String> {
        let mut text = String::new();
        for tags in [Tags::Jsonb, Tags::Table] {
            text += match tags {
                Tags::Jsonb => "JSONB\n",
                Tags::Table => "event_tags\n",
            };
            let rows = self.client.simple_query(&format!("EXPLAIN (ANALYZE, BUFFERS) {}", sql(tags, filter)?))?;
            for message in rows {
                if let SimpleQueryMessage::Row(row) = message {
                    text += row.get(0).unwrap_or_default();
                    text.push('\n');
                }
            }
        }
        Ok(text)
    }

    /// Returns the CPU time of all processes of the server, if it runs on this machine.
    pub(super) fn cpu(&self) -> Result<Option<Duration>> {
        self.process.map(tree::cpu_of_tree).transpose()
    }

    /// Removes the schema.
    pub(super) fn close(mut self) -> Result<()> {
        Ok(self.client.batch_execute(&format!("{NO_TIMEOUT}; DROP SCHEMA {SCHEMA} CASCADE"))?)
    }
}

/// Returns an event as a line of COPY.
fn row(event: &Value) -> Result<String> {
    let bytes = |name: &str| Ok::<_, anyhow::Error>(format!("\\\\x{}", field(event, name)?));
    let columns = [
        bytes("id")?,
        bytes("pubkey")?,
        event["created_at"].to_string(),
        event["kind"].to_string(),
        escaped(&event["tags"].to_string()),
        escaped(field(event, "content")?),
        bytes("sig")?,
    ];
    Ok(columns.join("\t") + "\n")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// Returns the statement for a filter of kinds, values of `#e` and a limit.
fn sql(tags: Tags, filter: &Value) -> Result<String> {
    let list = |name: &str| filter[name].as_array().with_context(|| format!("no {name} in the filter"));
    let kinds = list("kinds")?.iter().map(|kind| kind.as_u64().map(|kind| kind.to_string()));
    let kinds = kinds.collect::<Option<Vec<_>>>().context("a kind")?.join(", ");
    let condition = |value: &Value| {
        let id = value.as_str().filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit())).context("an id")?;
        Ok(match tags {
            Tags::Jsonb => format!("event_tags @> '[[\"e\", \"{id}\"]]'"),
            Tags::Table => format!("(event_tags.tag_name = 'e' AND event_tags.tag_value = '{id}')"),
        })
    };
    let any = list("#e")?.iter().map(condition).collect::<Result<Vec<_>>>()?.join(" OR ");
    let limit = filter["limit"].as_u64().context("a limit")?;
    ensure!(
        filter.as_object().is_some_and(|filter| filter.len() == 3),
        "the filter has other conditions: {filter:.200}"
    );
    let from = match tags {
        Tags::Jsonb => "SELECT events.* FROM events",
        Tags::Table => {
            "SELECT DISTINCT events.* FROM events LEFT JOIN event_tags ON events.event_id = event_tags.event_id"
        }
    };
    Ok(format!(
        "{from} WHERE event_kind IN ({kinds}) AND ({any}) ORDER BY event_created_at DESC, event_id ASC LIMIT {limit}"
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filter_has_a_statement_for_both_places_of_tags() {
        let filter = json!({"kinds": [1], "#e": ["ab", "cd"], "limit": 5});
        let table = sql(Tags::Table, &filter).unwrap();
        assert!(
            table.contains("IN (1) AND ((event_tags.tag_name = 'e' AND event_tags.tag_value = 'ab') OR ("),
            "{table}"
        );
        let jsonb = sql(Tags::Jsonb, &filter).unwrap();
        assert!(jsonb.ends_with("DESC, event_id ASC LIMIT 5") && jsonb.contains(r#"@> '[["e", "cd"]]'"#), "{jsonb}");
        for wrong in [
            json!({"kinds": [1], "#e": ["a'b"], "limit": 5}),
            json!({"kinds": [1], "#e": ["ab"], "limit": 5, "since": 1}),
        ] {
            assert!(sql(Tags::Table, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_copy_reads_otherwise_is_escaped() {
        let event = json!({
            "id": "01", "pubkey": "02", "sig": "03", "created_at": 5, "kind": 1, "tags": [["t", "a\"b"]],
            "content": "a\\\n\tb",
        });
        assert_eq!(row(&event).unwrap(), "\\\\x01\t\\\\x02\t5\t1\t[[\"t\",\"a\\\\\"b\"]]\ta\\\\\\n\\tb\t\\\\x03\n");
    }
}
