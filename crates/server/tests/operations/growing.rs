//! A server that first builds the index of a synced node: it answers from the first blocks on, each answer is the
//! node's own at its height, and everybody hears that the tip is old.
//!
//! The build stops before the last blocks, because the node's newest file with undo data cannot be read, and is tried
//! again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use birdhouse_chain::ScriptHash;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::ledger::{Ledger, ScriptFacts};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, Options};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::Birdhouse;

/// Enough for several generations of one mebibyte.
const SIZE: Size = Size { blocks: 60, block_txs: 40, scripts_per_form: 100, busy: &[10, 300, 9000] };
/// Scripts that are asked for.
const SCRIPTS: usize = 300;

/// The node's newest file with undo data, while it cannot be read.
struct Unreadable {
    path: PathBuf,
    kept: PathBuf,
}

impl Unreadable {
    fn newest(node: &Bitcoind) -> Self {
        let names = fs::read_dir(node.blocks_dir()).unwrap().map(|entry| entry.unwrap().path());
        let is_undo = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("rev");
        let path = names.filter(is_undo).max().unwrap();
        let kept = path.with_extension("kept");
        fs::rename(&path, &kept).unwrap();
        // To read a folder fails in another way than to read a file that the node has deleted.
        fs::create_dir(&path).unwrap();
        Self { path, kept }
    }

    fn mend(self) {
        fs::remove_dir(&self.path).unwrap();
        fs::rename(&self.kept, &self.path).unwrap();
    }
}

struct World {
    node: Bitcoind,
    ledger: Ledger,
    server: Birdhouse,
    envs: Vec<(&'static str, String)>,
    config: tempfile::NamedTempFile,
}

impl World {
    fn start(node: Bitcoind) -> Self {
        let mut ledger = Ledger::default();
        ledger.refresh(&node).unwrap();
        let config = tempfile::NamedTempFile::new().unwrap();
        let strangers = "[[listener]]\nname = 'strangers'\nkind = 'tcp'\naddr = '127.0.0.1:0'\nlimits = 'public'\n";
        fs::write(config.path(), strangers).unwrap();
        let envs = vec![
            ("BIRDHOUSE_CONFIG", config.path().to_str().unwrap().to_owned()),
            ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0".to_owned()),
            ("BIRDHOUSE_BUILD_TEMP_MIB", "1".to_owned()),
            ("BIRDHOUSE_BUILD_REORG_BLOCKS", "5".to_owned()),
            ("BIRDHOUSE_BUILD_EARLY_PERCENT", "100".to_owned()),
        ];
        let dir = tempfile::Builder::new().prefix("birdhouse-ops-").tempdir().unwrap();
        let server = Self::spawn(dir, &node, &envs);
        Self { node, ledger, server, envs, config }
    }

