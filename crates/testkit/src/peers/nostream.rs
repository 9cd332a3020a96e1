//! The table `events` in the database of Nostream, another relay, as its migrations leave it.
//!
//! Written from the columns that the migrations name. The caller makes the indexes that it needs, before or after the
//! rows.

/// The table of May 2022, without the unique index over `event_id`.
pub const EVENTS: &str = "CREATE TABLE events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    event_id bytea NOT NULL,
    event_pubkey bytea NOT NULL,
    event_kind integer NOT NULL,
    event_created_at integer NOT NULL,
    event_content text NOT NULL,
    event_tags jsonb,
    event_signature bytea NOT NULL,
    first_seen timestamp DEFAULT now())";

/// Columns added until 2026.
pub const COLUMNS_SINCE: &str = "ALTER TABLE events
    ADD deleted_at timestamp, ADD event_deduplication jsonb, ADD remote_address inet, ADD expires_at integer";
