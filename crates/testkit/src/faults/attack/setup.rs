//! The setup of an attack: a node with a small chain, a server, and the requests of honest clients.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use birdhouse_regtest::chain::ChainBuilder;
use birdhouse_regtest::mix::{self, Size};
use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::tx::{Coin, Payment};
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::secp256k1::{PublicKey, SECP256K1, Scalar};
use bitcoin::{Transaction, consensus};

use super::exposed::Exposed;
use super::honest_clients::HonestClients;
use super::prey::Prey;
use super::rest_asked::RestAsked;
use crate::Options;
use crate::chains::live::LiveNode;
use crate::clients::client::scripthash;
use crate::error::Result;
use crate::faults::asked::{Asked, Scripts, about};

/// A chain in which one script has a history of 300 kB.
const CHAIN: Size = Size { blocks: 5, block_txs: 4, scripts_per_form: 20, busy: &[10, 3000] };
/// Honest clients ask about scripts with fewer transactions than this.
const ORDINARY_TXS: usize = 30;
const ORDINARY_SCRIPTS: usize = 100;
/// Those transactions of a block that may be silent payments.
const ELIGIBLE_BLOCK_TXS: u32 = 1500;
/// Scripts that they spend and pay, each too often to be an ordinary one.
const ELIGIBLE_SCRIPTS: u32 = 40;
/// Number of the first of them; those of the sample are others.
const ELIGIBLE: u32 = 760_000;
const ELIGIBLE_SAT: u64 = 2000;

/// A node, a server and requests.
#[derive(Debug)]
pub struct Setup {
    /// The server.
    pub exposed: Exposed,
    /// Its node.
    pub live: LiveNode,
    /// The costliest things to ask about.
    pub prey: Prey,
    asked: Arc<Vec<Asked>>,
    rest_asked: Arc<Vec<RestAsked>>,
}

impl Setup {
    /// Transactions of the chain that may be silent payments, at least: a scan of them takes 10 ms, or 130 ms by
    /// complete formulas.
    pub const ELIGIBLE_TXS: u32 = 3000;

    /// Returns the address that the attackers of a round come from: a client that has spent nothing yet.
    pub fn attacker(round: u8) -> Ipv4Addr {
        Ipv4Addr::new(203, 0, 113, round)
    }

    /// Makes a chain and runs `program` on it.
    pub fn start(seed: u64, program: &Path) -> Result<Self> {
        let mut chain = mix::sample(seed, CHAIN);
        let tweak = add_eligible(&mut chain);
        let live = LiveNode::with(&chain, seed, Options::default())?;
        let scripts = live.ledger().scripts();
        let busiest = scripts.iter().max_by_key(|(_, facts)| facts.confirmed.len());
        let (heavy, _) = busiest.expect("the chain has scripts");
        let confirmed = live.ledger().chain().iter().flat_map(|mined| &mined.block.txdata);
        let largest = confirmed.max_by_key(|tx| tx.output.len()).expect("the chain has transactions");
        let (scripthash, txid) = (scripthash(heavy.as_bytes()), largest.compute_txid().to_string());
        let prey = Prey { scripthash, txid, tweak };
        let is_ordinary = |confirmed: usize| confirmed < ORDINARY_TXS;
        let some: Scripts = scripts
            .into_iter()
            .filter(|(_, facts)| is_ordinary(facts.confirmed.len()))
            .take(ORDINARY_SCRIPTS)
            .collect();
        let exposed = Exposed::start(live.node(), program)?;
        let rest_asked = Arc::new(RestAsked::about(&some));
        Ok(Self { exposed, live, prey, asked: Arc::new(about(&some)), rest_asked })
    }

    /// Starts `count` honest clients on the public listener.
    pub fn honest_clients(&self, count: u8) -> HonestClients {
        HonestClients::start(count, self.exposed.public(), &self.asked)
    }

    /// Starts `count` supervisors that ask for the server's health.
    pub fn supervisors(&self, count: u8) -> HonestClients {
        HonestClients::supervise(count, self.exposed.operations())
    }

    /// Starts `count` visitors of the public listener of the REST API.
    pub fn rest_visitors(&self, count: u8) -> HonestClients {
        HonestClients::visit(count, self.exposed.public_rest(), &self.rest_asked)
    }
}

/// Mines transactions that may be silent payments, each with a coin and a taproot output. Returns the tweak of one.
fn add_eligible(chain: &mut ChainBuilder) -> PublicKey {
    let lock = |form, number: u32| Lock::new(form, ELIGIBLE + number % ELIGIBLE_SCRIPTS);
    let mut tweak = None;
    for _ in 0..Setup::ELIGIBLE_TXS / ELIGIBLE_BLOCK_TXS {
        let paid = (0..ELIGIBLE_BLOCK_TXS).map(|number| Payment::to_lock(lock(Form::P2wpkh, number), ELIGIBLE_SAT));
        let txid = chain.pay(&paid.collect::<Vec<_>>());
        chain.mine_block();
        let is_paid = |coin: &&Coin| coin.outpoint.txid == txid && coin.sat() == ELIGIBLE_SAT;
        let coins: Vec<Coin> = chain.coins().filter(is_paid).cloned().collect();
        for coin in coins {
            let output = Payment::to_lock(lock(Form::P2tr, coin.lock.number), ELIGIBLE_SAT - 100);
            chain.spend(std::slice::from_ref(&coin), &[output]);
        }
        let last = chain.mine_block().txdata.last();
        tweak = last.map(tweak_of);
    }
    tweak.expect("blocks were mined")
}

/// Returns the tweak of a transaction with one input, which spends a P2WPKH coin.
///
/// <https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki>
fn tweak_of(transaction: &Transaction) -> PublicKey {
    let input = &transaction.input[0];
    let key = input.witness.last().and_then(|key| PublicKey::from_slice(key).ok()).expect("its key comes last");
    let tag = sha256::Hash::hash(b"BIP0352/Inputs").to_byte_array();
    let outpoint = consensus::serialize(&input.previous_output);
    let hash = sha256::Hash::hash(&[&tag[..], &tag, &outpoint, &key.serialize()].concat());
    let hash = Scalar::from_be_bytes(hash.to_byte_array()).expect("a hash is a scalar but for one in 2^128");
    key.mul_tweak(SECP256K1, &hash).expect("a key times a scalar is a key")
}
