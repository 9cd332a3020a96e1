//! Nostream's table `events`, as its first and its latest migration leave it, and rows in it.
//!
//! Indexes follow its migrations; triggers and indexes for its own queries only are omitted.

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_testkit::Postgres;
use birdhouse_testkit::nostream::{COLUMNS_SINCE, EVENTS};
use postgres::{Client, NoTls};

const UNIQUE: &str = "CREATE UNIQUE INDEX ON events (event_id)";

/// Additions of later migrations, up to 2026.
const INDEXES_SINCE: &str = "
    CREATE UNIQUE INDEX replaceable_events_idx ON events (event_pubkey, event_kind, event_deduplication)
        WHERE event_kind IN (0, 3, 41) OR event_kind BETWEEN 10000 AND 19999 OR event_kind BETWEEN 30000 AND 39999;
    CREATE INDEX ON events (event_pubkey, event_kind, event_created_at DESC, event_id);
    CREATE INDEX ON events (deleted_at) WHERE deleted_at IS NOT NULL";

/// The database of a Nostream, without the program.
pub(crate) struct Nostream {
    pub(crate) postgres: Postgres,
    pub(crate) client: Client,
}

impl Nostream {
    /// Starts with the present table.
    pub(crate) fn start() -> Self {
        let mut nostream = Self::start_first();
        for statement in [COLUMNS_SINCE, INDEXES_SINCE] {
            nostream.client.batch_execute(statement).unwrap();
        }
        nostream
    }

    /// Starts with the table of the first version.
    pub(crate) fn start_first() -> Self {
        let mut nostream = Self::start_without_tables(Postgres::start().unwrap());
        for statement in [EVENTS, UNIQUE] {
            nostream.client.batch_execute(statement).unwrap();
        }
        nostream
    }

    pub(crate) fn start_without_tables(postgres: Postgres) -> Self {
        let client = Client::connect(&postgres.url(), NoTls).unwrap();
        Self { postgres, client }
    }

    pub(crate) fn insert<'a>(&mut self, events: impl IntoIterator<Item = &'a VerifiedEvent>) {
        let (mut ids, mut pubkeys, mut sigs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, mut kinds, mut tags, mut contents) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for event in events {
            ids.push(event.id.0.to_vec());
            pubkeys.push(event.pubkey.0.to_vec());
            sigs.push(event.sig.0.to_vec());
            times.push(i32::try_from(event.created_at.0).unwrap());
            kinds.push(i32::from(event.kind.0));
            let lists: Vec<&Vec<String>> = event.tags.iter().map(|tag| &tag.0).collect();
            tags.push(serde_json::to_string(&lists).unwrap());
            contents.push(event.content.as_str());
        }
        let into = "event_id, event_pubkey, event_signature, event_created_at, event_kind, event_tags, event_content";
        let statement = format!(
            "INSERT INTO events ({into}) SELECT a, b, c, d, e, f::jsonb, g \
             FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int4[], $5::int4[], $6::text[], $7::text[]) \
             AS row (a, b, c, d, e, f, g)"
        );
        self.client.execute(&statement, &[&ids, &pubkeys, &sigs, &times, &kinds, &tags, &contents]).unwrap();
    }

    /// Changes rows as Nostream's own statements do: `deleted_at = now()`.
    pub(crate) fn update(&mut self, set: &str, event: &VerifiedEvent) {
        let statement = format!("UPDATE events SET {set} WHERE event_id = $1");
        assert_eq!(self.client.execute(&statement, &[&event.id.0.as_slice()]).unwrap(), 1);
    }

    pub(crate) fn soft_delete(&mut self, event: &VerifiedEvent) {
        self.update("deleted_at = now()", event);
    }
}

pub(crate) fn tag(elements: &[&str]) -> Tag {
    Tag(elements.iter().map(|element| (*element).to_owned()).collect())
}

/// An event of an author, some seconds after some beginning.
pub(crate) fn event(author: u8, kind: u16, second: u64, tags: &[&[&str]]) -> VerifiedEvent {
    said(author, kind, second, tags.iter().map(|elements| tag(elements)).collect(), &format!("at {second}"))
}

pub(crate) fn said(author: u8, kind: u16, second: u64, tags: Vec<Tag>, content: &str) -> VerifiedEvent {
    let keys = Keys::from_secret([author; 32]).unwrap();
    let created_at = Timestamp(1_700_000_000 + second);
    UnsignedEvent { created_at, kind: Kind(kind), tags, content: content.to_owned() }.sign(&keys)
}
