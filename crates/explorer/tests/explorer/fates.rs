//! Transactions that were replaced or dropped, and outputs that nothing spends. The node says which of them exist.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::Transaction;
use serde_json::{Value, json};

use crate::pages::{btc, link_of, linked, page, text};
use crate::world::World;

/// Seconds after which a node drops a transaction from its mempool (`-mempoolexpiry`, 336 hours).
const EXPIRY_S: u64 = 336 * 3600;

/// A payment, and two versions that replaced it one after the other.
fn versions(world: &mut World) -> [Transaction; 3] {
    let payment = [Payment::to_lock(Lock::new(Form::P2wpkh, 91), 70_000)];
    let first = world.live.pay(&payment).unwrap();
    world.sync();
    let second = world.live.replace(&first, &payment, 20_000).unwrap();
    world.sync();
    let third = world.live.replace(&second, &payment, 40_000).unwrap();
    world.sync();
    [first, second, third]
}

/// True if the node has a transaction.
fn has_node(world: &World, tx: &Transaction) -> bool {
    world.live.node().rpc("getmempoolentry", json!([tx.compute_txid()])).is_ok()
}

#[test]
fn a_replaced_transaction_and_its_replacements_tell_of_each_other() {
    let mut world = World::small(141);
    let versions = versions(&mut world);
    assert_eq!(versions.each_ref().map(|version| has_node(&world, version)), [false, false, true]);
    let [first, second, third] = versions.each_ref().map(Transaction::compute_txid);
    for own in [first, second, third] {
        let markup = page(&world, &format!("/tx/{own}"));
        let plain = text(&markup);
        assert!(plain.contains("Replacements"), "{plain}");
        let (_, table) = markup.split_once("id=\"versions\"").unwrap();
        let others: Vec<_> = [third, second, first].into_iter().filter(|version| *version != own).collect();
        assert_eq!(linked(table.split("</section>").next().unwrap()), others, "{own}");
        assert_eq!(plain.contains("Another transaction replaced it"), own != third, "{plain}");
        for fee in [20_000, 40_000] {
            assert!(plain.contains(&btc(fee).replace(" BTC", "")), "{fee}: {plain}");
        }
    }
    world.live.mine().unwrap();
    world.sync();
    let height = world.live.ledger().height();
    let plain = text(&page(&world, &format!("/tx/{first}")));
    assert!(plain.contains(&format!("Block {height} has a version, so this one can never be confirmed.")), "{plain}");
    let plain = text(&page(&world, &format!("/tx/{third}")));
    assert!(plain.contains("1 confirmation") && plain.contains(&format!("in block {height}")), "{plain}");
}

#[test]
fn a_dropped_transaction_says_what_it_wanted_to_spend() {
    let mut world = World::small(142);
    let payment = [Payment::to_lock(Lock::new(Form::P2wpkh, 91), 70_000)];
    let parent = world.live.pay(&payment).unwrap();
    let is_paid = |coin: &Coin| coin.outpoint.txid == parent.compute_txid() && coin.sat() == 70_000;
    let coin = world.live.coins().into_iter().find(is_paid).unwrap();
    let child = world.live.pay_from(&[coin], &[Payment::to_lock(Lock::new(Form::P2tr, 92), 30_000)], 10_000).unwrap();
    world.sync();
    world.live.replace(&parent, &payment, 60_000).unwrap();
    world.sync();
    assert!(!has_node(&world, &child));
    let markup = page(&world, &format!("/tx/{}", child.compute_txid()));
    let plain = text(&markup);
    assert!(plain.contains("dropped") && plain.contains("its transaction is gone, too"), "{plain}");
    assert_eq!(linked(&markup), [parent.compute_txid()]);
    // One that waits for too long.
    let late = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 93), 50_000)]).unwrap();
    world.sync();
    world.live.advance_clock(EXPIRY_S + 3600).unwrap();
    world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 94), 40_000)]).unwrap();
    world.sync();
    assert!(!has_node(&world, &late));
    let input = late.input[0].previous_output;
    let unspent = world.live.node().rpc("gettxout", json!([input.txid, input.vout, true])).unwrap();
    let markup = page(&world, &format!("/tx/{}", late.compute_txid()));
    let plain = text(&markup);
    assert!(plain.contains("left it without being confirmed"), "{plain}");
    assert!(markup.contains(&link_of(input)), "{markup}");
    let wanted = plain.split_once("What it wanted to spend").unwrap().1;
    assert_eq!(wanted.contains("unspent"), unspent != Value::Null, "{plain}");
    // Nobody knows this one.
    let unknown = world.rest.get(&format!("/tx/{}", "ab".repeat(32)));
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("was dropped so long ago"), "{}", unknown.text());
}

#[test]
fn an_output_without_a_spender_says_so() {
    let mut world = World::small(143);
    let paid = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 91), 71_000)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let txid = paid.compute_txid();
    let vout = paid.output.iter().position(|output| output.value.to_sat() == 71_000).unwrap();
    let found = world.live.node().rpc("gettxout", json!([txid, vout])).unwrap();
    assert_eq!(found["value"].as_f64(), Some(0.00071));
    let plain = text(&page(&world, &format!("/tx/{txid}/spender/{vout}")));
    assert!(plain.contains("No transaction of a block or of the mempool spends this output."), "{plain}");
    assert!(plain.contains(&btc(71_000)) && plain.contains(&format!("{txid}:{vout}")), "{plain}");
    assert_eq!(world.rest.get(&format!("/tx/{txid}/spender/99")).status, 404);
    assert_eq!(world.rest.get(&format!("/tx/{}/spender/0", "ab".repeat(32))).status, 404);
}
