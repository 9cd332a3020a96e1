//! Time from a payment at the node to the direct message at a client of nostr-tools on the server's own relay, as a
//! figure. Run by hand, on a quiet machine:
//! `cargo test --workspace --test live messages -- --ignored --nocapture`; `BIRDHOUSE_ROUNDS` sets the number of
//! payments.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::Options;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::peers::{Birdhouse, Home};
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::sequence::SequencePublisher;
use birdhouse_testkit::tx::Payment;
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, client};

use crate::birds::{PATIENCE, TINY};
use crate::npm::Npm;

const NOSTR_TOOLS: Npm = Npm { variable: "NOSTR_TOOLS", cached: "nostr-tools-2.25.2", package: "nostr-tools" };
const CLIENT: &str = include_str!("../hard_to_kill/notices.js");
/// Messages of the client that wait to be taken.
const WAITING: usize = 1_000;
/// Payments between two blocks.
const OF_A_BLOCK: u64 = 20;
/// Longest pause before a payment, so that it comes at any moment of the server's own rhythm.
const PAUSE_MS_MAX: u64 = 300;

/// The secret key of the person who reads.
const SECRET: [u8; 32] = [9; 32];

/// A client that reads direct messages, with the time at which it printed each.
struct Reader {
    child: Child,
    texts: Receiver<(Option<String>, Instant)>,
}

impl Reader {
    fn start(packages: &Path, relay: SocketAddr) -> Self {
        let mut command = Command::new("node");
        command.args(["--eval", CLIENT]).arg(packages).arg(format!("ws://{relay}")).arg("09".repeat(32));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, texts) = sync_channel(WAITING);
        spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send((serde_json::from_str(&line).unwrap(), Instant::now()));
            }
        });
        let reader = Self { child, texts };
        while reader.texts.recv_timeout(PATIENCE).expect("the client subscribes").0.is_some() {}
        reader
    }

    /// The time at which a message came that holds this text.
    fn came(&self, text: &str) -> Instant {
        loop {
            let (message, at) = self.texts.recv_timeout(PATIENCE).expect("the message comes");
            if message.is_some_and(|message| message.contains(text)) {
                return at;
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Publishes that the person reads direct messages on this relay.
fn publish_list(relay: SocketAddr) {
    let (mut socket, _) = client(format!("ws://{relay}"), TcpStream::connect(relay).unwrap()).unwrap();
    let tags = vec![Tag(vec!["relay".to_owned(), format!("ws://{relay}")])];
    let list = UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(10_050), tags, content: String::new() };
    let list = list.sign(&Keys::from_secret(SECRET).unwrap()).to_json();
    socket.send(Message::text(format!("[\"EVENT\",{list}]"))).unwrap();
    while !matches!(socket.read().unwrap(), Message::Text(text) if text.starts_with("[\"OK\"")) {}
}

/// Waits until the server knows the watch.
fn until_watched(data: &Path) {
    let start = Instant::now();
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_birdhouse"));
        let command = command.args(["watch", "--network=regtest", "--data-dir"]).arg(data);
        let output = command.args(["list", "--json"]).output();
        let said = String::from_utf8(output.unwrap().stdout).unwrap();
        let status: Option<Value> = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        if status.is_some_and(|status| status["watches"][0]["scripts"] == 1) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the server never knows the watch: {said}");
        sleep(Duration::from_millis(20));
    }
}

/// The way by which the server hears of the node's mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    Zmq,
    Polled,
}

fn measure(packages: &Path, notice: Notice, payments: u64) -> Vec<Duration> {
    let mut live = LiveNode::start(71, TINY, Options::default().logging_changes()).unwrap();
    let publisher = SequencePublisher::start(live.node()).unwrap();
    let (zmq, folder) = (publisher.address(), tempfile::tempdir().unwrap());
    let relay = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let lock = Lock::new(Form::P2wpkh, 7_000);
    let person = Keys::from_secret(SECRET).unwrap().pubkey();
    let watched = live.wallet().script_pubkey(lock);
    let text = format!(
        "[[channel]]\nname = \"me\"\nkind = \"nostr\"\nto = \"{person}\"\n[[watch]]\nname = \"w\"\n\
         script = \"{watched:x}\"\nconfirmations = [0]\nchannels = [\"me\"]\n"
    );
    let file = folder.path().join("watches.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let (relay_arg, url_arg) = (format!("--relay-addr={relay}"), format!("--relay-url=ws://{relay}"));
    let mut args = vec![relay_arg.as_str(), &url_arg];
    if notice == Notice::Zmq {
        args.extend(["--zmq-sequence-addr", &zmq]);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_birdhouse"));
    let _server = Birdhouse::start_in(live.node(), Home::Folder(folder.path().to_owned()), program, &args).unwrap();
    if notice == Notice::Zmq {
        publisher.wait_for_subscriber().unwrap();
    }
    publish_list(relay);
    until_watched(folder.path());
    let reader = Reader::start(packages, relay);
    let mut rng = Rng::new(71);
    let mut latencies = Vec::new();
    for number in 0..payments {
        if number % OF_A_BLOCK == OF_A_BLOCK - 1 {
            live.mine().unwrap();
        }
        // A random moment, not a wait for a condition.
        sleep(Duration::from_millis(rng.below(PAUSE_MS_MAX)));
        let paid = live.pay(&[Payment::to_lock(lock, 50_000)]).unwrap();
        latencies.push(reader.came(&paid.compute_txid().to_string()) - live.given_at());
    }
    // The first one also makes the server's profile.
    latencies.remove(0);
    latencies.sort();
    latencies
}

#[test]
#[ignore = "a figure, not a test"]
fn a_payment_is_a_direct_message_soon() {
    let Some(packages) = NOSTR_TOOLS.folder() else { return eprintln!("LEFT OUT: nostr-tools is not there") };
    for notice in [Notice::Zmq, Notice::Polled] {
        let range = rounds(500);
        let latencies = measure(&packages, notice, range.end - range.start + 1);
        let at = |per_mille: usize| latencies[(latencies.len() * per_mille / 1000).min(latencies.len() - 1)];
        let (median, p99, last) = (at(500), at(990), at(1000));
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let count = latencies.len();
        println!("{notice:?}: {count} payments, p50 {median:?}, p99 {p99:?}, longest {last:?}; load {}", load.trim());
    }
}
