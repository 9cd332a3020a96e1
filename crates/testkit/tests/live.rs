//! The naive model of a changing node, checked by another server: after each kind of move `ElectrumX` must answer as
//! the model does.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{about, agrees, changed};
use birdhouse_testkit::live::{LiveNode, Made, Move};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::ElectrumX;

const TINY: Size = Size { blocks: 10, block_txs: 6, scripts_per_form: 30, busy: &[10] };
const TRIES: usize = 10;
const PATIENCE: Duration = Duration::from_mins(1);

fn options() -> Options {
    let small = ["-maxmempool=1", "-limitclustersize=25", "-mempoolexpiry=1"];
    small.into_iter().fold(Options::default().with_indexes(), Options::arg)
}

#[test]
fn every_kind_of_move_happens_and_electrumx_sees_it_as_the_model_does() {
    let mut live = LiveNode::start(41, TINY, options()).unwrap();
    let electrumx = ElectrumX::start(live.node()).unwrap();
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
        let took = agrees(&electrumx, &about(&scripts), PATIENCE);
        let took = took.unwrap_or_else(|error| panic!("{what:?}: {error}"));
        println!("{what:?}: {} scripts changed, followed after {took:?} {tries:?}", scripts.len());
    }
    let all = live.ledger().scripts();
    agrees(&electrumx, &about(&all), PATIENCE).unwrap();
}
