//! Cases by hand: windows, first sight, backlogs, replacements, filters.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_watch::channel::Priority;
use birdhouse_watch::outbox::render;
use birdhouse_watch::{Notice, NoticeKind};
use bitcoin::{Address, Network, ScriptBuf, Txid};
use serde_json::{Value, json};

use crate::world::World;

/// A public key of BIP 32's first test vector, with the version of test networks.
const TPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

/// The script of a number, as Core derives it.
fn script(world: &World, branch: u32, index: u32) -> ScriptBuf {
    let node = world.live.node();
    let descriptor = format!("wpkh({TPUB}/{branch}/*)");
    let info = node.rpc("getdescriptorinfo", json!([descriptor])).unwrap();
    let derived = node.rpc("deriveaddresses", json!([info["descriptor"], [index, index]])).unwrap();
    let address: Address<_> = derived[0].as_str().unwrap().parse().unwrap();
    address.require_network(Network::Regtest).unwrap().script_pubkey()
}

fn pay(world: &mut World, branch: u32, index: u32, sat: u64) -> Txid {
    let script = script(world, branch, index);
    world.live.pay(&[Payment::to_script(script, sat)]).unwrap().compute_txid()
}

/// Kind, txid and amount received of each notice.
fn announced(notices: &[Notice]) -> Vec<(NoticeKind, Option<Txid>, u64)> {
    notices.iter().map(|notice| (notice.kind.clone(), notice.txid, notice.amounts.received)).collect()
}

fn confirmed(confirmations: u32) -> NoticeKind {
    NoticeKind::Confirmed { confirmations }
}

