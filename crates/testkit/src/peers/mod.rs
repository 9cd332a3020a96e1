//! Other servers of the Electrum protocol, run on the same node: independent oracles for the answers of Birdhouse.
//!
//! An oracle has a fixed version, so programs in `PATH` are not used. Peers listen on loopback only. They keep their
//! index in a temporary folder unless a test names another, and end with the process that started them. [`part`] says
//! which of them take part in a run of the tests.

pub mod node_wallet;
pub mod nostream;
pub mod postgres;
pub mod relays;

mod birdhouse;
mod electrs;
mod electrumx;
mod fulcrum;
mod peer;
mod sentrum;

pub mod part;

pub use self::birdhouse::Birdhouse;
pub use self::electrs::Electrs;
pub use self::electrumx::ElectrumX;
pub use self::fulcrum::Fulcrum;
pub use self::peer::{Home, Kind, Peer};
pub use self::sentrum::{Past, Sentrum, Wanted};
