//! `birdhouse backup` and `birdhouse verify --quick`, beside a running server and without one.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::client::Client;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, pipe};
use bitcoin::hashes::{Hash as _, sha256};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::process::Birdhouse;

const RELAY: [(&str, &str); 1] = [("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0")];

/// Sends notes of consecutive times until `stop`; returns how many were acknowledged. `on_ok` gets each number.
fn send_notes(port: u16, on_ok: impl Fn(u64), stop: impl Fn() -> bool) {
    let mut socket = pipe::ws(pipe::tcp(port).unwrap()).unwrap();
    let keys = Keys::from_secret([7; 32]).unwrap();
    for number in 1.. {
        if stop() {
            return;
        }
        let created_at = Timestamp(1_700_000_000 + number);
        let event = UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content: "a".into() }.sign(&keys);
        let event: Value = serde_json::from_str(&event.to_json()).unwrap();
        socket.send(Message::text(json!(["EVENT", event]).to_string())).unwrap();
        loop {
            if let Message::Text(text) = socket.read().unwrap()
                && text.starts_with("[\"OK\"")
            {
                assert!(text.contains("true"), "{text}");
                break;
            }
        }
        on_ok(number);
    }
}

/// Returns the number of stored events.
fn stored(server: &Birdhouse) -> u64 {
    server.ctl_json(&["status"])["relay_events"].as_u64().unwrap()
}

/// Returns every transaction, and history, balance and unspent outputs of every script, of blocks up to a height.
fn answers(client: &mut Client, chain: &ChainBuilder, height: u32) -> Vec<Value> {
    let txs = || chain.blocks()[..=height as usize].iter().flat_map(|block| &block.txdata);
    let txids = txs().map(|tx| json!([tx.compute_txid().to_string()]));
    let mut answers: Vec<_> = txids.filter_map(|txid| client.call("blockchain.transaction.get", txid).ok()).collect();
    let scripts: BTreeSet<_> = txs().flat_map(|tx| &tx.output).map(|output| &output.script_pubkey).collect();
    for script in scripts {
        let mut hash = sha256::Hash::hash(script.as_bytes()).to_byte_array();
        hash.reverse();
        let script = sha256::Hash::from_byte_array(hash).to_string();
        for method in ["get_history", "get_balance", "listunspent"] {
            answers.push(client.call(&format!("blockchain.scripthash.{method}"), json!([script])).unwrap());
        }
    }
    answers
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Ends the senders when it is dropped, also by a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn backup_beside_a_moving_chain_and_arriving_events_is_whole_beside_another_node() {
    let mut chain = mix::sample(5, Size::SMALL);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let server = Birdhouse::start_with(&node, &RELAY);
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("backup");
    let (acknowledged, is_done) = (std::sync::atomic::AtomicU64::new(0), AtomicBool::new(false));
    let relay = server.port("serving the relay").unwrap();
    let sure = std::thread::scope(|scope| {
        let end = End(&is_done);
        scope.spawn(|| {
            send_notes(relay, |number| acknowledged.store(number, Ordering::SeqCst), || is_done.load(Ordering::SeqCst));
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                mix::random_traffic(&mut chain, 3, 30);
                chain.mine_block();
                chain.submit_to(&node).unwrap();
            }
        });
        server.until("acknowledges events", || (acknowledged.load(Ordering::SeqCst) > 20).then_some(()));
        let sure = acknowledged.load(Ordering::SeqCst);
        let (done, said) = server.run("backup", &[target.to_str().unwrap()]);
        drop(end);
        assert!(done && said.contains("index: backed up") && said.contains("relay: backed up"), "{said}");
        assert!(acknowledged.load(Ordering::SeqCst) > sure, "no event arrived meanwhile");
        sure
    });
    assert!(!server.run("backup", &[target.to_str().unwrap()]).0, "the folder is taken");
    let (sound, said) = server.run("verify", &["--quick"]);
    assert!(sound && said.contains(" 0 damaged places"), "{said}");

    // Stale blocks come first there, so every block has another position; the key of `xor.dat` is another, too.
    let other = Bitcoind::start(Options::default()).unwrap();
    let mut stale = ChainBuilder::new(9);
    stale.mine(5);
    stale.submit_to(&other).unwrap();
    chain.submit_to(&other).unwrap();
    let restored = Birdhouse::start_in(&target, &other, &RELAY);
    assert!(stored(&restored) >= sure, "{} of {sure} events", stored(&restored));
    let height = chain.height();
    server.until("serves the tip", || (server.ctl_json(&["status"])["tip_height"] == height).then_some(()));
    let (mut one, mut two) = (server.client(), restored.client());
    let truth = answers(&mut one, &chain, height);
    assert!(truth.len() > 1000, "{}", truth.len());
    assert_eq!(answers(&mut two, &chain, height), truth);
    let mut restored = restored;
    restored.ctl_json(&["stop"]);
    assert!(restored.wait().0.success());
    let (sound, said) = restored.run("verify", &["--all"]);
    assert!(sound && said.contains(" 0 differences"), "{said}");
}

