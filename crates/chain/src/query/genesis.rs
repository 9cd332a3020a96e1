//! The output of the genesis block.
//!
//! It is in no set of unspent outputs and can never be spent, so the index has no row of it, and
//! [the Electrum protocol](https://electrumx.readthedocs.io/en/latest/protocol-basics.html#script-hashes) leaves it
//! out. Esplora's server counts it for its script, as any other output (`index_transaction` in
//! [electrs](https://github.com/Blockstream/electrs)); a snapshot may do so, too.

use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::names::{Height, ScriptHash, ScriptKey, TxNum};
use crate::rows::{Coin, TxOutNum};
use crate::state::{GenesisOutput, Snapshot};

/// The transaction of the genesis block.
pub(super) const GENESIS: TxNum = TxNum(0);
const NETWORKS: [Network; 5] =
    [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];

impl Snapshot {
    /// Returns the same snapshot, whose answers about scripts count the output of the genesis block, but for Electrum's
    /// status.
    #[must_use]
    pub fn counting_genesis(&self) -> Self {
        Self { genesis: *self.shared.genesis_output.get_or_init(|| self.find_genesis_output()), ..self.clone() }
    }

    /// The output of the genesis block, if it is counted and pays the script.
    pub(super) fn genesis_output(&self, key: ScriptKey) -> Option<Coin> {
        let GenesisOutput { value, .. } = self.genesis.filter(|output| output.script == key)?;
        Some(Coin { out: TxOutNum { txnum: GENESIS, vout: 0 }, value })
    }

    /// The output, on a chain that is known.
    fn find_genesis_output(&self) -> Option<GenesisOutput> {
        let hash = self.headers.get(Height(0))?.block_hash();
        let genesis = NETWORKS.into_iter().map(genesis_block).find(|block| block.block_hash() == hash)?;
        let output = genesis.txdata.first()?.output.first()?;
        let script = self.shared.keyer.script(&ScriptHash::of(output.script_pubkey.as_bytes()));
        Some(GenesisOutput { script, value: output.value.to_sat() })
    }
}
