//! Streams of tweaks (BIP 352) for wallets that scan by themselves, in the dialect of Cake Wallet.
//!
//! The reply has the first block. Each further block is a notification, empty ones too: a client goes on from the last
//! height that it has seen. Then comes a notification that says "done".
//!
//! | file | what it has |
//! |---|---|
//! | `coding` | a block in version 1 or 2 of the dialect, byte by byte |
//! | `block` | the rows of a block, written one by one |
//! | `streams` | the streams of one connection, one after the other |
//!
//! A transaction whose outputs are all spent is left out, unless the client asks for the past. No single output ever
//! is: without output 0 of a payment nobody finds output 1. In version 1 a spent output carries its spender.

mod block;
mod coding;
mod streams;

pub(crate) use self::block::TweakBlock;
pub(crate) use self::coding::{Amount, MAX_VERSION, done, notification, stream_bytes};
pub(crate) use self::streams::TweakStreams;
