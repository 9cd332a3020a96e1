//! Places of the index and of the node's files that cannot be read: a fault of the watch that needs them, and of no
//! other one.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_watch::{Notice, NoticeKind};
use bitcoin::{BlockHash, ScriptBuf, Txid};

use crate::world::{World, shorts};

/// Seconds after which a place is tried again for the first time.
const FIRST_PAUSE_S: u64 = 5;
/// Seconds after which a place that failed for long is tried again.
const LONGEST_PAUSE_S: u64 = 60;

/// A world whose payments spend nothing of each other, and so nothing of a block that cannot be read.
struct Payer {
    world: World,
    coins: Vec<Coin>,
}

impl Payer {
    fn start(seed: u64) -> Self {
        let mut world = World::start(seed);
        let lock = Lock::new(Form::P2wpkh, 960_001);
        world.live.pay(&vec![Payment::to_lock(lock, 100_000); 40]).unwrap();
        world.live.mine().unwrap();
        world.index.sync(world.core()).unwrap();
        let coins = world.live.confirmed_coins().into_iter().filter(|coin| coin.lock == lock).collect();
        Self { world, coins }
    }

    fn watched(&mut self, name: &str, number: u32) -> ScriptBuf {
        let script = self.world.live.wallet().foreign_address(number).script_pubkey();
        self.world.watch(name, &format!("script = \"{}\"", script.to_hex_string()));
        script
    }

    fn pay(&mut self, script: &ScriptBuf) -> Txid {
        let coin = self.coins.pop().unwrap();
        let payment = Payment::to_script(script.clone(), 30_000);
        self.world.live.pay_from(&[coin], &[payment], 1_000).unwrap().compute_txid()
    }

    /// Mines a payment that the index has not seen before.
    fn mined(&mut self, script: &ScriptBuf) -> (Txid, BlockHash) {
        let txid = self.pay(script);
        self.world.live.mine().unwrap();
        (txid, self.world.live.ledger().chain().last().unwrap().hash)
    }

    /// Announces a change of the mempool that is no watch's.
    fn elsewhere(&mut self) -> Vec<Notice> {
        let script = self.world.live.wallet().foreign_address(9).script_pubkey();
        self.pay(&script);
        self.world.sync()
    }
}

fn txids(notices: &[Notice]) -> Vec<Txid> {
    notices.iter().filter_map(|notice| notice.txid).collect()
}

fn recovers(seed: u64, restart: fn(&mut World)) {
    let mut payer = Payer::start(seed);
    let (first, second) = (payer.watched("first", 3), payer.watched("second", 4));
    assert!(payer.world.restart().is_empty());
    let (to_first, block) = payer.mined(&first);
    let (to_second, _) = payer.mined(&second);
    payer.world.blocks.lose(block);
    assert_eq!(txids(&payer.world.sync()), [to_second]);
    let faults = payer.world.faults();
    assert!(faults.len() == 1 && faults["first"].contains("sector"), "{faults:?}");
    // The chain goes on, and so does the other watch.
    let (again, _) = payer.mined(&second);
    assert_eq!(txids(&payer.world.sync()), [again]);
    restart(&mut payer.world);
    assert_eq!(payer.world.faults(), faults);
    payer.world.blocks.repair();
    payer.world.now += LONGEST_PAUSE_S;
    let announced = payer.elsewhere();
    assert_eq!(txids(&announced), [to_first], "{:?}", shorts(&announced));
    assert_eq!(announced[0].kind, NoticeKind::Confirmed { confirmations: 1 });
    assert_eq!(announced[0].balance.unwrap().confirmed, 30_000);
    assert!(payer.world.faults().is_empty());
    assert!(payer.world.look().is_empty() && payer.world.restart().is_empty());
    assert_eq!(txids(&payer.world.log()), [to_second, again, to_first]);
}

#[test]
fn a_block_that_cannot_be_read_is_a_fault_of_its_watch_alone_until_it_can() {
    recovers(961, |_| ());
}

#[test]
fn a_fault_outlives_a_restart_and_so_does_what_is_still_to_announce() {
    recovers(962, |world| {
        for _ in 0..2 {
            let announced = world.restart();
            assert!(announced.is_empty(), "{:?}", shorts(&announced));
        }
    });
}

/// The cursor is at the tip that the watch has not seen.
#[test]
fn a_level_and_a_reorg_that_a_fault_held_back_are_announced_after_a_restart_at_the_same_tip() {
    let mut payer = Payer::start(963);
    let script = payer.watched("first", 3);
    assert!(payer.world.restart().is_empty());
    let (known, _) = payer.mined(&script);
    assert_eq!(txids(&payer.world.sync()), [known]);
    let height = payer.world.live.ledger().height();
    // The known payment comes in a later block of the other branch.
    payer.world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    let (fresh, block) = payer.mined(&script);
    payer.world.blocks.lose(block);
    assert!(payer.world.sync_at_once().is_empty() && payer.world.faults().len() == 1);
    payer.world.blocks.repair();
    let announced = payer.world.restart();
    let kinds: Vec<_> = announced.iter().map(|notice| (&notice.kind, notice.txid)).collect();
    assert_eq!(kinds[0], (&NoticeKind::Reorganised, Some(known)), "{:?}", shorts(&announced));
    assert!(txids(&announced[1..]).contains(&fresh), "{:?}", shorts(&announced));
    assert!(payer.world.restart().is_empty());
}

#[test]
fn a_fault_that_stands_makes_no_change_of_the_mempool_read_its_watch() {
    let mut payer = Payer::start(964);
    let script = payer.watched("first", 3);
    assert!(payer.world.restart().is_empty());
    let (_, block) = payer.mined(&script);
    payer.world.blocks.lose(block);
    assert!(payer.world.sync().is_empty());
    let failures = payer.world.blocks.failures();
    assert!(failures > 0);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(payer.pay(&script));
        assert!(payer.world.sync().is_empty() && payer.elsewhere().is_empty());
    }
    assert_eq!(payer.world.blocks.failures(), failures);
    // Each pause is twice as long as the one before.
    for pause in [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S] {
        let failures = payer.world.blocks.failures();
        payer.world.now += pause - 1;
        assert!(payer.elsewhere().is_empty() && payer.world.blocks.failures() == failures, "after less than {pause} s");
        payer.world.now += 1;
        assert!(payer.elsewhere().is_empty() && payer.world.blocks.failures() > failures, "after {pause} s");
    }
    payer.world.blocks.repair();
    payer.world.now += LONGEST_PAUSE_S;
    let announced = payer.elsewhere();
    assert_eq!(announced.len(), 11, "{:?}", shorts(&announced));
    assert!(seen.iter().all(|txid| txids(&announced).contains(txid)));
}
