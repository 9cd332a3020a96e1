//! Transactions as bytes, without `bitcoin::Transaction`: eight million must take no more than a minute.
//!
//! Two forms are written in parallel: the full one goes into the block, the stripped one is hashed for the txid
//! ([BIP144](https://github.com/bitcoin/bips/blob/master/bip-0144.mediawiki)). Without a witness both are the same.

use birdhouse_regtest::rng::Rng;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::opcodes::all as op;
use bitcoin::{Txid, Wtxid};

use super::coins::Coin;
use super::scripts::{Form, ScriptId, Scripts};

use crate::chains::core_coding::compact_size;

/// Length of a DER signature with its type.
const SIGNATURE: usize = 71;
/// Length of a compressed key.
const KEY: usize = 33;
/// Length of a Schnorr signature.
const SCHNORR: usize = 64;
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const SEQUENCE: [u8; 4] = 0xffff_fffd_u32.to_le_bytes();

/// The last transaction built; the next one uses its buffers again.
#[derive(Debug)]
pub(super) struct TxBytes {
    /// Bytes with the witness, as in the block.
    pub(super) full: Vec<u8>,
    pub(super) txid: Txid,
    pub(super) wtxid: Wtxid,
    stripped: Vec<u8>,
    witness: Vec<u8>,
}

impl Default for TxBytes {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            txid: Txid::all_zeros(),
            wtxid: Wtxid::all_zeros(),
            stripped: Vec::new(),
            witness: Vec::new(),
        }
    }
}

impl TxBytes {
    pub(super) fn begin(&mut self) {
        self.full.clear();
        self.stripped.clear();
        self.witness.clear();
    }

    /// Returns the weight: three times the stripped size plus the full size
    /// ([BIP141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
    pub(super) fn weight(&self) -> usize {
        self.stripped.len() * 3 + self.full.len()
    }

    /// Builds a transaction; `None` among the outputs is an `OP_RETURN` with 40 random bytes.
    pub(super) fn build(
        &mut self,
        inputs: &[Coin],
        outputs: &[(Option<ScriptId>, u64)],
        scripts: &Scripts,
        rng: &mut Rng,
    ) {
        let mut segwit = false;
        self.stripped.extend(VERSION);
        compact_size(&mut self.stripped, inputs.len());
        for coin in inputs {
            segwit |= self.input(coin, scripts, rng);
        }
        compact_size(&mut self.stripped, outputs.len());
        for &(script, value) in outputs {
            self.stripped.extend(value.to_le_bytes());
            let script_pubkey = script.map_or_else(|| op_return(rng), |script| scripts.script_pubkey(script));
            sized(&mut self.stripped, &script_pubkey);
        }
        self.stripped.extend([0; 4]);
        self.txid = Txid::from_raw_hash(sha256d::Hash::hash(&self.stripped));
        if segwit {
            self.add_witness();
        } else {
            self.full.extend_from_slice(&self.stripped);
            self.wtxid = Wtxid::from_raw_hash(self.txid.to_raw_hash());
        }
    }

    fn add_witness(&mut self) {
        let locktime = self.stripped.len() - 4;
        self.full.extend(VERSION);
        self.full.extend([0, 1]);
        self.full.extend_from_slice(&self.stripped[4..locktime]);
        self.full.extend_from_slice(&self.witness);
        self.full.extend_from_slice(&self.stripped[locktime..]);
        self.wtxid = Wtxid::from_raw_hash(sha256d::Hash::hash(&self.full));
    }

    /// Writes an input and its witness; returns true when it has one.
    fn input(&mut self, coin: &Coin, scripts: &Scripts, rng: &mut Rng) -> bool {
        self.stripped.extend_from_slice(&coin.txid);
        self.stripped.extend(coin.vout.to_le_bytes());
        let form = scripts.form(coin.script);
        let script_sig = match form {
            Form::P2sh => {
                let mut script_sig = signature_and_key(rng);
                sized(&mut script_sig, &scripts.inner_script(coin.script));
                script_sig
            }
            Form::Bare => signature_and_key(rng),
            Form::Key20 | Form::Key32 | Form::P2wsh => Vec::new(),
        };
        sized(&mut self.stripped, &script_sig);
        self.stripped.extend(SEQUENCE);
        match form {
            Form::Key20 => {
                self.witness.push(2);
                self.witness.extend(signature_and_key(rng));
            }
            Form::Key32 => {
                self.witness.push(1);
                sized(&mut self.witness, &rng.bytes::<SCHNORR>());
            }
            Form::P2wsh => {
                self.witness.push(3);
                self.witness.extend(signature_and_key(rng));
                sized(&mut self.witness, &scripts.inner_script(coin.script));
            }
            Form::P2sh | Form::Bare => {
                self.witness.push(0);
                return false;
            }
        }
        true
    }
}

/// Returns two pushes. Below 76 bytes a script's push and a witness item's length are the same byte.
fn signature_and_key(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + SIGNATURE + KEY);
    sized(&mut bytes, &rng.bytes::<SIGNATURE>());
    sized(&mut bytes, &rng.bytes::<KEY>());
    bytes
}

fn op_return(rng: &mut Rng) -> Vec<u8> {
    let mut script = vec![op::OP_RETURN.to_u8()];
    sized(&mut script, &rng.bytes::<40>());
    script
}

fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    compact_size(out, bytes.len());
    out.extend_from_slice(bytes);
}
