//! A node, a primary and its replicas, all of them real, with every answer compared with the model.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Asked, Cost, about, agrees, cost};
use birdhouse_testkit::http_client::{HttpClient, get};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::small_disk::{SmallDisk, command_on};
use birdhouse_testkit::tx::{Coin, Payment};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);
/// Moves of the chain and the mempool between two comparisons.
const MOVES: usize = 3;
/// Requests by which CPU time is measured.
const MEASURED_REQUESTS: usize = 20_000;

/// Payments in a block that no mempool has seen.
const UNSEEN_PAYMENTS: u32 = 20;

/// The node, the primary and its replicas.
pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) homes: TempDir,
    pub(crate) primary: Option<Peer>,
    pub(crate) replicas: Vec<(&'static str, Peer)>,
    pub(crate) port: u16,
    /// Answers of replicas that were compared.
    pub(crate) answers: usize,
}

// === impl World ===

impl World {
    pub(crate) fn start(names: &[&'static str]) -> Self {
        Self::of(TINY, names)
    }

    pub(crate) fn of(size: Size, names: &[&'static str]) -> Self {
        let live = LiveNode::start(21, size, Options::default()).unwrap();
        let port = birdhouse_regtest::bitcoind::free_port().unwrap();
        let homes = TempDir::new().unwrap();
        let mut world = Self { live, homes, primary: None, replicas: Vec::new(), port, answers: 0 };
        world.start_primary();
        for name in names {
            world.start_replica(name);
        }
        world
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.homes.path().join(name)
    }

    pub(crate) fn start_primary(&mut self) {
        let addr = format!("--replicas-addr=127.0.0.1:{}", self.port);
        let home = Home::Folder(self.home("primary"));
        self.primary = Some(Birdhouse::start_in(self.live.node(), home, program(), &[&addr]).unwrap());
    }

    pub(crate) fn start_replica(&mut self, name: &'static str) {
        self.start_replica_of(name, self.port, program());
    }

    /// Starts a replica whose index lies on a disk of its own, of some mebibytes.
    pub(crate) fn start_replica_on_disk(&mut self, name: &'static str, mebibytes: u64) -> SmallDisk {
        let index = self.home(name).join("regtest");
        fs::create_dir_all(&index).unwrap();
        let (alone, script) = (self.home("alone"), self.home("birdhouse-alone"));
        fs::write(&alone, command_on(&index, mebibytes)).unwrap();
        let line = format!("exec sh -c \"$(cat {})\" {} \"$@\"", alone.display(), program().display());
        fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        self.start_replica_of(name, self.port, &script);
        SmallDisk::of(self.replica(name).pid(), &index).unwrap()
    }

    /// Starts a replica of what listens on a port.
    pub(crate) fn start_replica_of(&mut self, name: &'static str, port: u16, program: &Path) {
        let follow = format!("--follow=http://127.0.0.1:{port}");
        let home = Home::Folder(self.home(name));
        let args = [follow.as_str(), "--ops-addr=127.0.0.1:0", "--log=info,birdhouse=debug"];
        let peer = Birdhouse::start_in(self.live.node(), home, program, &args).unwrap();
        self.replicas.push((name, peer));
    }

    pub(crate) fn replica(&self, name: &str) -> &Peer {
        &self.replicas.iter().find(|(known, _)| *known == name).unwrap().1
    }

    pub(crate) fn kill_replica(&mut self, name: &str) {
        let place = self.replicas.iter().position(|(known, _)| *known == name).unwrap();
        let (_, peer) = self.replicas.remove(place);
        kill_now(peer);
    }

    pub(crate) fn kill_primary(&mut self) {
        kill_now(self.primary.take().unwrap());
    }

    /// Moves chain and mempool, and compares every answer of every server with the model.
    pub(crate) fn step(&mut self, context: &str) {
        self.live.move_and_mine(MOVES).unwrap();
        self.compare(context);
    }

    /// Takes two blocks back, which three others replace.
    pub(crate) fn reorg(&mut self, context: &str) {
        self.live.replace_last(2).unwrap();
        self.compare(context);
    }

    pub(crate) fn compare(&mut self, context: &str) {
        let scripts = self.live.ledger().scripts();
        let asked = about(&scripts);
        let primary = self.primary.iter().map(|primary| ("primary", primary));
        for (name, server) in primary.chain(self.replicas.iter().map(|(name, replica)| (*name, replica))) {
            agrees(server, &asked, PATIENCE).unwrap_or_else(|error| panic!("{context}, {name}: {error}"));
        }
        self.answers += self.replicas.len() * asked.len();
    }

    pub(crate) fn cost(&self, server: &Peer) -> Cost {
        cost(server, &about(&self.live.ledger().scripts()), MEASURED_REQUESTS, PATIENCE).unwrap()
    }

    /// Mines a block of payments that no mempool has seen, and returns what may be asked about all scripts then.
    pub(crate) fn mine_unseen(&mut self) -> Vec<Asked> {
        let coin = self.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
        let each = coin.sat() / (u64::from(UNSEEN_PAYMENTS) + 1);
        let payments = (0..UNSEEN_PAYMENTS).map(|number| Payment::to_lock(Lock::new(Form::P2wpkh, number), each));
        let tx = self.live.sign(&[coin], &payments.collect::<Vec<_>>());
        self.live.mine_these(vec![tx]).unwrap();
        assert!(self.live.ledger().mempool().is_empty());
        about(&self.live.ledger().scripts())
    }

    /// Asserts that a replica answers as it did when these were all answers.
    pub(crate) fn assert_serves(&self, name: &str, asked: &[Asked]) {
        agrees(self.replica(name), asked, PATIENCE).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Returns the height that a replica serves.
    pub(crate) fn height(&self, name: &str) -> u64 {
        let mut client = self.replica(name).client().unwrap();
        client.call("blockchain.headers.subscribe", json!([])).unwrap()["height"].as_u64().unwrap()
    }

    /// Returns the status and the body of a replica's `/health`.
    pub(crate) fn health(&self, name: &str) -> (u16, Value) {
        let log = self.replica(name).log().unwrap();
        let (_, after) = log.rsplit_once("serving metrics and health addr=").unwrap();
        let mut client = HttpClient::connect(after.split_whitespace().next().unwrap()).unwrap();
        let (status, body) = client.ask(&get("/health")).unwrap();
        (status, serde_json::from_slice(body).unwrap())
    }

    /// Waits until the health of a replica gives a reason.
    pub(crate) fn wait_for_reason(&self, name: &str, part: &str) {
        let began = Instant::now();
        loop {
            let (status, body) = self.health(name);
            if body["reason"].as_str().is_some_and(|reason| reason.contains(part)) {
                assert_eq!(status, 503, "{body}");
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no {part:?} in {body}: {}", self.replica(name).log().unwrap());
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until a replica is healthy.
    pub(crate) fn wait_for_health(&self, name: &str) {
        until(|| self.health(name).0 == 200, "the replica stays unhealthy");
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_birdhouse"))
}

fn kill_now(peer: Peer) {
    kill(Pid::from_raw(i32::try_from(peer.pid()).unwrap()), Signal::SIGKILL).unwrap();
    drop(peer);
}

pub(crate) fn until(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(LOOK);
    }
}
