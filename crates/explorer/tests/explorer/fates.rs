//! Transactions that were replaced or dropped, and outputs that nothing spends. The node says which of them exist.

use std::time::{Duration, Instant};

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::Transaction;
use serde_json::{Value, json};

use crate::pages::{btc, link_of, linked, page, text};
use crate::world::World;

/// Seconds after which a node drops a transaction from its mempool (`-mempoolexpiry`, 336 hours).
const EXPIRY_S: u64 = 336 * 3600;

/// True if the node has a transaction.
fn has_node(world: &World, tx: &Transaction) -> bool {
    world.live.node().rpc("getmempoolentry", json!([tx.compute_txid()])).is_ok()
}

/// Waits for a condition, a minute at most.
fn wait_until(is_met: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_met() {
        assert!(Instant::now() < deadline, "the condition is not met");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_replaced_transaction_and_its_replacements_tell_of_each_other() {
    let mut world = World::small(141);
    let versions = world.versions();
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

#[test]
fn a_reorg_is_explained_where_it_took_a_confirmation_away() {
    let mut world = World::small(144);
    let paid = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 91), 72_000)]).unwrap();
    let txid = paid.compute_txid();
    world.live.mine().unwrap();
    world.sync();
    let stale = world.live.ledger().chain().last().unwrap().hash;
    let height = world.live.ledger().height();
    assert!(text(&page(&world, &format!("/tx/{txid}"))).contains("1 confirmation"));
    // Two blocks without it on the block before.
    world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    world.sync();
    let header = world.live.node().rpc("getblockheader", json!([stale])).unwrap();
    assert_eq!(header["confirmations"], json!(-1));
    assert!(has_node(&world, &paid));
    // The server notices after the snapshot is there.
    wait_until(|| page(&world, &format!("/tx/{txid}")).contains("A reorg took block"));
    let markup = page(&world, &format!("/tx/{txid}"));
    let plain = text(&markup);
    assert!(plain.contains("unconfirmed") && plain.contains("Its confirmations are gone with the block."), "{plain}");
    assert!(markup.contains(&format!("href=\"/block/{stale}\"")), "{markup}");
    let now = world.live.node().rpc("getblockhash", json!([height])).unwrap();
    let of_block = page(&world, &format!("/block/{stale}"));
    assert!(text(&of_block).contains("stale"), "{}", text(&of_block));
    assert!(of_block.contains(&format!("href=\"/block/{}\"", now.as_str().unwrap())), "{of_block}");
    world.live.mine().unwrap();
    world.sync();
    let plain = text(&page(&world, &format!("/tx/{txid}")));
    assert!(plain.contains("1 confirmation") && plain.contains("Another block has the transaction now"), "{plain}");
}

/// A wallet user's five frights: each has a page that says what happened, and what it means.
#[test]
fn five_frights_of_a_wallet_user_have_a_page_each() {
    let mut world = World::small(145);
    let lock = Lock::new(Form::P2wpkh, 91);
    let payment = [Payment::to_lock(lock, 70_000)];
    let says = |world: &World, path: &str, words: &[&str]| {
        let got = world.rest.get(path);
        let plain = text(&got.text());
        for word in words {
            assert!(plain.contains(word), "{path} lacks {word}: {plain}");
        }
        got.status
    };
    // Unconfirmed: when it came, and when it is expected.
    let first = world.live.pay(&payment).unwrap();
    world.sync();
    let path = |tx: &Transaction| format!("/tx/{}", tx.compute_txid());
    assert!(has_node(&world, &first));
    assert_eq!(says(&world, &path(&first), &["unconfirmed", "First seen", "Expected in", "the next block"]), 200);
    // Replaced: by what.
    let second = world.live.replace(&first, &payment, 20_000).unwrap();
    world.sync();
    assert!(!has_node(&world, &first));
    let by = second.compute_txid().to_string();
    assert_eq!(says(&world, &path(&first), &["replaced", "Another transaction replaced it", &by[..60]]), 200);
    // Dropped: what became of the coins.
    world.live.advance_clock(EXPIRY_S + 3600).unwrap();
    world.live.pay(&[Payment::to_lock(lock, 40_000)]).unwrap();
    world.sync();
    assert!(!has_node(&world, &second));
    assert_eq!(says(&world, &path(&second), &["dropped", "A dropped transaction moves nothing", "unspent"]), 200);
    // Wrong network.
    let mainnet = "/address/bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    assert_eq!(says(&world, mainnet, &["another network", "this server is for regtest"]), 400);
    // Reorg.
    let third = world.live.pay(&[Payment::to_lock(lock, 71_000)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let height = world.live.ledger().height();
    world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    world.sync();
    wait_until(|| page(&world, &path(&third)).contains("A reorg took block"));
    assert_eq!(says(&world, &path(&third), &["unconfirmed", "Its confirmations are gone with the block."]), 200);
}
