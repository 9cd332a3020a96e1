//! The processor time that a node needs for its download, with a server beside it and without.

use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_chain::Profile;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::slow_link::SlowLink;
use birdhouse_testkit::usage::Usage;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};

use super::{Home, rounds};

const TINY: Size = Size { blocks: 5, block_txs: 3, scripts_per_form: 5, busy: &[] };
const BLOCKS: u32 = 1500;
const BLOCK_TXS: u32 = 60;
/// A node has 16 blocks under way: some 80 blocks a second.
const ROUND_TRIP: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_mins(10);
const POLL: Duration = Duration::from_millis(200);

#[test]
#[ignore = "measures: BIRDHOUSE_ROUNDS pairs of downloads"]
fn processor_time_of_a_node_that_downloads() {
    let port = free_port().unwrap();
    let twin = Options::default().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"));
    let twin = Bitcoind::start(twin).unwrap();
    let mut chain = mix::sample(1, TINY);
    while chain.height() < BLOCKS {
        mix::random_traffic(&mut chain, BLOCK_TXS, 30);
        chain.mine_block();
    }
    chain.submit_to(&twin).unwrap();
    let link = SlowLink::open(port, ROUND_TRIP).unwrap();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in rounds(7) {
        // By turns, each as often the first of a pair as the other.
        if round % 2 == 0 {
            alone.push(download_alone(&chain, &link));
            beside.push(download_beside(&chain, &link));
        } else {
            beside.push(download_beside(&chain, &link));
            alone.push(download_alone(&chain, &link));
        }
        println!("round {round}: {:?} alone, {:?} beside a server", alone.last(), beside.last());
    }
    for (name, mut all) in [("alone", alone), ("beside a server", beside)] {
        all.sort_unstable();
        println!("{name}: median {:?}, {:?} to {:?}", all[all.len() / 2], all[0], all[all.len() - 1]);
    }
}

fn new_node() -> Bitcoind {
    Bitcoind::start(Options::default().arg("-maxtipage=1")).unwrap()
}

fn download_alone(chain: &ChainBuilder, link: &SlowLink) -> Duration {
    download(&new_node(), chain, link)
}

fn download_beside(chain: &ChainBuilder, link: &SlowLink) -> Duration {
    let node = new_node();
    let home = Home::new(&node, Profile::Full);
    let _server = home.start("run");
    home.wait_for_log(0, "serving the Electrum protocol");
    let cpu = download(&node, chain, link);
    assert!(home.served_height().is_some_and(|height| height > chain.height() / 2), "the server follows");
    cpu
}

/// Lets a node get the chain; returns the processor time that it took from the first connection on.
fn download(node: &Bitcoind, chain: &ChainBuilder, link: &SlowLink) -> Duration {
    let cpu = || Usage::of(node.pid().unwrap()).unwrap().cpu;
    let (before, began) = (cpu(), Instant::now());
    node.connect(link.port()).unwrap();
    while node.height().unwrap() < chain.height() {
        assert!(began.elapsed() < PATIENCE, "the node is at {}", node.height().unwrap());
        sleep(POLL);
    }
    cpu().saturating_sub(before)
}
