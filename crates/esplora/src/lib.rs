//! Esplora's REST API over HTTP: blocks, transactions, addresses, the mempool and fees, answered from one snapshot of
//! the index.
//!
//! A request passes through these folders:
//!
//! | folder | what lives there |
//! |---|---|
//! | `http` | accepts its connection, finds its route, compresses its answer |
//! | `wire` | its parts as values, and the JSON of answers, which asks for memory before it fills it |
//! | `service` | what all requests share, and turns to use it |
//! | `work` | gives it a turn and a thread, and takes both back from a long answer |
//! | `endpoints` | answer from a snapshot, a file per family |
//! | `fees` | fee rates and projected blocks, which several of them compute once |
//! | `history` | the mempool of the last year, in a small file |
//! | `live` | conversations over a socket (`/v1/ws`), and streams of events |
//!
//! Invariants: one answer sees one tip and one mempool; what a page shows is what it costs; nothing that a client looks
//! up is logged.
//!
//! axum serves here, and not for wallets: HTTP is one response for one request. The list of routes is data, and the
//! router is made of it.
//!
//! Source: [Esplora's API](https://github.com/Blockstream/esplora/blob/master/API.md), with the additions of the forks
//! of electrs that serve it.
#![forbid(unsafe_code)]

pub mod clock;
mod limits;

mod fees;
mod history;
mod wire;

mod endpoints;
mod live;
mod service;
mod work;

mod http;
mod pages;
mod sampling;
mod server;

pub use endpoints::{Media, Route, all as public_endpoints};
pub use fees::family;
pub use fees::{BlockFees, Estimate, Place, ProjectedBlock, Projection, RateStep, Rates, quotient};
pub use history::{History, RATES, Record, Span};
pub use limits::{Limits, LimitsGiven};
pub use pages::{Pages, Surroundings, Tested};
pub use server::{Overview, Server, Sockets};
pub use service::{Listener, Settings, StaleBlock, Way};
pub use wire::script;
pub use wire::{Answer, Cache, Failure, Params, Refusal, Reply, script_of_address, script_of_hash};
pub use work::{Endpoint, Lane, Question};

// For benchmarks. Not for use.
#[doc(hidden)]
pub use fees::bench;
// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;
