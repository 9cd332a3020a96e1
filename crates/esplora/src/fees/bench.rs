//! Entry points for benchmarks. Not for use.

use birdhouse_chain::source::Ranking;
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use super::members::Rate;
use super::projection::{Candidate, project};

/// A transaction of a mempool, as far as its place in projected blocks depends on it.
#[derive(Debug, Clone)]
pub struct Payment {
    /// In satoshis.
    pub fee: u32,
    /// In virtual bytes.
    pub vsize: u32,
    /// The payments that it spends from, by index.
    pub parents: Vec<usize>,
}

/// A mempool of payments.
#[derive(Debug)]
pub struct Payments(Vec<Candidate>);

impl Payments {
    /// Makes a mempool of these.
    pub fn of(payments: Vec<Payment>) -> Self {
        let candidate = |(at, Payment { fee, vsize, parents }): (u64, Payment)| {
            let (bytes, txid) = (u64::from(vsize), Txid::hash(&at.to_le_bytes()));
            let rate = Rate { fee: fee.into(), size: 4 * bytes };
            Candidate { txid, rate, weight: 4 * bytes, sigops: 0, fee: fee.into(), bytes, parents }
        };
        Self((0..).zip(payments).map(candidate).collect())
    }

    /// Projects the blocks of this mempool; returns the number of transactions in each.
    pub fn project(&self, ranking: Ranking) -> Vec<usize> {
        project(&self.0, ranking).blocks.iter().map(|block| block.transactions).collect()
    }
}
