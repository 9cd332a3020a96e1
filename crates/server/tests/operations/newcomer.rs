//! A newcomer: an empty node of mainnet and a server beside it, started at the same moment, one command each. How long
//! does a wallet wait for its first right balance?
//!
//! The node downloads the first 14 132 blocks of mainnet from one peer, over a link with a delay. The blocks are the
//! test data of btcd, a module of Go. Each answer must be that of a scan of these blocks.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::child_guard::{ChildGuard, Launch};
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::program::{find_bitcoind, find_program};
use birdhouse_testkit::rng::number;
use birdhouse_testkit::rpc::Rpc;
use birdhouse_testkit::slow_link::SlowLink;
use bitcoin::{Block, Network, OutPoint, ScriptBuf, consensus};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where `scripts/peers mainnet-blocks` puts the blocks.
const CACHED: &str = "birdhouse/mainnet-blocks-0.24.2/blk_0_to_14131.dat";
/// Time that the peer takes for an answer, unless `BIRDHOUSE_ROUND_TRIP_MS` says so.
const ROUND_TRIP_MS: u64 = 200;
/// Blocks whose first script is asked for: of the first days, with spends in block 170, and of the last days.
const ASKED: [usize; 4] = [1, 9, 5_000, 14_000];
const POLL: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_mins(10);

fn blocks(path: &Path) -> Vec<Block> {
    let bytes = std::fs::read(path).unwrap();
    let (mut rest, mut blocks) = (&bytes[..], Vec::new());
    while let Some((head, body)) = rest.split_first_chunk::<8>()
        && head[..4] == Network::Bitcoin.magic().to_bytes()
    {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        blocks.push(consensus::deserialize(&body[..len]).unwrap());
        rest = &body[len..];
    }
    blocks
}

/// The balance of a script after these blocks, by a scan of them.
fn balance(blocks: &[Block], script: &ScriptBuf) -> u64 {
    let mut coins: Vec<(OutPoint, u64)> = Vec::new();
    // No index has the output of the genesis block, which cannot be spent.
    for transaction in blocks.iter().skip(1).flat_map(|block| &block.txdata) {
        coins.retain(|(outpoint, _)| transaction.input.iter().all(|input| input.previous_output != *outpoint));
        let txid = transaction.compute_txid();
        let paid = (0..).zip(&transaction.output).filter(|(_, output)| output.script_pubkey == *script);
        coins.extend(paid.map(|(vout, output)| (OutPoint { txid, vout }, output.value.to_sat())));
    }
    coins.iter().map(|(_, value)| value).sum()
}

/// A node of mainnet that knows nobody else, and takes a short chain with an old tip for the best one.
struct Node {
    _child: ChildGuard,
    datadir: TempDir,
    rpc_port: u16,
}

impl Node {
    fn start(more: &[String]) -> Self {
        let (datadir, rpc_port) = (tempfile::tempdir().unwrap(), free_port().unwrap());
        let fixed = ["-dnsseed=0", "-fixedseeds=0", "-server=1", "-printtoconsole=1", "-minimumchainwork=0"];
        let own = [format!("-datadir={}", datadir.path().display()), format!("-rpcport={rpc_port}")];
        let args = fixed.iter().copied().map(Into::into).chain(own.iter().chain(more).map(Into::into)).collect();
        let log = datadir.path().join("log");
        let launch = Launch { program: find_bitcoind().unwrap(), args, envs: Vec::new(), log };
        Self { _child: ChildGuard::spawn(launch).unwrap(), datadir, rpc_port }
    }

    fn height(&self) -> Option<u64> {
        let rpc = Rpc::new(self.rpc_port, self.datadir.path().join(".cookie"));
        rpc.call("getblockcount", &json!([])).ok()?.as_u64()
    }
}

