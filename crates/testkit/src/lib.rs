//! Real nodes, chains and peers for tests, the demo and benchmarks.
//!
//! - [`bitcoind`]: a private Bitcoin Core on regtest; [`rpc`] speaks to it; [`sequence`] publishes what changes in it.
//! - [`chain`]: blocks that we make and sign ourselves; [`mix`]: the shapes on which indexes have gone wrong.
//! - [`live`]: a node whose chain and mempool move; [`ledger`]: the naive model of both.
//! - [`bench_chain`]: gigabytes of realistic blocks; [`loadblock`]: files that a node imports.
//! - [`corpus`]: a relay's events, a million in a minute, and what clients ask of them.
//! - [`peers`]: other servers, to compare answers with; [`client`]: speaks to all of them; [`pipe`]: over every transport;
//!   [`asked`]: what wallets ask.
//! - [`relays`]: Nostr relays with their events, ours and others. [`usage`]: what a process uses.
//! - [`postgres`]: the database of other relays; [`nostream`]: what one of them has in it.
//! - [`electrum`]: a real wallet; [`mempool_client`]: an explorer's client; [`attack`]: clients that mean harm.

#![expect(clippy::missing_panics_doc, reason = "an `expect` here states an invariant; panics of use are documented")]

pub mod bitcoind;
pub mod rpc;
pub mod sequence;

pub mod chain;
pub mod mix;
pub mod script;
pub mod tx;
pub mod wallet;

pub mod ledger;
pub mod live;

pub mod bench_chain;
pub mod corpus;
pub mod loadblock;

pub mod asked;
pub mod attack;
pub mod client;
pub mod electrum;
pub mod mempool_client;
pub mod peers;
pub mod pipe;

pub mod nostream;
pub mod postgres;
pub mod relays;
pub mod usage;

pub mod block;
pub mod error;
pub mod rng;

mod guarded;
mod zmtp;

pub use crate::bitcoind::{Bitcoind, Options};
pub use crate::chain::ChainBuilder;
pub use crate::error::{Error, Result};
pub use crate::postgres::Postgres;
