//! Esplora's REST API over HTTP: blocks, transactions, addresses, the mempool and fees, answered from one snapshot of
//! the index.
//!
//! A request passes through these modules: `transport` accepts its connection, `routes` finds its endpoint, `params`
//! parses its parts, `work` gives it a turn and a thread, `endpoints` answers from a snapshot, and `shapes` writes the
//! JSON.
//!
//! Invariants: one answer sees one tip and one mempool; what a page shows is what it costs; nothing that a client looks
//! up is logged.
//!
//! Source: [Esplora's API](https://github.com/Blockstream/esplora/blob/master/API.md), with the additions of the forks
//! of electrs that serve it.
#![forbid(unsafe_code)]

mod limits;
mod settings;

// Questions and answers.
mod failure;
mod params;
mod reply;
mod script;
mod shapes;

// Answers that are computed. Pure.
mod clock;
mod projection;
mod recommended;
mod retarget;

// From a question to its answer.
mod endpoints;
mod fees;
mod projections;
mod routes;
mod service;
mod work;

// From a socket to a request.
mod server;
mod slow_write;
mod transport;

pub use limits::{Limits, LimitsGiven};
pub use server::Server;
pub use settings::{Listener, Settings};