/// A server that is killed at the end.
struct Server {
    child: Child,
    dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(node: &Node) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_birdhouse"));
        command
            .args(["run", "--electrum-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0"])
            .arg(format!("--node-dir={}", node.datadir.path().display()))
            .arg(format!("--rpc-addr=127.0.0.1:{}", node.rpc_port))
            .arg(format!("--data-dir={}", dir.path().join("data").display()))
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self { child: command.stdin(Stdio::null()).spawn().unwrap(), dir }
    }

    fn client(&self) -> Option<Client> {
        let log = self.log();
        let (_, after) = log.split_once("serving the Electrum protocol addr=127.0.0.1:")?;
        let (port, _) = after.split_once(char::is_whitespace)?;
        Client::greet(port.parse().ok()?).ok()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

#[test]
#[ignore = "says how long a newcomer waits; needs the blocks of mainnet (scripts/peers mainnet-blocks)"]
fn a_newcomer_gets_a_right_balance_soon_after_node_and_server_start() {
    let path =
        find_program("blocks of mainnet", "MAINNET_BLOCKS", None, CACHED, "scripts/peers mainnet-blocks").unwrap();
    let blocks = blocks(&path);
    let tip = blocks.len() - 1;
    let port = free_port().unwrap();
    let all = ["-maxtipage=3000000000".to_owned(), "-connect=0".to_owned(), "-listen=1".to_owned()];
    let all = [&all[..], &[format!("-bind=127.0.0.1:{port}"), format!("-loadblock={}", path.display())]].concat();
    let peer = Node::start(&all);
    let until = |what: &str, is_met: &mut dyn FnMut() -> bool| {
        let began = Instant::now();
        while !is_met() {
            assert!(began.elapsed() < PATIENCE, "never happened: {what}");
            sleep(POLL);
        }
    };
    until("the peer has all", &mut || peer.height() == Some(tip as u64));
    let round_trip = Duration::from_millis(number("BIRDHOUSE_ROUND_TRIP_MS").unwrap_or(ROUND_TRIP_MS));
    let link = SlowLink::open(port, round_trip).unwrap();

    let began = Instant::now();
    let node =
        Node::start(&["-listen=0".to_owned(), format!("-connect=127.0.0.1:{}", link.port()), "-prune=1".to_owned()]);
    let server = Server::start(&node);
    let said = |what: &str| println!("{:8.2} s  {what}", began.elapsed().as_secs_f64());
    let mut client = None;
    until("the server listens", &mut || {
        client = server.client();
        client.is_some()
    });
    said("the server answers");
    let mut client = client.unwrap();
    let script = |height: usize| &blocks[height].txdata[0].output[0].script_pubkey;
    let mut waiting = ASKED.to_vec();
    let mut seen = 0;
    until("every balance is right, and the tip that of the node", &mut || {
        let hash = |height: &usize| json!([scripthash(script(*height).as_bytes())]);
        let mut questions = vec![("blockchain.headers.subscribe", json!([]))];
        questions.extend(ASKED.iter().map(|height| ("blockchain.scripthash.get_balance", hash(height))));
        questions.push(("blockchain.headers.subscribe", json!([])));
        let answers: Vec<Option<Value>> = client.batch(&questions).unwrap().into_iter().map(Result::ok).collect();
        // A server that has not begun refuses.
        let Some(answers) = answers.into_iter().collect::<Option<Vec<_>>>() else { return false };
        if answers[0] != answers[ASKED.len() + 1] {
            return false;
        }
        seen = usize::try_from(answers[0]["height"].as_u64().unwrap()).unwrap();
        for (height, answer) in ASKED.iter().zip(&answers[1..]) {
            let right = balance(&blocks[..=seen], script(*height));
            assert_eq!(answer["confirmed"], right, "script of block {height} at {seen}: {}", server.log());
        }
        waiting.retain(|height| {
            if seen >= *height {
                said(&format!("a right balance of a script of block {height}, at height {seen}"));
            }
            seen < *height
        });
        seen == tip
    });
    said(&format!("every balance is that of the tip, {tip}"));
    until("the node says so", &mut || node.height() == Some(tip as u64));
}
