//! The table `events` of Nostream's database, another relay's, as its migrations leave it.
//!
//! Written from what they say of columns. Indexes are made by who needs them, before rows or after.

/// May 2022, without the index over `event_id`, which is unique.
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

/// What was added until 2026.
pub const COLUMNS_SINCE: &str = "ALTER TABLE events
    ADD deleted_at timestamp, ADD event_deduplication jsonb, ADD remote_address inet, ADD expires_at integer";
