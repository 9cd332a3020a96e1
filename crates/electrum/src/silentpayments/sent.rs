//! The transactions that a client has received for one subscription. Pure.
//!
//! A transaction that was sent from the mempool is not sent again from its block, nor after a reorg: the client has its
//! tweak, and follows its outputs by their scripts from then on.

use std::collections::HashMap;

use birdhouse_chain::Height;
use bitcoin::Txid;

/// Transactions that are remembered, before those deep in the chain are forgotten.
const SENT_MAX: usize = 50_000;
/// Blocks above a transaction that may be forgotten: no reorg without the operator's consent is as deep.
const DEEP: u32 = 1_000;

/// Txids with the height at which they were sent; `None` for the mempool.
#[derive(Debug, Default)]
pub(super) struct Sent {
    heights: HashMap<Txid, Option<Height>>,
    /// Number of txids at which deep ones are forgotten.
    full_at: usize,
}

impl Sent {
    /// Returns true if the client has not received the transaction yet.
    pub(super) fn is_new(&mut self, txid: Txid, height: Option<Height>) -> bool {
        if self.heights.len() >= self.full_at.max(SENT_MAX) {
            self.forget(height);
        }
        self.heights.insert(txid, height).is_none()
    }

    fn forget(&mut self, tip: Option<Height>) {
        let deep = tip.map_or(0, |tip| tip.0.saturating_sub(DEEP));
        self.heights.retain(|_, height| height.is_none_or(|height| height.0 >= deep));
        self.full_at = 2 * self.heights.len();
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn txid(number: u32) -> Txid {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Txid::from_byte_array(bytes)
    }

    #[test]
    fn a_transaction_is_new_once_wherever_it_is() {
        let mut sent = Sent::default();
        assert!(sent.is_new(txid(1), None));
        assert!(!sent.is_new(txid(1), Some(Height(7))));
        assert!(!sent.is_new(txid(1), None));
        assert!(sent.is_new(txid(2), Some(Height(7))));
        assert!(!sent.is_new(txid(2), Some(Height(8))));
    }

    #[test]
    fn those_deep_in_the_chain_are_forgotten_and_no_others() {
        let mut sent = Sent::default();
        let most = u32::try_from(SENT_MAX).expect("a small number");
        for number in 0..=most {
            assert!(sent.is_new(txid(number), Some(Height(number))));
        }
        assert!(sent.heights.len() <= 1 + DEEP as usize);
        assert!((most - DEEP..=most).all(|number| !sent.is_new(txid(number), Some(Height(number)))));
    }
}
