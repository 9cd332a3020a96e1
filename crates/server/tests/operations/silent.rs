//! A server beside a node that hangs, clients of the dashboard that read nothing, and a server that is crashed.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::dashboard::port;
use crate::node;
use crate::process::Birdhouse;

/// Silence of the node after which `/health` says so, and time for the next look at it.
const SEEN_WITHIN: Duration = Duration::from_secs(13);
/// Time after which the dashboard leaves a client that reads nothing; the whole conversation may last minutes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that the closing may take on a busy machine.
const SLACK: Duration = Duration::from_mins(1);

/// A node that is killed refuses connections at once; one that hangs takes them and never answers.
#[test]
fn health_sees_a_node_that_hangs_and_that_it_is_back() {
    let node = node();
    let server = Birdhouse::start(&node);
    server.until("is healthy", || (server.get("/health").status == 200).then_some(()));
    node.pause().unwrap();
    let began = Instant::now();
    let said = server.until("sees the silence", || {
        let health = server.get("/health");
        (health.status == 503).then_some(health.body)
    });
    let seen = began.elapsed();
    node.resume().unwrap();
    assert!(said.contains("unreachable"), "{said}");
    assert!(seen <= SEEN_WITHIN, "{seen:?}");
    server.until("is healthy again", || (server.get("/health").status == 200).then_some(()));
}

#[test]
fn the_dashboard_leaves_a_client_that_reads_nothing() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", port(&server))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let began = Instant::now();
    // More requests than the sockets have room for answers; the server stops to read them.
    let broken = loop {
        match stream.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => break error.kind(),
        }
        assert!(began.elapsed() < WRITE_TIMEOUT + SLACK, "the server keeps the connection");
    };
    assert!(matches!(broken, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{broken:?}");
    assert!(began.elapsed() >= WRITE_TIMEOUT, "{:?}", began.elapsed());
    // One that reads slowly, but does read, stays.
    let mut slow = TcpStream::connect(("127.0.0.1", port(&server))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut start = [0; 12];
    slow.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
}

/// Cf. `PR_SET_DUMPABLE` in `prctl(2)`: a signal whose action is a core dump leaves none.
#[test]
fn a_crash_of_a_running_server_leaves_no_core_dump() {
    const UNBOUNDED: &str = "ulimit -c unlimited";
    let folder = tempfile::tempdir().unwrap();
    let mut control = Command::new("sh")
        .args(["-c", &format!("{UNBOUNDED} && exec sleep 60")])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let name = format!("/proc/{}/comm", control.id());
    let began = Instant::now();
    while fs::read_to_string(&name).unwrap() != "sleep\n" {
        assert!(began.elapsed() < SLACK, "the shell never becomes the program");
        std::thread::sleep(Duration::from_millis(10));
    }
    let abort = |id: u32| assert!(Command::new("kill").args(["-ABRT", &id.to_string()]).status().unwrap().success());
    abort(control.id());
    if !control.wait().unwrap().core_dumped() {
        eprintln!("LEFT OUT: this system makes no core dumps");
        return;
    }
    let prelude = format!("{UNBOUNDED} && cd {}", folder.path().display());
    let mut server = Birdhouse::start_relay_after(&prelude, tempfile::tempdir().unwrap(), &[]);
    server.signal(Signal::SIGABRT);
    let (status, _) = server.wait();
    assert!(status.signal() == Some(Signal::SIGABRT as i32) && !status.core_dumped(), "{status}");
}
