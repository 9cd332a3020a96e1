//! A node with a chain that grows and is reorganised, and Birdhouses that follow it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::ScriptBuf;
use serde_json::json;
use tempfile::TempDir;

use crate::model::is_indexed;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_birdhouse");
/// Numbers of the busy scripts made here; those of the sample chain are lower.
const BUSY: u32 = 720_000;
/// Numbers of the scripts with coins of equal value, and of the scripts that receive them.
const ALIKE: u32 = 730_000;
const SPENT: u32 = 740_000;
/// A value that random traffic does not spend.
const ALIKE_SAT: u64 = 9000;
/// Time for a Birdhouse to notice that the node's mempool is empty.
const MEMPOOL_PATIENCE: Duration = Duration::from_secs(30);

/// The node, its chain and the servers.
pub(crate) struct World {
    pub(crate) node: Bitcoind,
    pub(crate) chain: ChainBuilder,
    /// Every script that any block paid, including stale blocks.
    pub(crate) paid: BTreeSet<ScriptBuf>,
    pub(crate) servers: Vec<Server>,
    size: Size,
    branches: u32,
}

/// A Birdhouse and its folder.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) profile: &'static str,
    pub(crate) home: TempDir,
    pub(crate) peer: Peer,
}

impl World {
    /// Starts a node with the sample chain except for its last `short_of_tip` blocks, which are not submitted yet.
    pub(crate) fn new(seed: u64, size: Size, short_of_tip: u32, options: Options) -> Self {
        // A restart of the node drops transactions that a reorg left unconfirmed: answers are compared on confirmed
        // blocks.
        let node = Bitcoind::start(options.arg("-persistmempool=0")).unwrap();
        let chain = mix::sample(seed, size);
        let height = chain.height() - short_of_tip;
        for (height, block) in (1..=height).zip(&chain.blocks()[1..]) {
            node.submit(height, block).unwrap();
        }
        Self { node, chain, paid: BTreeSet::new(), servers: Vec::new(), size, branches: 0 }
    }

    /// Starts a Birdhouse with an empty folder: it builds up to the node's tip, and follows from there.
    pub(crate) fn start(&mut self, name: &str, profile: &'static str, args: &[&str]) {
        let home = tempfile::Builder::new().prefix("birdhouse-compare-").tempdir().unwrap();
        let args = [&["--profile", profile], args].concat();
        let folder = Home::Folder(home.path().to_owned());
        let peer = Birdhouse::start_in(&self.node, folder, Path::new(PROGRAM), &args).unwrap();
        self.servers.push(Server { name: format!("birdhouse {name}, {profile}"), profile, home, peer });
    }

    /// Submits new blocks to the node, and waits until every Birdhouse serves them.
    pub(crate) fn publish(&mut self) {
        let outputs = self.chain.blocks()[1..].iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
        self.paid.extend(outputs.map(|output| output.script_pubkey.clone()).filter(is_indexed));
        self.chain.submit_to(&self.node).unwrap();
        for server in &mut self.servers {
            server.peer.wait_for_tip(&self.node).unwrap_or_else(|error| panic!("{}: {error}", server.name));
        }
    }

    /// Replaces the last blocks by a branch that is one longer: shapes of `mix`, and random traffic.
    pub(crate) fn reorg(&mut self, depth: u32) {
        self.chain.rollback_to(self.chain.height() - depth);
        let wanted = self.chain.height() + depth + 1;
        self.branches += 1;
        if depth >= 8 {
            mix::repeats_in_one_tx(&mut self.chain);
            mix::chain_in_one_block(&mut self.chain, 10);
            // Longer than a packed script.
            mix::busy_script(&mut self.chain, BUSY + self.branches % 2, 150);
        }
        self.grow(wanted - self.chain.height());
        self.publish();
    }

    /// Adds a block with coins of equal value, each with a script of its own.
    pub(crate) fn make_coins_alike(&mut self, count: u32) {
        let lock = |number| Lock::new(Form::SPENDABLE[number as usize % Form::SPENDABLE.len()], ALIKE + number);
        let payments: Vec<Payment> = (0..count).map(|number| Payment::to_lock(lock(number), ALIKE_SAT)).collect();
        self.chain.pay(&payments);
        self.chain.mine_block();
    }

    /// Adds blocks that each spend the next of those coins, and nothing else.
    pub(crate) fn spend_coins_alike(&mut self, coins: Range<u32>) {
        for number in coins {
            let coin = self.chain.coins().find(|coin| coin.lock.number == ALIKE + number).cloned().unwrap();
            self.chain.spend(&[coin], &[Payment::to_lock(Lock::new(Form::P2wpkh, SPENT + number), ALIKE_SAT - 500)]);
            self.chain.mine_block();
        }
        self.publish();
    }

    /// Replaces the last blocks by blocks with the same transactions, one height later.
    pub(crate) fn reorg_with_the_same_transactions(&mut self, depth: u32) {
        let mut fork = self.chain.clone();
        self.grow(depth);
        self.publish();
        fork.rollback_to(fork.height());
        self.chain = fork;
        self.chain.mine_block();
        self.grow(depth);
        self.publish();
    }

    /// Adds blocks of random traffic.
    pub(crate) fn grow(&mut self, blocks: u32) {
        for _ in 0..blocks {
            mix::random_traffic(&mut self.chain, self.size.block_txs, self.size.scripts_per_form);
            self.chain.mine_block();
        }
    }

    /// Restarts the node, which changes its cookie and drops transactions that reorgs left unconfirmed. Adds a block,
    /// and waits until every Birdhouse has noticed.
    pub(crate) fn settle(&mut self) {
        self.node.restart().unwrap();
        assert_eq!(self.node.rpc("getrawmempool", json!([])).unwrap(), json!([]));
        self.grow(1);
        self.publish();
        for server in &self.servers {
            let mut client = server.peer.client().unwrap();
            let patience = Instant::now() + MEMPOOL_PATIENCE;
            while client.call("mempool.get_fee_histogram", json!([])).unwrap() != json!([]) {
                assert!(Instant::now() < patience, "{}: the mempool is stale", server.name);
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Stops a server and runs `birdhouse verify --all` on its folder.
    pub(crate) fn verify(&self, server: Server) -> (Output, TempDir) {
        let Server { home, peer, profile, .. } = server;
        drop(peer);
        (self.verify_folder(home.path(), profile), home)
    }

    /// Runs `birdhouse verify --all` on a folder that no server uses.
    pub(crate) fn verify_folder(&self, folder: &Path, profile: &str) -> Output {
        Command::new(PROGRAM)
            .args(["verify", "--all", "--network", "regtest", "--profile", profile, "--log", "warn", "--node-dir"])
            .arg(self.node.datadir())
            .arg("--data-dir")
            .arg(folder)
            .args(["--rpc-addr", &format!("127.0.0.1:{}", self.node.rpc_port())])
            .output()
            .unwrap()
    }
}
