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
pub mod script;
mod shapes;

// Answers that are computed. Pure.
pub mod clock;
pub mod family;
mod projection;
mod recommended;
mod retarget;
mod watch;

// From a question to its answer.
mod block_fees;
mod caller;
mod endpoints;
mod event_stream;
mod fees;
mod live;
mod long_read;
mod pages;
mod paused;
mod projections;
mod reads;
mod replacement_tree;
mod room;
mod routes;
mod service;
mod work;

// From a socket to a request.
mod gzip;
mod server;
mod slashes;
mod transport;
mod unread;
mod whole_body;

// For pages beside the API.
pub use block_fees::{BlockFees, quotient};
pub use endpoints::{Media, Route};
pub use failure::{Failure, Refusal};
pub use pages::Pages;
pub use params::{Params, read_address, script_of_address, script_of_hash};
pub use projection::{Place, ProjectedBlock};
pub use projections::Projection;
pub use recommended::Rates;
pub use reply::{Answer, Cache, Reply};
pub use work::{Endpoint, Lane, Question};

pub use limits::{Limits, LimitsGiven};
pub use server::{Overview, Server, Sockets};
pub use settings::{Listener, Settings};

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;
