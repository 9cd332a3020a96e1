//! Payments to a silent payment address, of a sender who knows nothing of this server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use birdhouse_store::MemoryStore;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::hooked_store::{Call, Hook, HookedStore};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, Options};
use birdhouse_watch::NoticeKind;
use bitcoin::{Amount, OutPoint};

use crate::flawed::Flaw;
use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret};
use crate::spscan::descriptor;
use crate::world::{World, shorts};

fn payment(world: &mut World, key: u8, receiver: &Receiver) -> Sent {
    let (key, sat) = (secret(key), 100_000);
    let paid = world.live.pay(&[Payment::to_script(script(&key), sat)]).unwrap();
    world.live.mine().unwrap();
    let coin =
        KnownCoin { key, outpoint: OutPoint { txid: paid.compute_txid(), vout: 0 }, value: Amount::from_sat(sat) };
    pay(&coin, receiver, None, Amount::from_sat(1000))
}

#[test]
fn silent_payments_are_told_from_the_mempool_to_a_reorg() {
    let mut world = World::start(921).with_tweaks();
    let receiver = Receiver::new(1);
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    assert!(world.restart().is_empty());
    let first = payment(&mut world, 11, &receiver);
    let second = payment(&mut world, 12, &receiver);
    world.sync();
    world.live.send(&first.transaction).unwrap();
    let announced = world.sync();
    assert_eq!((announced.len(), &announced[0].kind), (1, &NoticeKind::Seen));
    assert_eq!((announced[0].txid, announced[0].amounts.received), (Some(first.transaction.compute_txid()), 99_000));
    // One that is first seen in a block, and after a restart.
    world.live.mine().unwrap();
    world.live.mine_these(vec![second.transaction.clone()]).unwrap();
    world.index.sync(world.core()).unwrap();
    let announced = world.restart();
    assert_eq!(announced.len(), 2, "{:?}", shorts(&announced));
    assert_eq!(announced[1].txid, Some(second.transaction.compute_txid()));
    assert_eq!(announced[1].balance.unwrap().confirmed, 198_000);
    assert!(world.restart().is_empty());
    let height = world.live.ledger().height();
    world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    let announced = world.sync();
    assert_eq!(announced[0].kind, NoticeKind::Reorganised, "{:?}", shorts(&announced));
}

/// Mines a payment to a silent payment address.
fn paid(world: &mut World, key: u8, receiver: &Receiver) -> Sent {
    let sent = payment(world, key, receiver);
    world.live.mine_these(vec![sent.transaction.clone()]).unwrap();
    sent
}

#[test]
fn payments_in_blocks_whose_tweaks_follow_late_are_told() {
    let mut world = World::start(922).with_tweaks();
    let receiver = Receiver::new(2);
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    assert!(world.restart().is_empty());
    let sent = paid(&mut world, 21, &receiver);
    world.live.mine_empty(300).unwrap();
    let announced = world.sync();
    assert!(announced.is_empty(), "its tweaks are not computed yet: {:?}", shorts(&announced));
    world.index.catch_up_derived(&AtomicBool::new(false)).unwrap();
    let announced = world.look();
    assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
    assert_eq!(announced[0].kind, NoticeKind::Confirmed { confirmations: 6 });
    assert!(world.restart().is_empty());
}

#[test]
fn a_watch_from_before_the_index_of_tweaks_says_nothing_of_the_past() {
    let mut world = World::start(923);
    let receiver = Receiver::new(3);
    paid(&mut world, 31, &receiver);
    world.live.mine_empty(3).unwrap();
    world.index.sync(world.core()).unwrap();
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    assert!(world.restart().is_empty());
    assert!(world.engine.as_ref().unwrap().watches()[0].fault.is_some());
    let mut world = world.with_tweaks();
    let announced = world.restart();
    assert!(announced.is_empty(), "{:?}", shorts(&announced));
    assert_eq!(world.engine.as_ref().unwrap().watches()[0].fault, None);
    let sent = paid(&mut world, 32, &receiver);
    let announced = world.sync();
    assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
}

/// Lets nothing be read while it is set, and counts the attempts.
#[derive(Default)]
struct Damage(AtomicBool, AtomicU32);

impl Hook for Damage {
    fn before(&self, call: Call) -> birdhouse_store::Result<()> {
        if call == Call::Read && self.0.load(Ordering::Relaxed) {
            self.1.fetch_add(1, Ordering::Relaxed);
            return Err(birdhouse_store::Error::Corrupt { table: "tweaks".into(), reason: "of a test".into() });
        }
        Ok(())
    }
}

