//! Threads on which requests are read: inline, on the thread on which they arrive, or on threads that may wait. The
//! store records them.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, Index, Profile, Secret};
use birdhouse_electrum::{Limits, Server, ServerLimits, Settings};
use birdhouse_node::BlockFiles;
use birdhouse_store::{
    Array, ArraySpec, Batch, BulkRun, FinishedRun, KeyRange, MemoryStore, Page, PageLimit, Result, Store, Table,
};
use birdhouse_testkit::client::Client;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::slow_disk::read_slow_disk;
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::model;
use crate::world::{node_with, tcp};

/// Number of a script with more transactions than an inline read covers.
const BUSY: u32 = 820_000;
/// Shortest time without inline reads after one has waited for the disk.
const PAUSE: Duration = Duration::from_secs(1);

/// A store that records the threads that look rows up, and may be as slow as a disk.
struct Watched {
    rows: MemoryStore,
    readers: Mutex<Vec<ThreadId>>,
    is_slow: AtomicBool,
}

impl Watched {
    /// Returns the threads that have looked rows up since the last call, one entry for each lookup.
    fn readers(&self) -> Vec<ThreadId> {
        std::mem::take(&mut self.readers.lock().unwrap())
    }
}

impl Store for Watched {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.readers.lock().unwrap().push(thread::current().id());
        if self.is_slow.load(Ordering::Relaxed) {
            read_slow_disk(Duration::from_millis(2));
        }
        self.rows.get_many(table, keys)
    }
    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.rows.scan_many(table, ranges, limit)
    }
    fn write(&self, batch: Batch) -> Result<()> {
        self.rows.write(batch)
    }
    fn publish(&self, manifest: &[u8]) -> Result<()> {
        self.rows.publish(manifest)
    }
    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.rows.manifest()
    }
    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.rows.bulk_run(table)
    }
    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        self.rows.bulk_load(runs)
    }
    fn clear(&self, table: Table) -> Result<()> {
        self.rows.clear(table)
    }
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.rows.array(spec)
    }
    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.rows.sizes()
    }
}

/// A server that serves all of its connections on one thread.
struct OneThread {
    server: Server,
    store: Arc<Watched>,
    port: u16,
    executor: ThreadId,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    _node: Bitcoind,
}

impl OneThread {
    fn start(chain: &ChainBuilder) -> Self {
        Self::start_with(chain, Settings::default())
    }

    fn start_with(chain: &ChainBuilder, settings: Settings) -> Self {
        let node = node_with(chain);
        let store =
            Arc::new(Watched { rows: MemoryStore::new(), readers: Mutex::default(), is_slow: AtomicBool::new(false) });
        let index = Arc::new(built(&node, Arc::clone(&store)));
        let (stop, stopped) = oneshot::channel::<()>();
        let (send_port, receive_port) = sync_channel(1);
        // No client in these tests waits for a turn.
        let limits = ServerLimits { processors: 16, ..ServerLimits::default() };
        let server = Server::new(index, None, Settings { limits, ..settings });
        let serves = server.clone();
        let serving = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let socket = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
                send_port.send(socket.local_addr().unwrap().port()).unwrap();
                let listeners = vec![(socket, tcp(Limits::default()))];
                serves.serve(listeners, async { drop(stopped.await) }).await;
            });
        });
        let port = receive_port.recv().unwrap();
        store.readers();
        Self {
            server,
            store,
            port,
            executor: serving.thread().id(),
            stop: Some(stop),
            serving: Some(serving),
            _node: node,
        }
    }

    fn client(&self) -> Client {
        Client::greet(self.port).unwrap()
    }

    /// Returns the number of requests that were answered.
    fn answered(&self) -> u64 {
        self.server.overview().counted.requests.iter().map(|(_, _, count)| count).sum()
    }

    /// Returns the kind of threads that have looked rows up since the last call.
    fn read_by(&self) -> Readers {
        let readers: BTreeSet<bool> = self.store.readers().into_iter().map(|reader| reader == self.executor).collect();
        match (readers.contains(&true), readers.contains(&false)) {
            (true, false) => Readers::Inline,
            (false, true) => Readers::Threads,
            (true, true) => Readers::Both,
            (false, false) => Readers::Nobody,
        }
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
        }
    }
}

