//! Long scans for silent payments: they end with their clients, and clients have turns of equal length.
//!
//! The index has the rows of each block many times over, so that a chain of a few hundred transactions takes some time.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{BlockError, Derived, DerivedArray, Height, ProvedBlock, Records, TweakDetail, Tweaks};
use birdhouse_electrum::{Limits, Listener, Proxy, ScanKeys, Settings, Transport};
use birdhouse_net::Reads;
use birdhouse_testkit::Options;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::rounds;
use bitcoin::Network;
use serde_json::json;

use crate::silent_sender::Receiver;
use crate::world::Server;

const SUBSCRIBE: &str = "blockchain.silentpayments.subscribe";
const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };
const PATIENCE: Duration = Duration::from_mins(2);
/// Copies of each row.
const COPIES: usize = 3000;
/// Rows that a scan computes before it looks whether its client is there, at most.
const SLICE_ROWS_MAX: u64 = 1024;
/// Time without a scanned row after which scans have ended: far more than a slice takes.
const STILL: Duration = Duration::from_millis(100);

/// The rows of silent payments, each many times.
struct Copied(Arc<dyn Derived>);

impl Derived for Copied {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn format(&self) -> u8 {
        self.0.format()
    }

    fn start(&self) -> Height {
        self.0.start()
    }

    fn arrays(&self) -> &'static [DerivedArray] {
        self.0.arrays()
    }

    fn of_block(&self, id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError> {
        let records = self.0.of_block(id, block)?;
        Ok(Records::new((0..self.arrays().len()).map(|array| records.of(array).repeat(COPIES))))
    }
}

/// A server with long scans.
struct World {
    _live: LiveNode,
    server: Server,
    /// Rows of the whole chain.
    rows: u64,
}

impl World {
    fn new(seed: u64, settings: Settings, proxy: Proxy) -> Self {
        let live = LiveNode::start(seed, TINY, Options::default()).unwrap();
        let limits = Limits { scan_keys: ScanKeys::Any, client_work: None, ..Limits::default() };
        let listener = Listener { name: "tcp".into(), transport: Transport::Tcp, proxy, limits };
        let derived = Arc::new(Copied(Tweaks::derived(Network::Regtest, TweakDetail::Scan)));
        let server = Server::with_tweaks(live.node(), settings, listener, derived);
        let (at, tweaks) = (server.index.snapshot().unwrap(), Tweaks::among(server.index.derived()).unwrap());
        let rows = tweaks.rows(&at, Height(0)..Height(at.tip().height.0 + 1)).unwrap().unwrap();
        Self { _live: live, server, rows }
    }

    /// The number of rows that were scanned so far.
    fn scanned(&self) -> u64 {
        self.server.overview().counted.silent_scanned
    }

    /// Waits until something is so, and looks often.
    fn until(&self, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.server.overview());
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits until nothing is scanned any more. Returns the time of the last row that was.
    fn until_still(&self) -> Instant {
        let (mut last, mut scanned) = (Instant::now(), self.scanned());
        self.until(|| {
            let now = self.scanned();
            if now != scanned {
                (last, scanned) = (Instant::now(), now);
            }
            last.elapsed() > STILL
        });
        last
    }

    /// Opens a connection of the client that the header of a proxy names, if it names one, and begins a scan.
    fn scan(&self, client: Option<&str>, receiver: &Receiver) -> TcpStream {
        let mut socket = self.server.socket();
        if let Some(client) = client {
            socket.write_all(format!("PROXY TCP4 {client} 127.0.0.1 1000 50001\r\n").as_bytes()).unwrap();
        }
        let version = json!({ "jsonrpc": "2.0", "id": 0, "method": "server.version", "params": ["scans", "1.4"] });
        let keys = json!([receiver.scan_hex(), receiver.spend_hex(), 0, []]);
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": SUBSCRIBE, "params": keys });
        let scans = self.server.overview().silent_scans;
        socket.write_all(format!("{version}\n{request}\n").as_bytes()).unwrap();
        self.until(|| self.server.overview().silent_scans == scans + 1);
        socket
    }
}

#[test]
fn a_scan_ends_within_a_slice_when_its_client_goes() {
    let world = World::new(321, Settings::default(), Proxy::Off);
    for number in 1..=5 {
        let before = world.scanned();
        let socket = world.scan(None, &Receiver::new(number));
        world.until(|| world.scanned() > before);
        drop(socket);
        world.until(|| world.server.overview().silent_subscriptions == 0);
        let known = world.scanned();
        world.until_still();
        let (after, all) = (world.scanned() - known, world.scanned() - before);
        assert!(after <= SLICE_ROWS_MAX, "{after} rows after the server knew");
        assert!(all < world.rows, "the scan went on to its end, {all} rows");
    }
}

/// `BIRDHOUSE_ROUNDS=100 cargo test -p birdhouse-electrum --test electrum the_time -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn the_time_from_a_disconnect_to_the_last_row_of_its_scan() {
    let world = World::new(322, Settings::default(), Proxy::Off);
    let mut times: Vec<Duration> = Vec::new();
    for number in rounds(100) {
        let before = world.scanned();
        let socket = world.scan(None, &Receiver::new(u8::try_from(number).unwrap()));
        world.until(|| world.scanned() > before);
        let gone = Instant::now();
        drop(socket);
        times.push(world.until_still().saturating_duration_since(gone));
        assert!(world.scanned() - before < world.rows, "the scan went on to its end");
    }
    times.sort_unstable();
    let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1000];
    let late = times.iter().filter(|time| **time > Duration::from_millis(10)).count();
    println!(
        "{} disconnects: median {:?}, p90 {:?}, p99 {:?}, longest {:?}; {late} above 10 ms",
        times.len(),
        at(500),
        at(900),
        at(990),
        at(1000)
    );
}

#[test]
fn a_client_with_one_scan_waits_for_as_much_of_others_as_it_scans_itself() {
    // One long read at a time, whatever the machine has.
    let settings = Settings { reads: Some(Arc::new(Reads::new(1, 4, 4))), ..Settings::default() };
    let world = World::new(323, settings, Proxy::From(vec!["127.0.0.0/8".parse().unwrap()]));
    let many: Vec<TcpStream> = (1..=8).map(|number| world.scan(Some("192.0.2.1"), &Receiver::new(number))).collect();
    let before = world.scanned();
    let one = world.scan(Some("198.51.100.1"), &Receiver::new(9));
    world.until(|| world.server.overview().silent_scans == many.len());
    // Half of the rows are its own. By connections, each of the nine would have had its part.
    let (scanned, own) = (world.scanned() - before, world.rows);
    assert!((own..4 * own).contains(&scanned), "{scanned} rows while one client scanned {own}");
    drop((many, one));
    world.until(|| world.server.overview().silent_subscriptions == 0);
}
