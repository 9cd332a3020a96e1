//! Events on their way in, and the upkeep of what is stored, each on a thread of its own.
//!
//! `ingest` makes events durable that arrive together, and `recovery` opens the store again after a failed write.
//! `gathering` stores the events of front ends. `compaction`, `retaining` and `indexing` work in the background, and
//! `health` judges the states of all.

pub(crate) mod compaction;
mod gathering;
mod health;
pub(crate) mod indexing;
mod ingest;
pub(crate) mod recovery;
mod retaining;

pub(crate) use self::gathering::Gathering;
pub(crate) use self::health::Threads;
pub use self::health::{Health, Storing};
pub(crate) use self::ingest::{Depot, Destination, EventReservation, Ingest, Submission};
pub(crate) use self::retaining::{CurrentRules, Retaining};
