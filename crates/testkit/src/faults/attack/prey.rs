//! The costliest things of a chain to ask about.

/// Names of the costliest script and transaction.
#[derive(Debug, Clone)]
pub struct Prey {
    /// The script hash with the longest history.
    pub scripthash: String,
    /// The transaction with the most outputs.
    pub txid: String,
}
