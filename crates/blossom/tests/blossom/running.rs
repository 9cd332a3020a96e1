//! A server on loopback, with an owner whose decisions a test sets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use birdhouse_blossom::{
    Address, BlobHash, Denied, Limits, MediaTypes, Operator, Report, Reporting, Server, Settings, Store,
};
use birdhouse_events::{Keys, Kind, Pubkey, Tag, Timestamp, UnsignedEvent};
use birdhouse_net::{Connections, Listener, Proxy, Transport};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// The time of the server.
pub(crate) const NOW: u64 = 1_700_000_000;

/// A running server.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) server: Server,
    pub(crate) owner: Arc<Owner>,
    pub(crate) disk_free: Arc<AtomicU64>,
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

/// The operator: all but some keys may upload.
#[derive(Default)]
pub(crate) struct Owner {
    pub(crate) banned: Mutex<Vec<Pubkey>>,
    pub(crate) reports: Mutex<Vec<Report>>,
}

impl Operator for Owner {
    fn check_uploader(&self, key: &Pubkey) -> Result<(), Denied> {
        if self.banned.lock().unwrap().contains(key) { Err(Denied("only members upload here".into())) } else { Ok(()) }
    }

    fn report(&self, report: Report) -> Reporting {
        self.reports.lock().unwrap().push(report);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Settings that a test changes.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) limits: Limits,
    pub(crate) types: Option<MediaTypes>,
    pub(crate) url: Option<&'static str>,
    /// Default: always [`NOW`].
    pub(crate) clock: Option<fn() -> u64>,
}

impl Running {
    pub(crate) fn start(given: Given) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let (owner, disk_free) = (Arc::<Owner>::default(), Arc::new(AtomicU64::new(u64::MAX)));
        let free = Arc::clone(&disk_free);
        let settings = Settings {
            limits: given.limits,
            address: given.url.map(|url| Address::parse(url).unwrap()),
            types: given.types,
            disk_free_bytes: Arc::new(move || Some(free.load(Ordering::Relaxed))),
            connections: Connections::default(),
            reads: Arc::default(),
            clock: given.clock.unwrap_or(|| NOW),
        };
        let store = Arc::new(Store::open(folder.path()).unwrap());
        let server = Server::new(store, Arc::clone(&owner) as _, settings);
        let socket = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let addr = socket.local_addr().unwrap();
        let listener = Listener { name: "blossom".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () };
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        runtime.spawn(server.clone().serve(vec![(socket, listener)], Duration::from_secs(1), stopped));
        Self { addr, server, owner, disk_free, folder, stop: Some(stop), runtime: Some(runtime) }
    }

    /// Files of uploads under way.
    pub(crate) fn incoming(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path().join("incoming")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until no upload is under way, and checks that none has left anything.
    pub(crate) fn wait_until_idle(&self) {
        wait_until("no upload", || self.server.overview().uploading == 0 && self.incoming().is_empty());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(5));
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

pub(crate) fn keys(number: u8) -> Keys {
    Keys::from_secret([number; 32]).unwrap()
}

pub(crate) fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash(Sha256::digest(bytes).into())
}

/// Signs an event as JSON.
pub(crate) fn signed(key: u8, kind: u16, tags: &[&[&str]]) -> String {
    let tags = tags.iter().map(|tag| Tag(tag.iter().map(|&part| part.to_owned()).collect())).collect();
    let event = UnsignedEvent { created_at: Timestamp(NOW), kind: Kind(kind), tags, content: "a test".to_owned() };
    event.sign(&keys(key)).to_json()
}

/// Returns the value of a header `Authorization` for a verb and blobs.
pub(crate) fn authorization(key: u8, verb: &str, hashes: &[BlobHash]) -> String {
    let (expiration, hashes) = ((NOW + 60).to_string(), hashes.iter().map(BlobHash::to_string).collect::<Vec<_>>());
    let mut tags: Vec<[&str; 2]> = vec![["t", verb], ["expiration", &expiration]];
    tags.extend(hashes.iter().map(|hash| ["x", hash.as_str()]));
    let tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
    format!("Nostr {}", BASE64_URL_SAFE_NO_PAD.encode(signed(key, 24_242, &tags)))
}
