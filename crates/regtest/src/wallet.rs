//! Keys derived from a seed, and their signatures, which a node accepts.
//!
//! Signatures are deterministic ([RFC 6979](https://www.rfc-editor.org/rfc/rfc6979);
//! [BIP340](https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki) without auxiliary randomness), so chains
//! are deterministic too.

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::key::{Keypair, TapTweak, UntweakedPublicKey};
use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{All, Message, Secp256k1, SecretKey};
use bitcoin::sighash::{Annex, EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TaprootBuilder, TaprootSpendInfo};
use bitcoin::{Address, KnownHrp, PublicKey, Script, ScriptBuf, Transaction, TxOut, Witness, ecdsa, taproot};

use crate::coin::Coin;
use crate::script::{Form, Lock, check_signature, keyless, multisig};

const ALL: EcdsaSighashType = EcdsaSighashType::All;
const SIGNABLE: &str = "the input exists and its script was made here";
/// The internal key that [BIP341](https://github.com/bitcoin/bips/blob/master/bip-0341.mediawiki) proposes for outputs
/// that are spent by scripts alone: nobody knows its logarithm.
const NOBODYS_KEY: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e, 0x07, 0x8a, 0x5a,
    0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];
/// The first byte says that it is one; the rest means nothing yet.
const ANNEX: &[u8] = b"\x50birdhouse";

/// The keys derived from one seed.
#[derive(Debug, Clone)]
pub struct Wallet {
    seed: u64,
    secp: Secp256k1<All>,
}

