//! The Electrum wallet restores a used seed over our server, receives a payment, and pays.

use std::collections::BTreeMap;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::electrum::{Addresses, Electrum, ElectrumWallet};
use birdhouse_testkit::peers::Home;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{ChainBuilder, mix};
use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use crate::{World, node_with, serve};

/// A native segwit wallet with a seed in Electrum's own format.
pub(super) const SEED: &str = "rhythm husband shell denial whisper apology impose spare power wide link benefit";
const COIN_SAT: u64 = 100_000_000;

/// Heights by txid, as text.
type History = BTreeMap<String, u32>;

#[test]
fn electrum_restores_a_used_seed_and_follows_its_payments() {
    let wallet = ElectrumWallet::restore(SEED).unwrap();
    let receiving = wallet.addresses(Addresses::Receiving).unwrap();
    let change = wallet.addresses(Addresses::Change).unwrap();
    let mut paid = Paid::new();
    // Several payments to one address; several addresses in one transaction; the last address before the gap ends.
    paid.pay(&[(&receiving[0], 150_000)]);
    paid.pay(&[(&receiving[0], 25_000), (&change[0], 70_000)]);
    paid.chain.mine(3);
    paid.pay(&[(&receiving[7], 1), (&receiving[7], 2), (&receiving[1], 333_333)]);
    paid.pay(&[(&receiving[receiving.len() - 1], 5_000_000)]);
    paid.chain.mine(2);

    let Paid { chain, mut history, mut sat } = paid;
    let mut world = World::on(chain);
    let mut electrum = wallet.open(world.server.port()).unwrap();
    shows(&mut electrum, sat, &history);

    let mut more = Paid { chain: world.chain, history, sat };
    more.pay(&[(&receiving[3], 44_444)]);
    Paid { chain: world.chain, history, sat } = more;
    world.publish();
    shows(&mut electrum, sat, &history);

    spends(&mut electrum, &world, sat, &mut history);
}

#[test]
fn electrum_trusts_the_self_signed_certificate_at_first_sight_and_ever_after() {
    let wallet = ElectrumWallet::restore(SEED).unwrap();
    let address = wallet.addresses(Addresses::Receiving).unwrap().remove(0);
    let mut paid = Paid::new();
    paid.pay(&[(&address, 150_000)]);
    let node = node_with(&paid.chain);
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port().unwrap());
    let start = || {
        let flags = ["--electrum-tls-addr", &format!("127.0.0.1:{port}")];
        serve(&node, Home::Folder(folder.path().into()), &flags)
    };
    let server = start();
    let mut electrum = wallet.open_by_tls(port).unwrap();
    shows(&mut electrum, paid.sat, &paid.history);

    // It pins the certificate: a server with another one would be refused.
    drop(server);
    let _server = start();
    paid.pay(&[(&address, 44_444)]);
    paid.chain.submit_to(&node).unwrap();
    shows(&mut electrum, paid.sat, &paid.history);
}

/// A chain and its payments to the wallet.
struct Paid {
    chain: ChainBuilder,
    history: History,
    sat: u64,
}

impl Paid {
    fn new() -> Self {
        let mut chain = ChainBuilder::new(11);
        mix::mature(&mut chain);
        Self { chain, history: History::new(), sat: 0 }
    }

    /// Mines one transaction in a block of its own.
    fn pay(&mut self, payments: &[(&String, u64)]) {
        let payment = |(address, sat): &(&String, u64)| {
            let address: Address<NetworkUnchecked> = address.parse().unwrap();
            let script = address.require_network(Network::Regtest).unwrap().script_pubkey();
            Payment::to_script(script, *sat)
        };
        let txid = self.chain.pay(&payments.iter().map(payment).collect::<Vec<_>>());
        self.chain.mine_block();
        self.history.insert(txid.to_string(), self.chain.height());
        self.sat += payments.iter().map(|(_, sat)| sat).sum::<u64>();
    }
}

/// Waits until the wallet has all of `history`, and compares its balance and history.
fn shows(electrum: &mut Electrum, sat: u64, history: &History) {
    let mut seen = History::new();
    let up_to_date = electrum.until("a synchronised wallet", |command| {
        seen = confirmed(&command("onchain_history")?);
        let up_to_date = command("is_synchronized")? == json!(true) && seen.len() >= history.len();
        Ok(up_to_date.then_some(()))
    });
    up_to_date.unwrap_or_else(|error| panic!("{error}\nseen: {seen:?}\npaid: {history:?}"));
    assert_eq!(seen, *history);
    let balance = electrum.command("getbalance", json!({})).unwrap();
    assert_eq!((balance_sat(&balance["confirmed"]), &balance["unconfirmed"]), (sat, &Value::Null), "{balance}");
}

/// Returns the confirmed transactions of the wallet, whose merkle proofs it has checked.
pub(super) fn confirmed(history: &Value) -> History {
    let entries = history["transactions"].as_array().unwrap().iter();
    let entry = |entry: &Value| {
        let height = u32::try_from(entry["height"].as_i64()?).ok().filter(|height| *height > 0)?;
        Some((entry["txid"].as_str()?.to_owned(), height))
    };
    entries.filter_map(entry).collect()
}

pub(super) fn balance_sat(coins: &Value) -> u64 {
    let amount = bitcoin::Amount::from_str_in(coins.as_str().unwrap(), bitcoin::Denomination::Bitcoin);
    amount.unwrap().to_sat()
}

/// The wallet signs and broadcasts over our server; a block confirms it.
fn spends(electrum: &mut Electrum, world: &World, sat: u64, history: &mut History) {
    let payee = world.chain.wallet().address(Lock::new(Form::P2wpkh, 5)).unwrap().to_string();
    let (paid_sat, fee_sat) = (COIN_SAT / 100, 1000);
    let tx = electrum.command("payto", json!({ "destination": payee, "amount": "0.01", "fee": "0.00001" })).unwrap();
    let txid = electrum.broadcast(tx.as_str().unwrap()).unwrap();
    assert_eq!(world.node.rpc("getrawmempool", json!([])).unwrap(), json!([txid]));
    world.node.rpc("generatetoaddress", json!([1, payee])).unwrap();
    history.insert(txid, world.node.height().unwrap());
    shows(electrum, sat - paid_sat - fee_sat, history);
}
