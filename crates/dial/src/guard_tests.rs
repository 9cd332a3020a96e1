//! Names with several addresses, names that are not to be looked up, and certificates that come late.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Instant;

use futures_util::future::BoxFuture;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::target::Scheme;

/// Time in which a connection is opened beside addresses that are silent.
const SOON: Duration = Duration::from_secs(3);
/// Connections that fill the queue of a listener, at most.
const QUEUE_MAX: usize = 16;

/// Knows one name.
struct Names(Vec<IpAddr>);

impl Resolver for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Looks nothing up.
struct Nobody;

impl Resolver for Nobody {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        panic!("{name} was looked up")
    }
}

/// A listener whose queue is full: the system answers no further connection.
struct Silent {
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Silent {
    async fn at(address: SocketAddr) -> Self {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(0).unwrap();
        let mut queued = Vec::new();
        loop {
            assert!(queued.len() < QUEUE_MAX, "the queue of {address} has no end");
            match tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
                Ok(connected) => queued.push(connected.unwrap()),
                Err(_) => return Self { _listener: listener, _queued: queued },
            }
        }
    }
}

fn target(url: &str) -> Target {
    Target::parse(url, &[Scheme::Ws, Scheme::Wss]).unwrap()
}

fn guard(resolver: impl Resolver + 'static) -> Guard {
    Guard::with(Arc::new(resolver), Refused::default(), Trust::System)
}

/// A name whose first addresses are silent is reached at its last one, soon.
async fn reached_beside(silent: &[IpAddr], last: IpAddr) {
    let listener = TcpListener::bind((last, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut different = silent.to_vec();
    different.dedup();
    let mut listeners = Vec::new();
    for ip in different {
        listeners.push(Silent::at(SocketAddr::new(ip, port)).await);
    }
    let guard = guard(Names([silent, &[last]].concat()));
    let began = Instant::now();
    let reached = guard.connect_at_length(&target(&format!("ws://many.example:{port}/"))).await;
    assert_eq!(reached.map(|reached| reached.address.ip()), Ok(last));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_address_of_the_other_family_is_tried_among_many_that_are_silent() {
    reached_beside(&[Ipv6Addr::LOCALHOST.into(); 4], Ipv4Addr::LOCALHOST.into()).await;
}

#[tokio::test]
async fn silent_addresses_delay_the_next_one_by_a_moment() {
    reached_beside(
        &[Ipv4Addr::new(127, 0, 0, 2).into(), Ipv4Addr::new(127, 0, 0, 3).into()],
        Ipv4Addr::LOCALHOST.into(),
    )
    .await;
}

#[tokio::test]
async fn names_of_tor_are_not_looked_up() {
    for host in ["example.onion", "EXAMPLE.Onion", "a.example.onion.", "onion"] {
        let failure = guard(Nobody).connect(&target(&format!("ws://{host}:7777/"))).await.unwrap_err();
        assert!(failure.contains("proxy"), "{failure}");
    }
}

/// The variable by which the test below runs in a process of its own, with certificates from a file.
const CERTIFICATES: &str = "SSL_CERT_FILE";

#[test]
fn certificates_that_come_late_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let name = "guard::tests::a_connection_before_and_after_the_certificates";
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", name, "--ignored"]).env(CERTIFICATES, folder.path().join("roots.pem"));
    let output = test.env_remove("SSL_CERT_DIR").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
#[ignore = "run by the test above, which names the file"]
async fn a_connection_before_and_after_the_certificates() {
    let Some(file) = std::env::var_os(CERTIFICATES) else { return };
    let guard = guard(Nobody);
    // The other side has gone, so that TLS fails once there are certificates.
    let encrypt = async || {
        let (stream, _) = tokio::io::duplex(64);
        guard.encrypt(&target("wss://relay.example.org/"), Box::new(stream)).await.unwrap_err()
    };
    assert!(encrypt().await.contains("no root certificates"));
    let CertifiedKey { cert, .. } = generate_simple_self_signed(["relay.example.org".to_owned()]).unwrap();
    std::fs::write(file, cert.pem()).unwrap();
    let failure = encrypt().await;
    assert!(failure.contains("failed to set up TLS"), "{failure}");
}
