//! `birdhouse import --nostream`: after it the relay has exactly the events of a Nostream in a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "tests")]

mod arrives;
mod bird;
mod cut_off;
mod refused;
mod schema;
