//! A wallet in front of a node that has none, for test suites of other projects, which want Core's wallet by RPC.
//!
//! [`Front`] listens where a suite expects the node. It answers the calls of [`calls::METHODS`] itself and passes all
//! others on. A wallet is its keys and nothing else: its coins are read from the node for every call, so it never
//! differs from the chain. It lives in memory, and gives out P2WPKH addresses only. Source: the help texts of Core's
//! [wallet RPC](https://github.com/bitcoin/bitcoin/tree/master/src/wallet/rpc).

mod answers;
mod calls;
mod choice;
mod front;
mod keys;

pub use self::front::Front;