#[test]
fn a_restored_wallet_is_found_a_hundred_ahead_and_its_window_slides() {
    let mut world = World::start(911);
    pay(&mut world, 0, 3, 10_000);
    pay(&mut world, 0, 102, 20_000);
    pay(&mut world, 1, 7, 5_000);
    world.live.mine().unwrap();
    world.index.sync(world.core()).unwrap();
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/<0;1>/*)\"\ntell-history = true"));
    let first = world.restart();
    assert_eq!(announced(&first), [(NoticeKind::Digest { transactions: 3, is_past: true }, None, 35_000)]);
    assert_eq!(first[0].balance.unwrap().confirmed, 35_000);
    assert_eq!(world.engine.as_ref().unwrap().watches()[0].used, [103, 8]);
    assert!(world.look().is_empty());

    // The window reaches 202, then 222; 224 is beyond until 222 is used.
    let near = pay(&mut world, 0, 122, 1_000);
    assert_eq!(announced(&world.sync()), [(NoticeKind::Seen, Some(near), 1_000)]);
    let far = pay(&mut world, 0, 224, 2_000);
    assert!(world.sync().is_empty());
    let next = pay(&mut world, 0, 222, 3_000);
    // The window now has 224, too, and what was paid to it is announced with it.
    let mut both = announced(&world.sync());
    both.sort_by_key(|(_, _, received)| *received);
    assert_eq!(both, [(NoticeKind::Seen, Some(far), 2_000), (NoticeKind::Seen, Some(next), 3_000)]);
    let view = &world.engine.as_ref().unwrap().watches()[0];
    assert_eq!((view.used[0], view.balance.unconfirmed), (225, 6_000));
    assert_eq!(view.fault, None);

    // A restart tells nothing again, and goes on.
    assert!(world.restart().is_empty());
    world.live.mine().unwrap();
    let mut all = announced(&world.sync());
    all.sort_by_key(|(_, _, received)| *received);
    let expected =
        [(confirmed(1), Some(near), 1_000), (confirmed(1), Some(far), 2_000), (confirmed(1), Some(next), 3_000)];
    assert_eq!(all, expected);
}

#[test]
fn a_new_watch_says_nothing_of_the_past_and_all_of_what_comes() {
    let mut world = World::start(912);
    let old = pay(&mut world, 0, 0, 10_000);
    world.live.mine().unwrap();
    let waiting = pay(&mut world, 0, 1, 20_000);
    world.index.sync(world.core()).unwrap();
    world.watch("w", &format!("xpub = \"{TPUB}\"\nconfirmations = [0, 1, 2, 6]"));
    assert!(world.restart().is_empty());
    world.live.mine().unwrap();
    let mut all = announced(&world.sync());
    all.sort_by_key(|(_, _, received)| *received);
    assert_eq!(all, [(confirmed(2), Some(old), 10_000), (confirmed(1), Some(waiting), 20_000)]);
    // Blocks that come together are announced as the highest level that they reach.
    world.live.mine_empty(5).unwrap();
    world.index.sync(world.core()).unwrap();
    let mut all = announced(&world.restart());
    all.sort_by_key(|(_, _, received)| *received);
    assert_eq!(all, [(confirmed(6), Some(old), 10_000), (confirmed(6), Some(waiting), 20_000)]);
    // A watch that another source has taken the name of begins anew.
    world.file = world.file.replace(&format!("xpub = \"{TPUB}\""), "script = \"51\"");
    assert!(world.restart().is_empty());
    assert_eq!(world.engine.as_ref().unwrap().watches()[0].open, 0);
}

#[test]
fn a_backlog_is_told_as_one_digest() {
    let mut world = World::start(913);
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/0/*)\"\ngap = 100"));
    assert!(world.restart().is_empty());
    let scripts: Vec<ScriptBuf> = (0..60).map(|index| script(&world, 0, index)).collect();
    for script in &scripts {
        world.live.pay(&[Payment::to_script(script.clone(), 1_000)]).unwrap();
        world.live.mine().unwrap();
    }
    world.index.sync(world.core()).unwrap();
    let all = world.restart();
    assert_eq!(announced(&all), [(NoticeKind::Digest { transactions: 60, is_past: false }, None, 60_000)]);
    assert_eq!(all[0].balance.unwrap().confirmed, 60_000);
    assert!(world.restart().is_empty());
}

#[test]
fn a_digest_after_a_pause_sums_up_what_is_new_and_not_what_was_told_before() {
    let mut world = World::start(916);
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/0/*)\"\ngap = 100\nconfirmations = [0, 1, 100]"));
    assert!(world.restart().is_empty());
    for index in 0..60 {
        pay(&mut world, 0, index, 1_000);
        world.live.mine().unwrap();
        assert_eq!(announced(&world.sync()).len(), 1);
    }
    // Each of the 60 reaches another level, and two payments are new.
    world.live.mine_empty(100).unwrap();
    pay(&mut world, 0, 60, 5_000);
    pay(&mut world, 0, 61, 7_000);
    world.index.sync(world.core()).unwrap();
    let all = world.restart();
    let digest = NoticeKind::Digest { transactions: 62, is_past: false };
    assert_eq!(announced(&all), [(digest, None, 12_000)]);
    let balance = all[0].balance.unwrap();
    assert_eq!((balance.confirmed, balance.unconfirmed), (60_000, 12_000));
}

/// Spends everything that the node's wallet has at a script.
fn spend_all(world: &mut World, lock: Lock) -> Txid {
    let coins: Vec<_> = world.live.coins().into_iter().filter(|coin| coin.lock == lock).collect();
    world.live.pay_from(&coins, &[], 1_000).unwrap().compute_txid()
}

#[test]
fn the_past_is_told_from_a_height_on_and_of_an_outpoint_alone() {
    let mut world = World::start(917);
    let lock = Lock::new(Form::P2wpkh, 77);
    let script = world.live.wallet().script_pubkey(lock);
    let pay = |world: &mut World, sat| {
        let paid = world.live.pay(&[Payment::to_lock(lock, sat)]).unwrap();
        world.live.mine().unwrap();
        (paid, world.live.ledger().height())
    };
    pay(&mut world, 10_000);
    let (second, from) = pay(&mut world, 20_000);
    pay(&mut world, 40_000);
    let vout = second.output.iter().position(|output| output.script_pubkey == script).unwrap();
    let outpoint = format!("{}:{vout}", second.compute_txid());
    spend_all(&mut world, lock);
    world.live.mine().unwrap();
    world.index.sync(world.core()).unwrap();
    let watch = format!("script = \"{script:x}\"\ncold = true\ntell-history = true");
    world.watch("all", &watch);
    world.watch("later", &format!("{watch}\nfrom-height = {from}"));
    world.watch("after", &format!("{watch}\nfrom-height = {}", from + 10));
    world.watch("one", &format!("outpoint = \"{outpoint}\"\ncold = true\ntell-history = true"));
    let announced = world.restart();
    let in_short = |notice: &Notice| {
        let (name, amounts) = (notice.watch.as_str().to_owned(), notice.amounts);
        (name, notice.kind.clone(), amounts.received, amounts.spent, notice.is_partial)
    };
    let digest = |name: &str, transactions, received, spent| {
        (name.to_owned(), NoticeKind::Digest { transactions, is_past: true }, received, spent, false)
    };
    let expected =
        [digest("all", 4, 70_000, 70_000), digest("later", 3, 60_000, 70_000), digest("one", 2, 20_000, 20_000)];
    assert_eq!(announced.iter().map(in_short).collect::<Vec<_>>(), expected);
    for notice in &announced {
        assert_eq!(render(notice, None).priority, Priority::Usual, "the past is no alarm: {notice:?}");
    }
}

#[test]
fn directions_least_amounts_and_outpoints_choose_what_is_told() {
    let mut world = World::start(914);
    let funding = pay(&mut world, 0, 0, 50_000);
    world.live.mine().unwrap();
    world.index.sync(world.core()).unwrap();
    let coin = script(&world, 0, 0);
    world.watch("all", &format!("script = \"{coin:x}\""));
    world.watch("large", &format!("script = \"{coin:x}\"\nleast-amount = 30000"));
    world.watch("out", &format!("script = \"{coin:x}\"\ndirections = \"out\"\ncold = true"));
    world.watch("outpoint", &format!("outpoint = \"{funding}:0\""));
    world.watch("unknown", &format!("outpoint = \"{}:0\"", "ab".repeat(32)));
    assert!(world.restart().is_empty());
    let paid = pay(&mut world, 0, 0, 20_000);
    let names =
        |notices: &[Notice]| -> Vec<String> { notices.iter().map(|notice| notice.watch.as_str().to_owned()).collect() };
    let all = world.sync();
    assert_eq!((names(&all), all[0].txid), (vec!["all".to_owned()], Some(paid)));
    let large = pay(&mut world, 0, 0, 30_000);
    let all = world.sync();
    assert_eq!((names(&all), all[0].txid), (vec!["all".to_owned(), "large".to_owned()], Some(large)));
    let views = world.engine.as_ref().unwrap().watches();
    assert_eq!(views[3].fault, None);
    assert_eq!(views[4].fault.as_deref(), Some("neither chain nor mempool has this output yet"));
}

#[test]
fn a_reorg_of_three_is_told_and_its_blocks_again() {
    let mut world = World::start(915);
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/0/*)\"\nconfirmations = [1, 2]"));
    world.restart();
    let txid = pay(&mut world, 0, 0, 10_000);
    assert!(world.sync().is_empty());
    world.live.mine().unwrap();
    world.live.mine_empty(2).unwrap();
    let all = world.sync();
    assert_eq!(announced(&all), [(confirmed(2), Some(txid), 10_000)]);
    let block = all[0].block;
    world.live.roll_back(3).unwrap();
    assert!(world.sync().is_empty(), "the chain is shorter than it was");
    world.live.mine_empty(4).unwrap();
    let all = world.sync();
    assert_eq!(announced(&all), [(NoticeKind::Reorganised, Some(txid), 10_000)]);
    assert_eq!(all[0].block, block);
    world.live.mine().unwrap();
    let again = world.sync();
    assert_eq!(announced(&again), [(confirmed(1), Some(txid), 10_000)]);
    assert_ne!(again[0].block, block);
    let log: Value = serde_json::to_value(world.log()).unwrap();
    assert_eq!(log.as_array().unwrap().len(), 3);
    assert_eq!(log[2]["kind"], "confirmed");
}

#[test]
fn nothing_counts_as_dropped_before_the_mempool_is_listed() {
    let mut world = World::start(916);
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/0/*)\""));
    world.restart();
    let txid = pay(&mut world, 0, 0, 10_000);
    assert_eq!(announced(&world.sync()), [(NoticeKind::Seen, Some(txid), 10_000)]);
    world.reopen();
    assert!(announced(&world.restart()).is_empty());
    world.now += 3_600;
    assert!(announced(&world.look()).is_empty());
    assert!(announced(&world.sync()).is_empty(), "the node has it still");
    // The node forgets what has waited for two weeks, when the next transaction comes.
    world.live.advance_clock(15 * 86_400).unwrap();
    let elsewhere = world.live.wallet().foreign_address(5).script_pubkey();
    world.live.pay(&[Payment::to_script(elsewhere, 1_000)]).unwrap();
    assert_eq!(announced(&world.sync()), [(NoticeKind::Dropped, Some(txid), 10_000)]);
}

#[test]
fn a_block_that_comes_back_is_told_under_an_id_of_its_own() {
    let mut world = World::start(917);
    world.watch("w", &format!("descriptor = \"wpkh({TPUB}/0/*)\"\nconfirmations = [1]"));
    world.restart();
    let txid = pay(&mut world, 0, 0, 10_000);
    world.live.mine().unwrap();
    let mut all = world.sync();
    let first = all[0].block.unwrap().hash;
    let height = world.live.ledger().height();
    world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    let other = world.live.ledger().chain()[height as usize].hash;
    all.extend(world.sync());
    let node = world.live.node();
    node.rpc("invalidateblock", json!([other.to_string()])).unwrap();
    world.live.refresh().unwrap();
    world.live.mine_empty(2).unwrap();
    assert_eq!(world.live.ledger().chain()[height as usize].hash, first, "the node is back at its first block");
    all.extend(world.sync());
    let kinds: Vec<&NoticeKind> = all.iter().map(|notice| &notice.kind).collect();
    assert_eq!(kinds, [&confirmed(1), &NoticeKind::Reorganised, &confirmed(1)]);
    assert!(all.iter().all(|notice| notice.txid == Some(txid)) && all[0].block == all[2].block);
    assert_ne!(all[0].id, all[2].id, "a receiver that drops repetitions must not end at the reorg");
}
