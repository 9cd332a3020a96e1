//! `birdhouse import --nostream`: what a Nostream keeps in a real PostgreSQL is what the relay has afterwards, no event more and no
//! event less.
#![expect(clippy::unwrap_used, reason = "tests")]

mod arrives;
mod bird;
mod cut_off;
mod refused;
mod schema;
