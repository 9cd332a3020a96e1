//! The naive model of a changing node, and another server: after each kind of move `ElectrumX` is asked, and
//! differences from the model are listed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Scripts, about, agrees, changed};
use birdhouse_testkit::live::{LiveNode, Made, Move};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{ElectrumX, Peer, part};

const TINY: Size = Size { blocks: 10, block_txs: 6, scripts_per_form: 30, busy: &[10] };
const TRIES: usize = 10;
const PATIENCE: Duration = Duration::from_mins(1);

fn options() -> Options {
    let small = ["-maxmempool=1", "-limitclustersize=25", "-mempoolexpiry=1"];
    small.into_iter().fold(Options::default().with_indexes(), Options::arg)
}

#[test]
fn every_kind_of_move_happens() {
    let mut live = LiveNode::start(41, TINY, options()).unwrap();
    let electrumx = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(live.node()));
    for what in Move::ALL {
        let before = live.ledger().scripts();
        // The mempool has transactions, whatever the move before has mined.
        while live.ledger().mempool().len() < 4 {
            live.make(Move::Pay).unwrap();
        }
        // A move with random parts may be impossible or refused.
        let height = live.ledger().height();
        let mut tries = Vec::new();
        while tries.last() != Some(&Made::Yes) {
            assert!(tries.len() < TRIES, "{what:?}: {tries:?}");
            tries.push(live.make(what).unwrap());
        }
        // ElectrumX changes to another branch only when that is longer than its own.
        if live.ledger().height() < height {
            let missing = height + 1 - live.ledger().height();
            live.mine_empty(missing as usize).unwrap();
        }
        let scripts = changed(&before, &live.ledger().scripts());
        println!("{what:?}: {} scripts changed {tries:?}", scripts.len());
        ask(electrumx.as_ref(), &scripts, &format!("{what:?}"));
    }
    ask(electrumx.as_ref(), &live.ledger().scripts(), "at the end");
}

/// Asks the peer until it agrees with the model, and lists a difference that stays.
fn ask(electrumx: Option<&Peer>, scripts: &Scripts, context: &str) {
    let Some(electrumx) = electrumx else { return };
    match agrees(electrumx, &about(scripts), PATIENCE) {
        Ok(took) => println!("{context}: followed after {took:?}"),
        Err(error) => part::fault(part::ELECTRUMX, &format!("{context}: {error}")),
    }
}
