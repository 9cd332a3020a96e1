//! Peers, clients, models and faults for tests and benchmarks.
//!
//! The node and the chains come from `birdhouse-regtest` ([`bitcoind`], [`chain`], [`mix`] and their parts), which this
//! crate exports again, so that a test has one import.
//!
//! - [`sequence`]: publishes the changes of a node by `ZeroMQ`; [`live`]: a node whose chain and mempool move;
//!   [`ledger`]: the naive model of both; [`node_wallet`]: a wallet in front of a node without one.
//! - [`bench_chain`]: gigabytes of realistic blocks; [`core_coding`]: numbers in undo data; [`corpus`]: a relay's
//!   events, a million in a minute, and the filters that clients send for them.
//! - [`peers`]: other Electrum servers, to compare answers with; [`client`]: a client of all of them; [`pipe`]: the
//!   same over every transport; [`http_client`]: a client of the REST API; [`asked`]: the requests of wallets;
//!   [`metrics`]: what a server says of itself.
//! - [`relays`]: Nostr relays with their events, Birdhouse and others. [`usage`]: the CPU time and memory of a process.
//!   [`priority`]: clients that stand for other machines. [`slow_link`]: a peer that is far away or hangs.
//!   [`small_disk`]: a disk that becomes full; [`slow_disk`]: one that takes its time. [`hooked_store`]: a store whose
//!   calls fail as a test wants. [`relay_history`]: a checker of what clients of a relay saw; [`stream_history`]: one
//!   of what streams between relays passed on.
//! - [`postgres`]: the database of other relays; [`nostream`]: the tables of one of them.
//! - [`browser`]: Chromium, to look at pages; [`inspection`]: its findings; [`electrum`]: a real wallet;
//!   [`mempool_client`]: an explorer's client; [`webhook`]: a receiver's side; [`attack`]: hostile clients.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "an `expect` here states an invariant; panics of use are documented")]

mod chains;
mod clients;
pub mod error;
mod events;
mod faults;
mod measure;
pub mod peers;

pub use birdhouse_regtest::{
    Bitcoind, ChainBuilder, Options, bitcoind, block, chain, child_guard, loadblock, mix, program, rng, rpc, script,
    tx, wallet,
};

pub use crate::chains::{bench_chain, core_coding, ledger, live, sequence};
pub use crate::clients::{browser, client, electrum, http_client, inspection, mempool_client, openapi, pipe, webhook};
pub use crate::error::{Error, Result};
pub use crate::events::{corpus, relay_history, stream_history};
pub use crate::faults::{asked, attack, hooked_store, priority, slow_disk, slow_link, small_disk};
pub use crate::measure::{metrics, usage};
pub use crate::peers::postgres::Postgres;
pub use crate::peers::{node_wallet, nostream, postgres, relays};
