//! The Electrum wallet follows a payment through all of its states and must show each.

use std::collections::BTreeMap;

use birdhouse_testkit::electrum::{Addresses, Electrum, ElectrumWallet};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::tx::Payment;
use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, Denomination, Network, ScriptBuf, Transaction};
use serde_json::{Value, json};

use crate::LiveWorld;

/// A native segwit wallet with a seed in Electrum's own format.
const SEED: &str = "rhythm husband shell denial whisper apology impose spare power wide link benefit";

/// The expected state of the wallet: heights by txid (0 or -1: unconfirmed), and sums in satoshi.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shown {
    history: BTreeMap<String, i64>,
    confirmed_sat: i64,
    unconfirmed_sat: i64,
}

#[test]
fn electrum_shows_a_payment_unconfirmed_replaced_confirmed_reorged_out_and_back() {
    let wallet = ElectrumWallet::restore(SEED).unwrap();
    let scripts: Vec<ScriptBuf> =
        wallet.addresses(Addresses::Receiving).unwrap().iter().map(|address| script(address)).collect();
    let mut world = LiveWorld::start(51);
    let first = world.pay(&scripts[0], 100_000);
    world.live.mine().unwrap();
    let mut electrum = wallet.open(world.server.port()).unwrap();
    let mut shown = Shown::default();
    shown.confirmed(&first, &world.live, 100_000);
    shows(&mut electrum, &shown, "a payment from before");
    let before = shown.clone();

    let cheap = world.pay(&scripts[1], 250_000);
    shown.unconfirmed(&cheap, 0, 250_000);
    shows(&mut electrum, &shown, "an unconfirmed payment");

    let dear = world.live.replace(&cheap, &[Payment::to_script(scripts[2].clone(), 300_000)], 20_000).unwrap();
    shown = before.clone();
    shown.unconfirmed(&dear, 0, 300_000);
    shows(&mut electrum, &shown, "its replacement, for another address");

    let mut with_child = shown.clone();
    let change = world.live.coins().into_iter().find(|coin| coin.outpoint.txid == dear.compute_txid()).unwrap();
    let child = world.live.pay_from(&[change], &[Payment::to_script(scripts[0].clone(), 70_000)], 5000).unwrap();
    with_child.unconfirmed(&child, -1, 70_000);
    shows(&mut electrum, &with_child, "an unconfirmed child of the unconfirmed payment");

    world.live.mine().unwrap();
    shown = before.clone();
    shown.confirmed(&dear, &world.live, 300_000);
    shown.confirmed(&child, &world.live, 70_000);
    shows(&mut electrum, &shown, "both confirmed");

    world.live.roll_back(1).unwrap();
    shows(&mut electrum, &with_child, "both reorged out, unconfirmed again");

    world.live.mine_empty(1).unwrap();
    world.live.mine().unwrap();
    shown = before.clone();
    shown.confirmed(&dear, &world.live, 300_000);
    shown.confirmed(&child, &world.live, 70_000);
    shows(&mut electrum, &shown, "both reorged back, a block later");

    // The branch that replaces these blocks holds a transaction that spends the same coin for somebody else.
    let coins = world.live.coins_of(&dear);
    let total = coins.iter().map(birdhouse_testkit::tx::Coin::sat).sum::<u64>();
    let elsewhere = world.live.wallet().foreign_address(1).script_pubkey();
    let theft = world.live.sign(&coins, &[Payment::to_script(elsewhere, total - 1000)]);
    let fork = world.live.ledger().height() - 2;
    world.live.branch(fork, vec![vec![theft], Vec::new(), Vec::new()]).unwrap();
    // The wallet now treats them as its own local transactions, which only the user removes; it refuses that for
    // others.
    let gone = dear.compute_txid().to_string();
    let vanished = electrum.until("a payment that is gone", |command| {
        let is_there = history(&command("onchain_history")?).contains_key(&gone);
        Ok((!is_there).then_some(()))
    });
    vanished.unwrap();
    electrum.command("removelocaltx", json!({ "txid": gone })).unwrap();
    shows(&mut electrum, &before, "both gone for good: their coin was spent otherwise");
}

fn script(address: &str) -> ScriptBuf {
    let address: Address<NetworkUnchecked> = address.parse().unwrap();
    address.require_network(Network::Regtest).unwrap().script_pubkey()
}

impl Shown {
    /// Confirmed in the last block.
    fn confirmed(&mut self, tx: &Transaction, live: &LiveNode, sat: i64) {
        self.history.insert(tx.compute_txid().to_string(), live.ledger().height().into());
        self.confirmed_sat += sat;
    }

    fn unconfirmed(&mut self, tx: &Transaction, height: i64, sat: i64) {
        self.history.insert(tx.compute_txid().to_string(), height);
        self.unconfirmed_sat += sat;
    }
}

/// Waits until the wallet shows exactly the expected state.
fn shows(electrum: &mut Electrum, expected: &Shown, what: &str) {
    let mut seen = Shown::default();
    let shown = electrum.until(what, |command| {
        seen = Shown { history: history(&command("onchain_history")?), ..Shown::default() };
        let balance = command("getbalance")?;
        (seen.confirmed_sat, seen.unconfirmed_sat) = (sat(&balance["confirmed"]), sat(&balance["unconfirmed"]));
        let is_synchronized = command("is_synchronized")? == json!(true);
        Ok((is_synchronized && seen == *expected).then_some(()))
    });
    shown.unwrap_or_else(|error| panic!("{what}: {error}\nshown: {seen:#?}\nexpected: {expected:#?}"));
}

/// Local transactions of the wallet (height -2) are in no mempool and no block.
fn history(history: &Value) -> BTreeMap<String, i64> {
    let entries = history["transactions"].as_array().unwrap().iter();
    let entry = |entry: &Value| Some((entry["txid"].as_str()?.to_owned(), entry["height"].as_i64()?));
    entries.filter_map(entry).filter(|(_, height)| *height >= -1).collect()
}

/// The wallet leaves a sum out when it is zero.
fn sat(coins: &Value) -> i64 {
    let amount = coins.as_str().map(|text| bitcoin::SignedAmount::from_str_in(text, Denomination::Bitcoin).unwrap());
    amount.unwrap_or_default().to_sat()
}
