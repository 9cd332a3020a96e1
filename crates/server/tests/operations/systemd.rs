//! Notifications to systemd, over a socket like its own, and systemd's check of our unit.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::node;
use crate::process::{Birdhouse, PATIENCE};

/// Returns all messages up to the one that contains `last`.
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
fn systemd_is_notified_of_readiness_life_and_stop() {
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
fn without_systemd_notifications_only_warn() {
    let node = node();
    let mut server = Birdhouse::start_with(&node, &[("NOTIFY_SOCKET", "/nonexistent/notify")]);
    assert!(server.log().contains("failed to notify systemd"));
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success());
}

const UNIT: &str = include_str!("../../../../contrib/birdhouse.service");
/// The module of nix-bitcoin, with a unit of its own.
const MODULE: &str = include_str!("../../../../contrib/boxes/nix-bitcoin/birdhouse.nix");
/// Most exposure of the unit, in tenths of systemd's scale from 0 (best) to 10.
const EXPOSURE_TENTHS_MAX: &str = "15";

/// systemd kills a unit that is not ready after 90 s, which a replica, a spare and a front may need longer than.
#[test]
fn no_unit_bounds_the_time_of_a_start() {
    assert!(UNIT.contains("\nTimeoutStartSec=infinity\n"), "{UNIT}");
    assert!(MODULE.contains("\n        TimeoutStartSec = \"infinity\";\n"), "{MODULE}");
}

/// The exit status is that of the comparison with the threshold.
#[test]
fn the_unit_is_little_exposed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("birdhouse.service");
    std::fs::write(&path, UNIT).unwrap();
    let exposed = |threshold: &str| {
        let threshold = format!("--threshold={threshold}");
        Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", &threshold])
            .arg(&path)
            .output()
    };
    let Ok(output) = exposed(EXPOSURE_TENTHS_MAX) else {
        eprintln!("LEFT OUT: systemd-analyze is not there");
        return;
    };
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(!exposed("1").unwrap().status.success(), "systemd-analyze compares nothing");
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("birdhouse.service");
    // systemd checks that the program exists.
    let unit = UNIT.replace("/usr/local/bin/birdhouse", env!("CARGO_BIN_EXE_birdhouse"));
    std::fs::write(&path, unit).unwrap();
    let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() else {
        eprintln!("LEFT OUT: systemd-analyze is not there");
        return;
    };
    // systemd only warns of unknown settings.
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
