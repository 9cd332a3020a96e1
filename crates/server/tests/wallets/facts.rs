//! Facts about a script, from a walk over all blocks.

use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::script::{Form, Lock};
use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::{OutPoint, Script, ScriptBuf, Txid};

/// An unspent output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unspent {
    pub(crate) outpoint: OutPoint,
    pub(crate) height: usize,
    pub(crate) sat: u64,
}

/// The history, unspent outputs and status of a script.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// In chain order.
    pub(crate) history: Vec<(Txid, usize)>,
    /// By outpoint.
    pub(crate) unspent: Vec<Unspent>,
}

impl Facts {
    pub(crate) fn of(chain: &ChainBuilder, script: &Script) -> Self {
        let mut facts = Self::default();
        // The outputs of the genesis block do not exist for Core.
        for (height, block) in chain.blocks().iter().enumerate().skip(1) {
            for tx in &block.txdata {
                let txid = tx.compute_txid();
                let before = facts.unspent.len();
                facts.unspent.retain(|coin| tx.input.iter().all(|input| input.previous_output != coin.outpoint));
                let mut touched = facts.unspent.len() < before;
                for (vout, output) in (0..).zip(&tx.output).filter(|(_, output)| *output.script_pubkey == *script) {
                    touched = true;
                    let outpoint = OutPoint { txid, vout };
                    facts.unspent.push(Unspent { outpoint, height, sat: output.value.to_sat() });
                }
                if touched {
                    facts.history.push((txid, height));
                }
            }
        }
        facts.unspent.sort();
        facts
    }

    pub(crate) fn balance_sat(&self) -> u64 {
        self.unspent.iter().map(|coin| coin.sat).sum()
    }

    /// The protocol's status: SHA-256 of `txid:height:` for each transaction.
    pub(crate) fn status(&self) -> Option<[u8; 32]> {
        let mut engine = sha256::Hash::engine();
        for (txid, height) in &self.history {
            engine.input(format!("{txid}:{height}:").as_bytes());
        }
        (!self.history.is_empty()).then(|| sha256::Hash::from_engine(engine).to_byte_array())
    }
}

/// Scripts of the sample chain, of several kinds: used often, rarely and never.
pub(crate) fn scripts(chain: &ChainBuilder) -> Vec<ScriptBuf> {
    let kinds = [Form::P2wpkh, Form::P2pkh, Form::P2tr, Form::P2shMultisig, Form::BareMultisig];
    let locks = kinds.into_iter().flat_map(|form| (0..6).map(move |number| Lock::new(form, number)));
    // The sample chain's script with a hundred transactions, and an unused one.
    let special = [Lock::new(Form::P2wpkh, 710_001), Lock::new(Form::P2wpkh, 999_999)];
    locks.chain(special).map(|lock| chain.wallet().script_pubkey(lock)).collect()
}