#[test]
fn damaged_tweaks_are_a_fault_of_their_watch_alone() {
    let damage = Arc::new(Damage::default());
    let store = HookedStore::new(Arc::new(MemoryStore::new()), Arc::clone(&damage));
    let mut world = World::start(925).with_tweaks_in(Arc::new(store));
    let receiver = Receiver::new(5);
    let other = world.live.wallet().foreign_address(3).script_pubkey();
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    world.watch("other", &format!("script = \"{}\"", other.to_hex_string()));
    assert!(world.restart().is_empty());
    let sent = paid(&mut world, 51, &receiver);
    let to_other = world.live.pay(&[Payment::to_script(other, 30_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    world.index.sync(world.core()).unwrap();
    damage.0.store(true, Ordering::Relaxed);
    let announced = world.sync();
    assert_eq!(announced.iter().map(|notice| notice.txid).collect::<Vec<_>>(), [Some(to_other)]);
    let faults = |world: &World| world.engine.as_ref().unwrap().watches().into_iter().map(|watch| watch.fault);
    let [silent, of_other] = faults(&world).collect::<Vec<_>>().try_into().unwrap();
    assert!(silent.is_some_and(|fault| fault.contains("damaged")) && of_other.is_none());
    damage.0.store(false, Ordering::Relaxed);
    let announced = world.look();
    assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
    assert!(faults(&world).all(|fault| fault.is_none()));
}

#[test]
fn a_scan_that_failed_is_not_repeated_at_each_change_of_the_mempool() {
    let damage = Arc::new(Damage::default());
    let store = HookedStore::new(Arc::new(MemoryStore::new()), Arc::clone(&damage));
    let mut world = World::start(927).with_tweaks_in(Arc::new(store));
    let receiver = Receiver::new(7);
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    assert!(world.restart().is_empty());
    let sent = paid(&mut world, 71, &receiver);
    world.index.sync(world.core()).unwrap();
    damage.0.store(true, Ordering::Relaxed);
    let elsewhere = |world: &mut World| {
        let script = world.live.wallet().foreign_address(9).script_pubkey();
        world.live.pay(&[Payment::to_script(script, 30_000)]).unwrap();
        world.sync()
    };
    assert!(world.sync().is_empty());
    let reads = || damage.1.load(Ordering::Relaxed);
    let of_one = reads();
    for _ in 0..10 {
        assert!(elsewhere(&mut world).is_empty());
        assert!(world.faults()["silent"].contains("damaged"), "it stays: {:?}", world.faults());
    }
    assert!(of_one > 0 && reads() == of_one, "{of_one} reads, then {}", reads());
    world.now += 5;
    assert!(elsewhere(&mut world).is_empty() && reads() > of_one);
    damage.0.store(false, Ordering::Relaxed);
    world.now += 60;
    let announced = elsewhere(&mut world);
    assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
    assert!(world.faults().is_empty());
}

/// Of a payment whose tweak follows late, every read fails once: that of its bytes, and those of its script's history.
#[test]
fn a_silent_payment_is_told_once_whichever_read_fails() {
    for is_killed in [false, true] {
        let mut world = World::start(926).with_tweaks();
        let receiver = Receiver::new(6);
        world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
        assert!(world.restart().is_empty());
        let sent = paid(&mut world, 61, &receiver);
        world.live.mine_empty(300).unwrap();
        assert!(world.sync().is_empty(), "its tweaks are not computed yet");
        world.index.catch_up_derived(&AtomicBool::new(false)).unwrap();
        let mut faults = 0;
        let announced = loop {
            world.flaw = Flaw::Once(faults);
            let announced = if is_killed { world.restart() } else { world.look() };
            if world.faults().is_empty() {
                break announced;
            }
            assert!(announced.is_empty(), "read {faults}: {:?}", shorts(&announced));
            faults += 1;
        };
        assert!(faults > 5, "{faults}");
        assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
        world.flaw = Flaw::None;
        assert!(world.look().is_empty() && world.restart().is_empty());
    }
}

#[test]
fn a_silent_payment_in_a_removed_block_is_told_once_its_block_is_fetched() {
    let mut world = World::pruned(924).with_tweaks();
    let receiver = Receiver::new(4);
    world.watch("silent", &format!("silent-payment = \"{}\"", descriptor(&receiver)));
    assert!(world.restart().is_empty());
    let sent = paid(&mut world, 41, &receiver);
    let (height, block) = (world.live.ledger().height(), world.live.ledger().chain().last().unwrap().hash);
    // Peers have the whole chain. The engine is not there while the node prunes.
    let port = free_port().unwrap();
    let peer = Bitcoind::start(Options::default().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"))).unwrap();
    world.engine = None;
    let kept = world.prune();
    assert!(kept > height, "the block at {height} is still there");
    for mined in &world.live.ledger().chain()[1..] {
        peer.submit(0, &mined.block).unwrap();
    }
    assert!(world.restart().is_empty());
    for _ in 0..2 {
        let fault = world.engine.as_ref().unwrap().watches()[0].fault.clone();
        assert!(fault.as_ref().is_some_and(|fault| fault.contains("removed")), "it stays: {fault:?}");
        // A restart forgets neither the payment nor the fault.
        assert!(world.restart().is_empty() && world.look().is_empty());
    }
    world.live.node().meet(port).unwrap();
    let parts = world.engine.as_ref().unwrap().wanted();
    assert_eq!(parts.iter().map(|part| part.block).collect::<Vec<_>>(), [block]);
    for part in parts {
        world.index.fetch_removed(part).unwrap();
    }
    let announced = world.look();
    assert_eq!((announced.len(), announced[0].txid), (1, Some(sent.transaction.compute_txid())));
    assert_eq!(announced[0].amounts.received, 99_000);
    assert_eq!(world.engine.as_ref().unwrap().watches()[0].fault, None);
    assert!(world.restart().is_empty());
}