/// Kinds of threads that have read.
#[derive(Debug, PartialEq, Eq)]
enum Readers {
    Nobody,
    Inline,
    Threads,
    Both,
}

fn built(node: &Bitcoind, store: Arc<Watched>) -> Index {
    let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let options = BuildOptions::modest(temp.path());
    index.build(None, &options).unwrap();
    index
}

fn chain() -> ChainBuilder {
    let mut chain = ChainBuilder::new(1);
    mix::mature(&mut chain);
    mix::busy_script(&mut chain, BUSY, 1100);
    mix::random_traffic(&mut chain, 20, 20);
    chain.mine_block();
    chain
}

fn balance_of(scripthash: &str, id: usize) -> String {
    json!({ "id": id, "method": "blockchain.scripthash.get_balance", "params": [scripthash] }).to_string()
}

/// Returns the time that this thread has waited for a processor: the second number of `/proc/thread-self/schedstat`, in
/// nanoseconds; 0 where the kernel does not count it.
fn waited() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    times.split_whitespace().nth(1).and_then(|time| time.parse().ok()).unwrap_or(0)
}

#[test]
fn others_are_served_between_the_messages_of_a_client_that_sends_without_end() {
    const ROUNDS: usize = 41;
    /// Pings for each round that counts: the one for which the client waited least for a processor, of which the server
    /// knows nothing.
    const PINGS: usize = 5;
    let server = OneThread::start(&ChainBuilder::new(1));
    let flood = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (mut sends, mut receives) = (flood.try_clone().unwrap(), flood.try_clone().unwrap());
    // So long that no read from the socket has more of them than begin together.
    let ping = format!("{{\"id\":1,{:200}\"method\":\"server.ping\"}}\n", "");
    let pings = ping.repeat(1000);
    let sending = thread::spawn(move || while sends.write_all(pings.as_bytes()).is_ok() {});
    let receiving = thread::spawn(move || io::copy(&mut receives, &mut io::sink()));
    let mut client = server.client();
    let began = Instant::now();
    while server.answered() < 1000 {
        assert!(began.elapsed() < Duration::from_mins(1), "the flood never begins");
        thread::sleep(Duration::from_millis(1));
    }
    let mut ping = || {
        let (before, waited_before) = (server.answered(), waited());
        client.call("server.ping", json!([])).unwrap();
        let between = server.answered() - before;
        (waited() - waited_before, between)
    };
    let mut between = [0; ROUNDS].map(|_| (0..PINGS).map(|_| ping()).min_by_key(|(waited, _)| *waited).unwrap().1);
    flood.shutdown(Shutdown::Both).unwrap();
    sending.join().unwrap();
    drop(receiving.join().unwrap());
    between.sort_unstable();
    assert!(between[ROUNDS / 2] < 200 && between.iter().sum::<u64>() > 4 * ROUNDS as u64, "{between:?}");
}

#[test]
fn a_single_request_is_read_inline_and_answered_as_by_other_threads() {
    let chain = chain();
    let server = OneThread::start(&chain);
    let mut client = server.client();
    let busy = model::scripthash(&chain.wallet().script_pubkey(Lock::new(Form::P2wpkh, BUSY)));
    let scripts = model::scripts(chain.blocks());
    let mut ask = |method: &str, subject: &str| {
        let params = json!([subject]);
        let alone = client.call(method, params.clone()).unwrap();
        let alone_by = server.read_by();
        let two = client.batch(&[(method, params), ("server.ping", json!([]))]).unwrap();
        assert_eq!(two[0].as_ref().unwrap(), &alone, "{method} {subject}");
        assert_ne!(server.read_by(), Readers::Inline, "{method} in a batch");
        (alone, alone_by)
    };
    for (scripthash, script) in scripts.iter().filter(|(scripthash, _)| **scripthash != busy).take(20) {
        let mut ask = |method: &str| ask(&format!("blockchain.scripthash.{method}"), scripthash);
        assert_eq!(ask("get_balance"), (script.balance(), Readers::Inline));
        assert_eq!(ask("get_history"), (script.history(), Readers::Inline));
        assert_eq!(ask("listunspent"), (script.unspent(), Readers::Inline));
        assert_eq!(ask("subscribe"), (script.status(), Readers::Inline));
    }
    let txid = chain.blocks().last().unwrap().txdata[1].compute_txid().to_string();
    assert_eq!(ask("blockchain.transaction.get", &txid).1, Readers::Inline);
    let history = ask("blockchain.scripthash.get_history", &busy);
    assert_eq!(history, (scripts[&busy].history(), Readers::Both), "it begins inline and turns out to be long");
    client.call("blockchain.transaction.get_height", json!(["ab".repeat(32)])).unwrap_err();
    assert_eq!(server.read_by(), Readers::Threads, "only lookups are read inline");
}

