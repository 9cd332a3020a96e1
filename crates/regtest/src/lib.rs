//! A private Bitcoin Core on regtest, and chains made for it: for `birdhouse demo` and for tests.
//!
//! - [`bitcoind`]: starts and stops the node; [`rpc`]: calls its JSON-RPC and REST; [`program`]: finds its path;
//!   [`child_guard`]: child processes that end with their parent.
//! - [`chain`]: [`ChainBuilder`], a chain in memory that signs its own transactions; [`mix`]: shapes of chains on which
//!   indexes have failed; [`loadblock`]: files that a node imports.
//! - [`script`], [`tx`], [`wallet`], [`block`]: the parts of a chain; [`rng`]: the random numbers behind it.
//!
//! A chain needs no node. The same seed and the same calls give the same blocks:
//!
//! ```
//! use birdhouse_regtest::ChainBuilder;
//! use birdhouse_regtest::script::{Form, Lock};
//! use birdhouse_regtest::tx::Payment;
//!
//! let mut chain = ChainBuilder::new(1);
//! chain.mine(101); // the first coinbase can be spent 100 blocks later
//! let txid = chain.pay(&[Payment::to_lock(Lock::new(Form::P2tr, 7), 50_000)]);
//! let block = chain.mine_block();
//! assert_eq!(block.txdata[1].compute_txid(), txid);
//! assert_eq!(chain.height(), 102);
//! ```
//!
//! A node accepts what [`ChainBuilder`] made:
//!
//! ```no_run
//! use birdhouse_regtest::mix::{self, Size};
//! use birdhouse_regtest::{Bitcoind, Options};
//!
//! let chain = mix::sample(1, Size::SMALL);
//! let node = Bitcoind::start(Options::default())?; // dropping it ends the process and removes its folder
//! chain.submit_to(&node)?;
//! assert_eq!(node.tip()?, chain.tip());
//! # Ok::<(), birdhouse_regtest::Error>(())
//! ```

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "an `expect` here states an invariant; panics of use are documented")]

pub mod bitcoind;
pub mod child_guard;
pub mod program;
pub mod rpc;

pub mod chain;
pub mod loadblock;
pub mod mix;

pub mod block;
pub mod rng;
pub mod script;
pub mod tx;
pub mod wallet;

pub mod error;

mod coin;

pub use crate::bitcoind::{Bitcoind, Options};
pub use crate::chain::ChainBuilder;
pub use crate::error::{Error, Result};
