//! Every answer for every script of a chain, compared with other servers and with a naive scan of the blocks.
//!
//! The chain is reorganised while Birdhouse follows it, above and below the block where its build ended. Then the same
//! requests go to Birdhouses that followed and to Birdhouses that were built at the final tip; each must give the
//! answers that [`model::Model`] computes from the blocks. They also go to the peers that take part,
//! whose faults are listed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod check;
mod model;
mod newest;
mod world;

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use birdhouse_testkit::Options;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Electrs, ElectrumX, Peer, part};
use bitcoin::constants::genesis_block;
use bitcoin::{Network, ScriptBuf};

use crate::check::{BATCH, Order, check};
use crate::model::{Asked, Model};
use crate::world::World;

/// A few thousand scripts, one of them too large for a bucket row.
const QUICK: Size =
    Size { blocks: 90, block_txs: 16, scripts_per_form: 180, busy: &[1, 2, 64, 65, 255, 256, 257, 700] };
/// A smaller chain, for the other block sources.
const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };

/// Distance between requested transactions, and between requested blocks.
#[derive(Debug, Clone, Copy)]
struct Steps {
    txs: usize,
    blocks: usize,
}

/// All requests of one world, by the servers that can answer them.
struct Questions {
    common: Vec<Asked>,
    /// electrs knows no checkpoints.
    proofs: Vec<Asked>,
    /// electrs indexes the output of the genesis block.
    genesis: Vec<Asked>,
}

impl Questions {
    fn about(world: &World, steps: Steps) -> Self {
        let model = Model::of(world.chain.blocks());
        let genesis: Vec<ScriptBuf> = genesis_block(Network::Regtest).txdata[0]
            .output
            .iter()
            .map(|output| output.script_pubkey.clone())
            .collect();
        let mut common = model.scripts(&world.paid);
        common.extend(model.transactions(steps.txs));
        common.extend(model.positions(steps.blocks));
        common.extend(model.headers());
        Self { common, proofs: model.header_proofs(), genesis: model.scripts(&genesis) }
    }

    fn put_to(&self, name: &str, server: &Peer, order: Order) -> Result<(), String> {
        check(name, server, order, BATCH, &self.common)?;
        check(name, server, order, BATCH, &self.genesis)?;
        // While ElectrumX extends its cache of header hashes for one request, it answers others wrongly.
        let batch = if order == Order::Any { 1 } else { BATCH };
        check(name, server, order, batch, &self.proofs)
    }
}

/// Reorgs around and below the height where the servers' builds ended.
fn reorganise(world: &mut World, depths: &[u32]) {
    // Across the end of the build, while it is the tip.
    let (whole, built) = (world.chain.clone(), world.node.height().unwrap());
    world.chain.rollback_to(built);
    world.reorg(3);
    world.chain = whole;
    world.publish();
    for &depth in depths {
        world.reorg(depth);
        world.grow(2);
        world.reorg_with_the_same_transactions(depth.min(10));
    }
}

/// Asks every server, and the peers that take part. A difference of a peer is listed and fails nothing.
fn compare(world: &mut World, steps: Steps, electrs: Option<Peer>) {
    let node = &world.node;
    let electrumx = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(node));
    let questions = Questions::about(world, steps);
    std::thread::scope(|scope| {
        if let Some(electrumx) = &electrumx {
            scope.spawn(|| list(part::ELECTRUMX, questions.put_to("ElectrumX", electrumx, Order::Any)));
        }
        for server in &world.servers {
            questions.put_to(&server.name, &server.peer, Order::Chain).unwrap_or_else(|error| panic!("{error}"));
        }
    });
    if let Some(electrs) = electrs {
        list(part::ELECTRS, check("electrs", &electrs, Order::Any, BATCH, &questions.common));
    }
}

/// Lists the differences of a peer.
fn list(peer: &str, result: Result<(), String>) {
    if let Err(differences) = result {
        part::fault(peer, &differences);
    }
}

