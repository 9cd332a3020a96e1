//! Coinbases that a later one with the same txid overwrote, before
//! [BIP 30](https://github.com/bitcoin/bips/blob/master/bip-0030.mediawiki) forbade it: their outputs can never be
//! spent, and every answer leaves them out.
//!
//! Mainnet has two, as Core's `IsBIP30Unspendable` (`validation.cpp`) names them; since BIP 34 a coinbase holds its
//! height.

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, OutPoint, TxOut, Txid};

use crate::block::output_of;
use crate::error::{Error, Result};
use crate::names::{Height, ScriptHash, ScriptKey, TxNum};
use crate::state::Snapshot;

/// The blocks of mainnet whose coinbase was overwritten.
const MAINNET: [(Height, &str); 2] = [
    (Height(91_722), "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e"),
    (Height(91_812), "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f"),
];

/// Returns the blocks of mainnet whose coinbase was overwritten.
fn of_mainnet() -> Vec<(Height, BlockHash)> {
    let parsed = |(height, hash): (Height, &str)| (height, hash.parse().expect("64 hexadecimal digits"));
    MAINNET.into_iter().map(parsed).collect()
}

impl Snapshot {
    /// Removes entries of overwritten coinbases from a list.
    pub(super) fn drop_overwritten<T>(&self, list: &mut Vec<T>, txnum: impl Fn(&T) -> TxNum) {
        for overwritten in self.overwritten() {
            list.retain(|entry| txnum(entry) != overwritten);
        }
    }

    /// True for an overwritten coinbase.
    pub(super) fn is_overwritten(&self, txnum: TxNum) -> bool {
        self.overwritten().any(|overwritten| overwritten == txnum)
    }

    /// True if an overwritten coinbase pays a script. The sums stored with its rows then include the output.
    pub(super) fn is_paid_by_overwritten(&self, script: ScriptKey) -> Result<bool> {
        for coinbase in self.overwritten() {
            let known = self.shared.overwritten_scripts.lock().get(&coinbase).cloned();
            let scripts = match known {
                Some(scripts) => scripts,
                None => self.scripts_of(coinbase)?,
            };
            // The sums of scripts that nobody knows are left aside for all.
            let is_paid = scripts.as_ref().is_none_or(|scripts| scripts.contains(&script));
            self.shared.overwritten_scripts.lock().insert(coinbase, scripts);
            if is_paid {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The overwritten coinbases of this chain: those of mainnet, or those that a test has set.
    fn overwritten(&self) -> impl Iterator<Item = TxNum> {
        let blocks = self.shared.overwritten.get_or_init(of_mainnet).iter();
        blocks.filter_map(|(height, hash)| {
            let block = self.headers.get(*height)?;
            (block.block_hash() == *hash).then_some(block.first_txnum)
        })
    }

    /// Returns the scripts that a coinbase pays; `None` if its block is deleted and the node does not know them.
    ///
    /// # Errors
    /// [`Error::Removed`] then, if the block can be fetched.
    fn scripts_of(&self, txnum: TxNum) -> Result<Option<Vec<ScriptKey>>> {
        let raw = match self.raw_of(txnum) {
            Err(error) if error.is_removed() => {
                return match (self.script_at_node(txnum)?, error) {
                    (None, error @ Error::Removed { .. }) => Err(error),
                    (scripts, _) => Ok(scripts),
                };
            }
            raw => raw?,
        };
        let mut scripts = Vec::new();
        for vout in 0.. {
            let Some((script, _)) = output_of(&raw, vout).map_err(Error::unreadable_block)? else { break };
            scripts.push(self.shared.keyer.script(&ScriptHash::of(script)));
        }
        Ok(Some(scripts))
    }

    /// Asks the node for the output of the later coinbase with the same txid. Those of mainnet have one output. If it
    /// is spent by now, the scripts stay unknown.
    fn script_at_node(&self, txnum: TxNum) -> Result<Option<Vec<ScriptKey>>> {
        let Some(node) = self.shared.node_of_clients.get() else { return Ok(None) };
        let txid = Txid::from_byte_array(self.txids_of(&[txnum])?[0]);
        let output = node.unspent_outputs(&[OutPoint { txid, vout: 0 }])?.pop().flatten();
        let key = |output: TxOut| self.shared.keyer.script(&ScriptHash::of(output.script_pubkey.as_bytes()));
        Ok(output.map(|output| vec![key(output)]))
    }
}
