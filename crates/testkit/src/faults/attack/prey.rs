//! The costliest things of a chain to ask about.

use bitcoin::secp256k1::PublicKey;

/// Names of the costliest script and transaction, and a tweak.
#[derive(Debug, Clone)]
pub struct Prey {
    /// The script hash with the longest history.
    pub scripthash: String,
    /// The transaction with the most outputs.
    pub txid: String,
    /// The tweak (BIP 352) of a transaction that may be a silent payment, a compressed key.
    pub tweak: PublicKey,
}
