//! What systemd hears, over a socket like its own, and what it thinks of our unit.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::node;
use crate::process::{Birdhouse, PATIENCE};

/// Everything that is heard until a message has `last` in it.
fn hear(socket: &UnixDatagram, last: &str) -> Vec<String> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    while !heard.iter().any(|message: &String| message.contains(last)) {
        let mut buffer = [0; 1024];
        let bytes = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("never heard {last}: {error}, {heard:?}"));
        heard.push(String::from_utf8(buffer[..bytes].to_vec()).unwrap());
    }
    heard
}

#[test]
fn readiness_life_and_the_end_are_told() {
    let node = node();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let watchdog = Duration::from_secs(1).as_micros().to_string();
    let envs = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", &watchdog)];
    let mut server = Birdhouse::start_with(&node, &envs);
    hear(&socket, "READY=1\n");
    hear(&socket, "WATCHDOG=1\n");
    hear(&socket, "STATUS=serving at height 10\n");
    server.signal(Signal::SIGTERM);
    hear(&socket, "STOPPING=1\n");
    assert!(server.wait().0.success());
}

#[test]
fn nothing_is_told_where_nobody_listens() {
    let node = node();
    let mut server = Birdhouse::start_with(&node, &[("NOTIFY_SOCKET", "/nonexistent/notify")]);
    assert!(server.log().contains("systemd cannot be told"));
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success());
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let unit = include_str!("../../../../contrib/birdhouse.service");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("birdhouse.service");
    // It looks whether the program is there.
    let unit = unit.replace("/usr/local/bin/birdhouse", env!("CARGO_BIN_EXE_birdhouse"));
    std::fs::write(&path, unit).unwrap();
    let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() else {
        eprintln!("LEFT OUT: systemd-analyze is not there");
        return;
    };
    // Of a setting that it does not know it only warns.
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