fn verify_all(world: &mut World) {
    for server in std::mem::take(&mut world.servers) {
        let (name, profile) = (server.name.clone(), server.profile);
        let (output, home) = world.verify(server);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(" 0 differences"), "{name}: {said}{output:?}");
        if profile == "full" {
            let path = home.path().join("regtest/arrays/txid");
            let whole = fs::read(&path).unwrap();
            damage(&path);
            let output = world.verify_folder(home.path(), profile);
            let said = String::from_utf8_lossy(&output.stdout);
            // The log writes again what it still holds, which is all of a small index.
            let is_found = !output.status.success();
            assert!(is_found || fs::read(&path).unwrap() == whole, "{name}: damage is not found: {said}");
        }
    }
}

/// Flips bits in the txids of an early block: those of later ones may belong to stale blocks.
fn damage(path: &Path) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let place = SeekFrom::Start(32 * 50);
    let mut bytes = [0; 8];
    file.seek(place).unwrap();
    file.read_exact(&mut bytes).unwrap();
    file.seek(place).unwrap();
    file.write_all(&bytes.map(|byte| !byte)).unwrap();
}

#[test]
fn every_answer_equals_that_of_the_peers_and_of_the_blocks_after_reorgs_of_any_depth() {
    let mut world = World::new(11, QUICK, 40, Options::default().with_indexes());
    for profile in ["full", "lean"] {
        world.start("that followed", profile, &[]);
    }
    reorganise(&mut world, &[1, 5, 30, 130]);
    world.settle();
    for profile in ["full", "lean"] {
        world.start("built at once", profile, &[]);
    }
    let electrs = part::start_if_asked(part::ELECTRS, || Electrs::start(&world.node));
    compare(&mut world, Steps { txs: 1, blocks: 9 }, electrs);
    verify_all(&mut world);
}

/// A Birdhouse without access to the node's files.
fn compare_without_files(node: Options, expected_source: &str) {
    let empty = tempfile::tempdir().unwrap();
    let mut world = World::new(12, TINY, 10, node.with_indexes());
    world.start("without files", "full", &["--blocks-dir", empty.path().to_str().unwrap()]);
    reorganise(&mut world, &[2, 15]);
    world.settle();
    let log = world.servers[0].peer.log().unwrap();
    assert!(log.contains(expected_source), "{log}");
    compare(&mut world, Steps { txs: 1, blocks: 20 }, None);
}

#[test]
fn every_answer_is_right_with_blocks_from_rest() {
    compare_without_files(Options::default(), "REST interface at");
}

#[test]
fn every_answer_is_right_with_blocks_from_rpc() {
    compare_without_files(Options::default().arg("-rest=0"), "RPC at");
}

/// The checksum of undo data names only the parent block: siblings that spend different coins of equal value have undo
/// data that could be the other's.
#[test]
fn undo_data_of_a_stale_sibling_is_never_mistaken_for_that_of_the_block() {
    let mut world = World::new(14, TINY, 0, Options::default());
    world.start("that followed", "full", &[]);
    world.make_coins_alike(20);
    let fork = world.chain.height();
    world.spend_coins_alike(0..3);
    let first = world.chain.clone();
    world.chain.rollback_to(fork);
    world.spend_coins_alike(3..7);
    // These blocks are rolled back when the first branch wins.
    world.start("built on the stale branch", "full", &[]);
    world.start("built on the stale branch", "lean", &[]);
    world.chain = first;
    world.spend_coins_alike(7..9);
    world.settle();
    world.start("built at once", "full", &[]);
    let questions = Questions::about(&world, Steps { txs: 1, blocks: 20 });
    for server in &world.servers {
        questions.put_to(&server.name, &server.peer, Order::Chain).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
#[ignore = "minutes: `make compare`"]
fn every_answer_equals_that_of_the_peers_on_a_long_chain() {
    let mut world = World::new(13, Size::LARGE, 200, Options::default().with_indexes());
    for profile in ["full", "lean"] {
        world.start("that followed", profile, &[]);
    }
    reorganise(&mut world, &[1, 5, 30, 130, 300]);
    world.settle();
    for profile in ["full", "lean"] {
        world.start("built at once", profile, &[]);
    }
    let electrs = part::start_if_asked(part::ELECTRS, || Electrs::start(&world.node));
    compare(&mut world, Steps { txs: 1, blocks: 29 }, electrs);
    verify_all(&mut world);
}
