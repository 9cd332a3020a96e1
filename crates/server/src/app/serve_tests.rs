//! Another service, which nothing but the list of services knows: the operator's tools find it all the same.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Result as Written;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use birdhouse_clients::SlowKind;
use birdhouse_dial::Refused;
use birdhouse_net::{Certificate, ConnectionInfo, Transport};
use birdhouse_relay::{Actor, RuleBook};
use parking_lot::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::config::{ControlCommand, Options};
use crate::operator::{Answer, Stores, metrics};
use crate::services::{MetricsWriter, Overview, Serving, Stopped};

struct Toy {
    listeners: Vec<BoundListener>,
    /// Ids of the open connections.
    open: Arc<Mutex<Vec<u64>>>,
    reloads: AtomicUsize,
    has_ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct ToyState(usize);

impl Toy {
    fn new(transport: Transport) -> Self {
        let addr = ([127, 0, 0, 1], 4).into();
        let listener = BoundListener { name: "toys".to_owned(), serves: "toys", addr, transport };
        let (open, reloads, has_ended) = (Arc::new(Mutex::new(vec![7, 9])), AtomicUsize::new(0), Arc::default());
        Self { listeners: vec![listener], open, reloads, has_ended }
    }
}

impl Service for Toy {
    fn name(&self) -> &'static str {
        "Toy"
    }

    fn listeners(&self) -> &[BoundListener] {
        &self.listeners
    }

    fn serve(&self, stopped: Stopped) -> Serving {
        let has_ended = Arc::clone(&self.has_ended);
        Box::pin(async move {
            drop(stopped.await);
            has_ended.store(true, Ordering::Relaxed);
        })
    }

    fn on_panic(&self) -> OnPanic {
        OnPanic::EndsServer
    }

    fn reload(&self, _options: &Options) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        let info = |id: &u64| ConnectionInfo {
            id: *id,
            listener: "toys".to_owned(),
            client: "192.0.2.1".to_owned(),
            age: Duration::ZERO,
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            subscriptions: 0,
            work: Duration::ZERO,
            client_work: Duration::ZERO,
        };
        self.open.lock().iter().map(info).collect()
    }

    fn disconnect(&self, id: u64) -> bool {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|other| *other != id);
        open.len() < before
    }

    fn overview(&self) -> Box<dyn Overview> {
        Box::new(ToyState(self.open.lock().len()))
    }
}

impl Overview for ToyState {
    fn connections(&self) -> Vec<(String, usize)> {
        vec![("toys".to_owned(), self.0)]
    }

    fn slowest(&self) -> &[SlowKind] {
        &[]
    }

    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Written {
        metrics.gauge("toy_connections", "Open connections of toys.", services::count_of(self.0))
    }
}

fn control_of(service: Arc<dyn Service>, folder: &Path) -> Control {
    Control {
        started: Instant::now(),
        level: Level::of_tests(),
        folder: folder.to_owned(),
        bitcoin: None,
        services: vec![service],
        watches: None,
        rules: Arc::new(RuleBook::in_memory()),
        relay: None,
        dial: Arc::new(Guard::new(Refused::default())),
        stores: Stores {
            data_dir: folder.to_owned(),
            open: Vec::new(),
            watch_file: folder.join("watches.toml"),
            watches: None,
            media: None,
        },
        reads: Arc::new(birdhouse_net::Reads::new(1, 1, 1)),
        rates: Rates::default(),
        shown: Shown::default(),
        flags: Options::default(),
        stop: Notify::new(),
    }
}

#[test]
fn ctl_status_and_metrics_find_a_service_by_the_list_alone() {
    let folder = tempfile::tempdir().unwrap();
    let control = control_of(Arc::new(Toy::new(Transport::Tcp)), folder.path());
    let ask = |command| match ctl::execute(&command, &control, Actor::Ctl).unwrap() {
        Answer::Ok(answer) => answer,
        Answer::Error(reason) => panic!("{reason}"),
    };
    let connections = ask(ControlCommand::Connections);
    let found: Vec<_> = connections.as_array().unwrap().iter().map(|line| (&line["id"], &line["protocol"])).collect();
    assert_eq!(found, [(&7.into(), &"Toy".into()), (&9.into(), &"Toy".into())]);

    assert_eq!(ask(ControlCommand::Disconnect { id: 7 })["disconnected"], 7);
    let again = ctl::execute(&ControlCommand::Disconnect { id: 7 }, &control, Actor::Ctl).unwrap();
    assert!(matches!(again, Answer::Error(reason) if reason.contains("no connection has the id 7")));

    let protocol = &ask(ControlCommand::Status)["protocols"][0];
    assert_eq!((&protocol["protocol"], &protocol["listener"]), (&"Toy".into(), &"toys".into()));
    assert_eq!(protocol["connections"], 1);
    assert!(metrics::text(&control).contains("\nbirdhouse_toy_connections 1\n"));
}

/// Returns the certificate that a client gets, which trusts these.
async fn handshake(certificate: &Certificate, trusted: &[&[u8]]) -> Vec<u8> {
    let mut roots = RootCertStore::empty();
    for root in trusted {
        roots.add(CertificateDer::from(*root)).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let client = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("toys.example").unwrap();
    let (client, _served) = tokio::join!(client.connect(name, near), certificate.accept(far));
    client.unwrap().get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_renewed_certificate_of_any_service_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    let renew = || {
        let pair = rcgen::generate_simple_self_signed(vec!["toys.example".to_owned()]).unwrap();
        fs::write(&chain, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        pair.cert.der().to_vec()
    };
    let first = renew();
    let certificate = Arc::new(Certificate::open(&chain, &key).unwrap());
    assert_eq!(handshake(&certificate, &[&first]).await, first);
    let toy = Arc::new(Toy::new(Transport::Tls(Arc::clone(&certificate))));
    let second = renew();
    let services: Vec<Arc<dyn Service>> = vec![Arc::clone(&toy) as _];
    Reload { flags: Options::default(), level: Level::of_tests(), services, watches: None }.read().unwrap();
    assert_eq!(handshake(&certificate, &[&first, &second]).await, second);
    assert_eq!(toy.reloads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_end_of_the_server_waits_for_every_service() {
    let toy = Toy::new(Transport::Tcp);
    let has_ended = Arc::clone(&toy.has_ended);
    let service: Arc<dyn Service> = Arc::new(toy);
    let running = vec![Running::start(&service)];
    end(running).await;
    assert!(has_ended.load(Ordering::Relaxed));
}
