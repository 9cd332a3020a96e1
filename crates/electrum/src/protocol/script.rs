//! The two ways in which clients name scripts: `blockchain.scripthash.*`, and `blockchain.scriptpubkey.*` from protocol
//! 1.7 on.
//!
//! They differ in the parameter, in the form of lists, and in the method that notifications carry. Inside the server a
//! script is its hash: a script may have ten thousand bytes, and notifications name it by hash in both ways.

use birdhouse_chain::ScriptHash;

/// Way in which a client names a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Naming {
    /// By its hash. Lists are bare.
    Hash,
    /// By its bytes. Lists are a member of an object.
    Pubkey,
}

/// A script, as a client named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) hash: ScriptHash,
    pub(crate) naming: Naming,
}

impl Naming {
    pub(crate) const ALL: [Self; 2] = [Self::Hash, Self::Pubkey];

    /// Returns the method of notifications.
    pub(crate) fn subscribe_method(self) -> &'static str {
        match self {
            Self::Hash => "blockchain.scripthash.subscribe",
            Self::Pubkey => "blockchain.scriptpubkey.subscribe",
        }
    }
}