impl Wallet {
    /// Makes the wallet of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, secp: Secp256k1::new() }
    }

    /// Returns the output script of a lock.
    pub fn script_pubkey(&self, lock: Lock) -> ScriptBuf {
        let key = |index| self.public(lock, index);
        match lock.form {
            Form::P2pk | Form::P2pkUncompressed => check_signature(&key(0)),
            Form::P2pkh | Form::P2pkhUncompressed => ScriptBuf::new_p2pkh(&key(0).pubkey_hash()),
            Form::P2shMultisig | Form::P2shP2wpkh => self.redeem_script(lock).to_p2sh(),
            Form::P2wpkh => ScriptBuf::new_p2wpkh(&key(0).wpubkey_hash().expect("the key is compressed")),
            Form::P2wsh => self.redeem_script(lock).to_p2wsh(),
            Form::P2tr | Form::P2trAnnex => ScriptBuf::new_p2tr(&self.secp, self.internal_key(lock), None),
            Form::P2trScript | Form::P2trScriptOnly | Form::P2trScriptOnlyAnnex => {
                ScriptBuf::new_p2tr_tweaked(self.script_path(lock).output_key())
            }
            Form::LaterVersion => {
                let program = self.internal_key(lock).serialize();
                Builder::new().push_opcode(op::OP_PUSHNUM_2).push_slice(program).into_script()
            }
            Form::BareMultisig => self.redeem_script(lock),
            _ => keyless(lock),
        }
    }

    /// Returns the regtest address of a lock, if its kind has one.
    pub fn address(&self, lock: Lock) -> Option<Address> {
        Address::from_script(&self.script_pubkey(lock), bitcoin::Network::Regtest).ok()
    }

    /// Returns a taproot address that stands for one of another wallet: the chain never spends from it.
    pub fn foreign_address(&self, number: u32) -> Address {
        let key = self.internal_key(Lock::new(Form::P2tr, number));
        Address::p2tr(&self.secp, key, None, KnownHrp::Regtest)
    }

    /// Signs every input; `coins` are what they spend, in order.
    pub fn sign(&self, tx: &mut Transaction, coins: &[Coin]) {
        let prevouts: Vec<TxOut> = coins.iter().map(|coin| coin.output.clone()).collect();
        let mut cache = SighashCache::new(&*tx);
        let proofs: Vec<_> =
            coins.iter().enumerate().map(|(vin, coin)| self.prove(&mut cache, vin, coin, &prevouts)).collect();
        for (input, (script_sig, witness)) in tx.input.iter_mut().zip(proofs) {
            (input.script_sig, input.witness) = (script_sig, witness);
        }
    }

    fn prove(
        &self,
        cache: &mut SighashCache<&Transaction>,
        vin: usize,
        coin: &Coin,
        prevouts: &[TxOut],
    ) -> (ScriptBuf, Witness) {
        let lock = coin.lock;
        let script = &coin.output.script_pubkey;
        let bare = |script_sig| (script_sig, Witness::new());
        match lock.form {
            Form::P2pk | Form::P2pkUncompressed => bare(pushes(&[&self.legacy(cache, vin, lock, 0, script)])),
            Form::P2pkh | Form::P2pkhUncompressed => {
                let signature = self.legacy(cache, vin, lock, 0, script);
                bare(pushes(&[&signature, &self.public(lock, 0).to_bytes()]))
            }
            Form::BareMultisig => bare(multisig_proof(&[self.legacy(cache, vin, lock, 1, script)])),
            Form::P2shMultisig => {
                let redeem = self.redeem_script(lock);
                let signatures = [0, 2].map(|index| self.legacy(cache, vin, lock, index, &redeem));
                let proof = Builder::from(multisig_proof(&signatures).into_bytes());
                bare(proof.push_slice(push(redeem.as_bytes())).into_script())
            }
            Form::P2shP2wpkh => {
                let redeem = self.redeem_script(lock);
                let witness = self.key_hash_witness(cache, vin, coin, &redeem);
                (pushes(&[redeem.as_bytes()]), witness)
            }
            Form::P2wpkh => (ScriptBuf::new(), self.key_hash_witness(cache, vin, coin, script)),
            Form::P2wsh => {
                let inner = self.redeem_script(lock);
                let hash = cache.p2wsh_signature_hash(vin, &inner, coin.output.value, ALL).expect(SIGNABLE);
                let signature = self.ecdsa(lock, 0, Message::from_digest(hash.to_byte_array()));
                (ScriptBuf::new(), Witness::from_slice(&[signature, inner.into_bytes()]))
            }
            Form::P2tr => (ScriptBuf::new(), self.taproot_witness(cache, vin, lock, prevouts, None)),
            Form::P2trAnnex => (ScriptBuf::new(), self.taproot_witness(cache, vin, lock, prevouts, Some(ANNEX))),
            Form::P2trScript | Form::P2trScriptOnly => (ScriptBuf::new(), self.script_witness(lock, None)),
            Form::P2trScriptOnlyAnnex => (ScriptBuf::new(), self.script_witness(lock, Some(ANNEX))),
            Form::Empty => bare(Builder::new().push_opcode(op::OP_PUSHNUM_1).into_script()),
            Form::AnyoneCanSpend | Form::NonMinimal | Form::LaterVersion => bare(ScriptBuf::new()),
            Form::OpReturn | Form::Oversized | Form::TruncatedPush => {
                unreachable!("coins are made of spendable outputs only")
            }
        }
    }

    fn legacy(&self, cache: &SighashCache<&Transaction>, vin: usize, lock: Lock, key: u32, script: &Script) -> Vec<u8> {
        let hash = cache.legacy_signature_hash(vin, script, ALL.to_u32()).expect(SIGNABLE);
        self.ecdsa(lock, key, Message::from_digest(hash.to_byte_array()))
    }

    fn key_hash_witness(
        &self,
        cache: &mut SighashCache<&Transaction>,
        vin: usize,
        coin: &Coin,
        program: &Script,
    ) -> Witness {
        let hash = cache.p2wpkh_signature_hash(vin, program, coin.output.value, ALL).expect(SIGNABLE);
        let signature = self.ecdsa(coin.lock, 0, Message::from_digest(hash.to_byte_array()));
        Witness::from_slice(&[signature, self.public(coin.lock, 0).to_bytes()])
    }

    fn taproot_witness(
        &self,
        cache: &mut SighashCache<&Transaction>,
        vin: usize,
        lock: Lock,
        prevouts: &[TxOut],
        annex: Option<&[u8]>,
    ) -> Witness {
        let (kind, prevouts) = (TapSighashType::Default, Prevouts::All(prevouts));
        let signed = annex.map(|annex| Annex::new(annex).expect("it begins as one"));
        let hash = cache.taproot_signature_hash(vin, &prevouts, signed, None, kind).expect(SIGNABLE);
        let pair = Keypair::from_secret_key(&self.secp, &self.secret(lock, 0)).tap_tweak(&self.secp, None);
        let message = Message::from_digest(hash.to_byte_array());
        let signature = self.secp.sign_schnorr_no_aux_rand(&message, &pair.to_keypair());
        let mut witness = Witness::p2tr_key_spend(&taproot::Signature { signature, sighash_type: kind });
        if let Some(annex) = annex {
            witness.push(annex);
        }
        witness
    }

    /// Spends by a script that needs no signature.
    fn script_witness(&self, lock: Lock, annex: Option<&[u8]>) -> Witness {
        let leaf = (leaf(lock), LeafVersion::TapScript);
        let control_block = self.script_path(lock).control_block(&leaf).expect("the leaf is the only one");
        let mut witness = Witness::from_slice(&[leaf.0.into_bytes(), control_block.serialize()]);
        if let Some(annex) = annex {
            witness.push(annex);
        }
        witness
    }

    fn script_path(&self, lock: Lock) -> TaprootSpendInfo {
        let internal_key = match lock.form {
            Form::P2trScript => self.internal_key(lock),
            _ => UntweakedPublicKey::from_slice(&NOBODYS_KEY).expect("it is the x coordinate of a point"),
        };
        let tree = TaprootBuilder::new().add_leaf(0, leaf(lock)).expect("one leaf is a tree");
        tree.finalize(&self.secp, internal_key).expect("the tree is whole")
    }

    fn ecdsa(&self, lock: Lock, key: u32, message: Message) -> Vec<u8> {
        let signature = self.secp.sign_ecdsa(&message, &self.secret(lock, key));
        ecdsa::Signature { signature, sighash_type: ALL }.to_vec()
    }

    /// Returns the script that the P2SH or P2WSH output of this lock hashes; for bare multisig the output script
    /// itself.
    fn redeem_script(&self, lock: Lock) -> ScriptBuf {
        match lock.form {
            Form::P2shMultisig => multisig(2, &[0, 1, 2].map(|index| self.public(lock, index))),
            Form::BareMultisig => multisig(1, &[0, 1].map(|index| self.public(lock, index))),
            Form::P2shP2wpkh => {
                ScriptBuf::new_p2wpkh(&self.public(lock, 0).wpubkey_hash().expect("the key is compressed"))
            }
            _ => check_signature(&self.public(lock, 0)),
        }
    }

    fn public(&self, lock: Lock, index: u32) -> PublicKey {
        let inner = self.secret(lock, index).public_key(&self.secp);
        PublicKey { compressed: !matches!(lock.form, Form::P2pkUncompressed | Form::P2pkhUncompressed), inner }
    }

    fn internal_key(&self, lock: Lock) -> UntweakedPublicKey {
        self.secret(lock, 0).x_only_public_key(&self.secp).0
    }

    /// Derives a secret key; locks of the same number share their keys, whatever their kind.
    fn secret(&self, lock: Lock, index: u32) -> SecretKey {
        let mut engine = sha256::Hash::engine();
        // Never change this prefix: every generated chain, and the hashes that tests expect, depend on it.
        engine.input(b"birdhouse testkit");
        engine.input(&self.seed.to_le_bytes());
        engine.input(&lock.number.to_le_bytes());
        engine.input(&index.to_le_bytes());
        let bytes = sha256::Hash::from_engine(engine).to_byte_array();
        SecretKey::from_slice(&bytes).expect("a hash is below the curve's order, but for one in 2^128")
    }
}

/// Returns the script of a script path, which differs from lock to lock.
fn leaf(lock: Lock) -> ScriptBuf {
    keyless(Lock::new(Form::AnyoneCanSpend, lock.number))
}

/// Makes the `scriptSig` of a multisig; the empty first item is what `OP_CHECKMULTISIG` pops too many.
fn multisig_proof(signatures: &[Vec<u8>]) -> ScriptBuf {
    let start = Builder::new().push_opcode(op::OP_PUSHBYTES_0);
    signatures.iter().fold(start, |script, signature| script.push_slice(push(signature))).into_script()
}

fn pushes(items: &[&[u8]]) -> ScriptBuf {
    items.iter().fold(Builder::new(), |script, item| script.push_slice(push(item))).into_script()
}

fn push(bytes: &[u8]) -> PushBytesBuf {
    PushBytesBuf::try_from(bytes.to_vec()).expect("signatures, keys and redeem scripts are short")
}