#[test]
fn statuses_that_are_known_are_read_by_nobody() {
    let chain = chain();
    let server = OneThread::start(&chain);
    let mut client = server.client();
    let scripts = model::scripts(chain.blocks());
    let requests: Vec<_> =
        scripts.keys().take(40).map(|script| ("blockchain.scripthash.subscribe", json!([script]))).collect();
    for read_by in [Readers::Threads, Readers::Nobody] {
        let replies = client.batch(&requests).unwrap();
        for (reply, script) in replies.iter().zip(scripts.values()) {
            assert_eq!(reply.as_ref().unwrap(), &script.status());
        }
        assert_eq!(server.read_by(), read_by);
    }
}

#[test]
fn of_requests_that_come_together_one_at_most_is_read_inline() {
    let chain = chain();
    // However slow this machine is, all of them are collected.
    let settings = Settings { collect_time_max: Duration::MAX, ..Settings::default() };
    let server = OneThread::start_with(&chain, settings);
    let scripts = model::scripts(chain.blocks());
    let mut socket = BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
    let mut ask = |line: &dyn Fn(usize, &str) -> String| {
        let lines: String = scripts.keys().take(10).enumerate().map(|(id, script)| line(id, script)).collect();
        socket.get_mut().write_all(lines.as_bytes()).unwrap();
        for _ in 0..10 {
            let mut reply = String::new();
            socket.read_line(&mut reply).unwrap();
            let reply: Value = serde_json::from_str(&reply).unwrap();
            let reply = reply.get(0).unwrap_or(&reply).clone();
            let index = usize::try_from(reply["id"].as_u64().unwrap()).unwrap();
            assert_eq!(reply["result"], scripts.values().nth(index).unwrap().balance());
        }
        server.store.readers().into_iter().filter(|reader| *reader == server.executor).count()
    };
    assert_eq!(ask(&|id, script| format!("{}\n", balance_of(script, id))), 0, "lines");
    assert_eq!(ask(&|id, script| format!("[{}]\n", balance_of(script, id))), 1, "batches of one");
}

#[test]
fn after_an_inline_read_has_waited_threads_read_for_a_while() {
    let server = OneThread::start(&chain());
    let mut client = server.client();
    let mut ask = || drop(client.call("blockchain.scripthash.get_balance", json!(["ab".repeat(32)])).unwrap());
    ask();
    assert_eq!(server.read_by(), Readers::Inline);
    let began = Instant::now();
    server.store.is_slow.store(true, Ordering::Relaxed);
    ask();
    assert_eq!(server.read_by(), Readers::Inline, "this read finds that the disk is slow");
    server.store.is_slow.store(false, Ordering::Relaxed);
    for _ in 0..10 {
        ask();
        let read_by = server.read_by();
        // The test itself may have waited for that long.
        assert!(began.elapsed() > PAUSE || read_by == Readers::Threads, "{read_by:?}");
    }
    // The pause is the time that the server counts from the stall; it waits for no condition.
    thread::sleep(PAUSE);
    ask();
    assert_eq!(server.read_by(), Readers::Inline);
}
