//! `birdhouse run --tor` with a real Tor that is in no network.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use birdhouse_testkit::bitcoind::free_port;

use crate::node;
use crate::process::Birdhouse;

const TOR: &str = "/usr/sbin/tor";

/// A running Tor. Dropping it kills it.
struct Tor(Child);

impl Drop for Tor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a Tor with a control port.
fn start(folder: &Path, control: u16) -> Tor {
    let nothing = folder.join("torrc");
    std::fs::write(&nothing, "").unwrap();
    let mut tor = Command::new(TOR);
    tor.arg("-f").arg(&nothing).arg("--defaults-torrc").arg(&nothing).arg("--DataDirectory").arg(folder.join("tor"));
    tor.args(["--ControlPort", &format!("127.0.0.1:{control}"), "--CookieAuthentication", "1"]);
    tor.args(["--SocksPort", "0", "--DisableNetwork", "1"]);
    Tor(tor.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
}

/// Waits until the server has an onion service; returns its name, which the log has as `onion="...".onion`.
fn name(server: &Birdhouse) -> String {
    server.until("serves wallets over Tor", || {
        let log = server.log();
        let (_, after) = log.split_once("serving wallets over Tor onion=\"")?;
        Some(after.split_once('"')?.0.to_owned())
    })
}

#[test]
fn tor_gives_wallets_an_onion_service_whose_name_stays() {
    if !Path::new(TOR).exists() {
        eprintln!("skipped: {TOR} is missing");
        return;
    }
    let (node, folder, control) = (node(), tempfile::tempdir().unwrap(), free_port().unwrap());
    let tor = start(folder.path(), control);
    let wait = format!("until (: > /dev/tcp/127.0.0.1/{control}) 2> /dev/null; do sleep 0.1; done");
    assert!(Command::new("bash").args(["-c", &format!("timeout 30 bash -c '{wait}'")]).status().unwrap().success());
    let addr = format!("127.0.0.1:{control}");
    let envs = [("BIRDHOUSE_TOR", "on"), ("BIRDHOUSE_TOR_CONTROL_ADDR", &*addr)];
    let server = Birdhouse::start_with(&node, &envs);
    let first = name(&server);
    assert!(first.strip_suffix(".onion").is_some_and(|id| id.len() == 56), "{first}");
    let data = server.into_dir();
    let restarted = Birdhouse::start_in(data.path(), &node, &envs);
    assert_eq!(name(&restarted), first);
    drop(tor);
    restarted.until("says that Tor is gone", || restarted.log().contains("no onion service").then_some(()));
    assert!(!restarted.log().contains("ED25519"), "the log has the key");
}