    fn spawn(dir: tempfile::TempDir, node: &Bitcoind, envs: &[(&'static str, String)]) -> Birdhouse {
        let envs: Vec<(&str, &str)> = envs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let server = Birdhouse::start_building_in(dir, node, &envs);
        server.until("serves REST", || server.port("serving the REST API"));
        server.until("serves wallets", || server.port("serving the Electrum protocol"));
        server
    }

    /// Kills the server and starts it again in its folder.
    fn kill(self) -> Self {
        let Self { node, ledger, mut server, envs, config } = self;
        server.signal(Signal::SIGKILL);
        server.wait();
        let dir = server.into_dir();
        fs::remove_file(dir.path().join("log")).unwrap();
        let server = Self::spawn(dir, &node, &envs);
        Self { node, ledger, server, envs, config }
    }

    /// Waits until a tip answers from which a build that cannot go on does not move.
    fn early_tip(&self) -> u32 {
        self.server.until("says that it tries again", || {
            self.server.log().contains("failed to build from the node, retrying").then_some(())
        });
        let mut client = self.server.client();
        let tip = client.call("blockchain.headers.subscribe", json!([])).unwrap();
        u32::try_from(tip["height"].as_u64().unwrap()).unwrap()
    }

    /// Asserts that wallets hear what the node knows up to `height`, and nothing of what comes after it.
    fn assert_answers_at(&self, height: u32) {
        let (now, then) = (self.ledger.scripts(), self.ledger.up_to(height).scripts());
        let mut client = self.server.client();
        let step = now.len() / SCRIPTS + 1;
        for script in now.keys().step_by(step) {
            let hash = ScriptHash::of(script.as_bytes()).to_string();
            let mut ask =
                |method: &str| client.call(&format!("blockchain.scripthash.{method}"), json!([hash])).unwrap();
            let facts = then.get(script);
            let empty = || json!([]);
            assert_eq!(ask("get_history"), facts.map_or_else(empty, ScriptFacts::history), "{script:x}");
            assert_eq!(ask("listunspent"), facts.map_or_else(empty, ScriptFacts::unspent), "{script:x}");
            assert_eq!(ask("subscribe"), facts.map_or(Value::Null, ScriptFacts::status), "{script:x}");
            if let Some(facts) = facts {
                assert_eq!(ask("get_balance"), facts.balance(), "{script:x}");
            }
        }
        for mined in self.ledger.up_to(height).chain().iter().rev().take(20) {
            for txid in &mined.txids {
                let raw = client.call("blockchain.transaction.get", json!([txid.to_string()])).unwrap();
                let params = json!([txid.to_string(), false, mined.hash.to_string()]);
                assert_eq!(raw, self.node.rpc("getrawtransaction", params).unwrap());
            }
        }
    }

    fn rest(&self, path: &str) -> String {
        let port = self.server.port("serving the REST API").unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Asserts that everybody hears that the tip is old, and strangers hear nothing else.
    fn assert_marked(&self, height: u32) {
        let tip = self.node.height().unwrap();
        let said =
            format!("the index is being built, {height} of {tip} blocks answer so far: answers are of old blocks");
        let health = self.server.get("/health");
        let body: Value = serde_json::from_str(&health.body).unwrap();
        assert_eq!((health.status, &body["status"], &body["height"]), (503, &json!("index builds"), &json!(height)));
        assert_eq!(body["reason"], said);
        let banner = self.server.client().call("server.banner", json!([])).unwrap();
        assert!(banner.as_str().unwrap().ends_with(&format!("Note: {said}.")), "{banner}");
        let answer = self.rest("/blocks/tip/height");
        assert!(answer.contains("\r\nbirdhouse-waiting: index builds\r\n"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{height}")), "{answer}");
        let hash = self.node.rpc("getblockhash", json!([height])).unwrap();
        assert!(self.rest(&format!("/block-height/{height}")).ends_with(hash.as_str().unwrap()));
        assert!(self.rest(&format!("/block-height/{}", height + 1)).starts_with("HTTP/1.1 404"));

        let log = self.server.log();
        let line = log.lines().find(|line| line.contains("Electrum") && line.contains("strangers")).unwrap();
        let port = line.split_once("addr=127.0.0.1:").unwrap().1.split_whitespace().next().unwrap();
        let mut stranger = Client::greet(port.parse().unwrap()).unwrap();
        let hash = ScriptHash::of(&[0x51]).to_string();
        let refused = stranger.call("blockchain.scripthash.get_history", json!([hash])).unwrap_err().to_string();
        assert!(refused.contains("indexing, "), "{refused}");
        // Headers come from the node, as before the first rows.
        assert_eq!(stranger.call("blockchain.headers.subscribe", json!([])).unwrap()["height"], tip);
    }
}

#[test]
fn wallets_are_answered_as_of_the_first_blocks_while_the_rest_is_built_and_after_a_kill() {
    let node = Bitcoind::start(Options::default().arg("-fastprune").arg("-prune=1")).unwrap();
    let chain = mix::sample(21, SIZE);
    chain.submit_to(&node).unwrap();
    let unreadable = Unreadable::newest(&node);
    let world = World::start(node);
    let height = world.early_tip();
    assert!(100 < height && height < chain.height(), "{height} of {}", chain.height());
    world.assert_marked(height);
    world.assert_answers_at(height);
    let (done, said) = world.server.run("prune", &["--keep=1MB", "--yes"]);
    assert!(!done && said.contains("the index is not built yet"), "{said}");

    let world = world.kill();
    assert_eq!(world.early_tip(), height);
    world.assert_marked(height);
    world.assert_answers_at(height);
    assert!(world.server.log().contains("resuming the build"), "{}", world.server.log());

    unreadable.mend();
    world.server.until("is built", || (world.server.get("/health").status == 200).then_some(()));
    world.assert_answers_at(chain.height());
    assert!(!world.rest("/blocks/tip/height").contains("birdhouse-waiting"));
}