#[test]
fn verify_quick_finds_a_flipped_bit_in_index_and_relay_without_a_server_and_a_backup_repairs_it() {
    let node = crate::node();
    let mut server = Birdhouse::start_with(&node, &RELAY);
    let (port, sent) = (server.port("serving the relay").unwrap(), std::sync::atomic::AtomicU64::new(0));
    send_notes(port, |number| sent.store(number, Ordering::SeqCst), || sent.load(Ordering::SeqCst) == 30);
    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success());
    let (sound, said) = server.run("verify", &["--quick"]);
    assert!(sound && said.contains(" 0 damaged places"), "{said}");
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("backup");
    let (done, said) = server.run("backup", &[target.to_str().unwrap()]);
    assert!(done, "{said}");
    for (part, file) in [("index", "regtest/arrays/txid"), ("relay", "relay/arrays/body")] {
        flip(&server.dir().join(file), 100);
        let (sound, said) = server.run("verify", &["--quick"]);
        assert!(!sound && said.contains(" 1 damaged places") && said.contains(&format!("{part}: restore")), "{said}");
        assert!(said.contains(file), "{said}");
        std::fs::copy(target.join(file), server.dir().join(file)).unwrap();
    }
    assert!(server.run("verify", &["--quick"]).0);
}

/// Runs a command beside a process that takes the place of a server in a data folder, and answers it with this text;
/// returns success and all output.
fn run_beside(dir: &Path, answer: &'static str, words: &[&str]) -> (bool, String) {
    std::fs::create_dir_all(dir.join("regtest")).unwrap();
    let listener = UnixListener::bind(dir.join("regtest/ctl.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut line) = (BufReader::new(stream.unwrap()), String::new());
            // A client that only looks for a server sends nothing.
            if stream.read_line(&mut line).unwrap() > 0 {
                return stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    let data_dir = format!("--data-dir={}", dir.display());
    let mut program = Command::new(env!("CARGO_BIN_EXE_birdhouse"));
    let output = program.args(words).args(["--network=regtest", &data_dir]).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_backup_that_only_the_server_sees_is_a_failure() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("backup");
    // As a service with a /tmp of its own answers.
    let answer = "{\"ok\":{\"parts\":[\"index\",\"relay\"],\"proved_bytes\":7}}\n";
    let words = ["backup", target.to_str().unwrap()];
    let (done, said) = run_beside(&place.path().join("data"), answer, &words);
    assert!(!done && said.contains("PrivateTmp") && said.contains("no index"), "{said}");

    // An older backup of the same name is none of the server's.
    std::fs::create_dir_all(target.join("regtest")).unwrap();
    std::fs::write(target.join("regtest/VERSION"), "3").unwrap();
    let (done, said) = run_beside(&place.path().join("other"), answer, &words);
    assert!(!done && said.contains("the folder is not empty"), "{said}");
}

#[test]
fn a_server_that_ends_before_it_answers_is_named_as_the_cause() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("backup").display().to_string();
    for (number, words) in
        [["verify", "--quick"], ["backup", &target], ["prune", "--keep=1GB"], ["ctl", "status"]].iter().enumerate()
    {
        let (done, said) = run_beside(&place.path().join(number.to_string()), "", words);
        assert!(!done && said.contains("the server ended before it answered"), "{words:?}: {said}");
    }
}
