//! Bans and allowances by `birdhouse ctl` and over HTTP (NIP-86): they apply at once and are kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::client::Client;
use birdhouse_testkit::http_client::{HttpClient, get};
use birdhouse_testkit::pipe;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::node;
use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

fn keys(author: u8) -> Keys {
    Keys::from_secret([author; 32]).unwrap()
}

/// Returns a note of an author that no other call returns.
fn note(author: u8) -> Value {
    let content = format!("{:?}", Instant::now());
    let event = UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(1), tags: Vec::new(), content };
    serde_json::from_str(&event.sign(&keys(author)).to_json()).unwrap()
}

fn is_accepted(server: &Birdhouse, author: u8) -> bool {
    ask(&mut connect(server), &json!(["EVENT", note(author)]))[2].as_bool().unwrap()
}

fn count(server: &Birdhouse) -> Value {
    ask(&mut connect(server), &json!(["COUNT", "a", {}]))[2]["count"].clone()
}

#[test]
fn rules_apply_at_once_and_survive_a_restart_and_sighup() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    assert!(is_accepted(&server, 1) && is_accepted(&server, 2));
    assert_eq!(server.ctl_json(&["banned"]), json!([]));
    assert_eq!(server.ctl(&["banned"]).1, "none\n");
    let author = keys(1).pubkey().to_string();
    let done = server.ctl_json(&["ban", "author", &author, "--reason", "spam"]);
    assert_eq!((&done["verdict"], &done["value"], &done["changed"]), (&json!("ban"), &json!(author), &json!(true)));
    assert!(!is_accepted(&server, 1) && is_accepted(&server, 2));
    assert_eq!(count(&server), 2);
    for (subject, value) in [("kind", "7"), ("client", "203.0.113.0/24"), ("event", &*"ab".repeat(32))] {
        server.ctl_json(&["ban", subject, value]);
    }
    let file = server.dir().join("relay/rules");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = server.ctl_json(&["banned"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["reason"]), (4, &json!("spam")));
    let (_, table) = server.ctl(&["banned"]);
    assert!(table.starts_with("verdict  type    value"), "{table}");

    server.signal(Signal::SIGHUP);
    server.until("reads the settings again", || server.log().contains("read certificates").then_some(()));
    assert_eq!(server.ctl_json(&["banned"]), listed);
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Birdhouse::start_relay(server.into_dir(), &[]);
    assert_eq!(server.ctl_json(&["banned"]), listed);
    assert!(!is_accepted(&server, 1));
    server.ctl_json(&["unban", "author", &author]);
    assert!(is_accepted(&server, 1));
    assert_eq!(count(&server), 4, "what was hidden is shown again");

    for (words, why) in [
        (["unban", "author", &*author], "is not banned by a rule"),
        (["ban", "author", "me"], "is not a public key"),
        (["ban", "kind", "all"], "is not a kind"),
        (["ban", "event", "ab"], "is not an event id"),
        (["allow", "client", "birds.example"], "is not an IP address"),
    ] {
        let (is_done, said) = server.ctl(&words);
        assert!(!is_done && said.contains(why), "{said}");
    }
}

#[test]
fn a_banned_client_is_disconnected_and_comes_back_when_it_is_allowed() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let mut socket = connect(&server);
    assert_eq!(ask(&mut socket, &json!(["REQ", "a", {}]))[0], "EOSE");
    assert_eq!(server.ctl_json(&["ban", "client", "127.0.0.0/8"])["disconnected"], 1);
    socket.get_mut().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let last = socket.read();
    assert!(matches!(&last, Ok(Message::Close(Some(frame))) if u16::from(frame.code) == 1008), "{last:?}");
    let port = server.port("serving the relay").unwrap();
    assert!(pipe::ws(pipe::tcp(port).unwrap()).is_err());
    server.ctl_json(&["allow", "client", "127.0.0.1"]);
    assert_eq!(ask(&mut connect(&server), &json!(["REQ", "a", {}]))[0], "EOSE");
}

fn connect_wallet(server: &Birdhouse) -> Client {
    Client::connect(server.port("serving the Electrum protocol").unwrap()).unwrap()
}

fn is_served(server: &Birdhouse) -> bool {
    connect_wallet(server).call("server.ping", json!([])).is_ok()
}

#[test]
fn a_banned_client_is_disconnected_from_every_listener_and_told_so() {
    let node = node();
    let anywhere = "127.0.0.1:0";
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_RELAY_ADDR", anywhere), ("BIRDHOUSE_REST_ADDR", anywhere)]);
    let mut wallet = server.client();
    let mut nostr = connect(&server);
    assert_eq!(ask(&mut nostr, &json!(["REQ", "a", {}]))[0], "EOSE");
    let rest = format!("127.0.0.1:{}", server.port("serving the REST API").unwrap());
    let ask_rest = |client: &mut HttpClient| client.ask(&get("/blocks/tip/height")).map(|(status, _)| status).ok();
    let mut rest_client = HttpClient::connect(&rest).unwrap();
    assert_eq!(ask_rest(&mut rest_client), Some(200));
    server.until_connections(3);
    assert_eq!(server.ctl_json(&["ban", "client", "127.0.0.0/8"])["disconnected"], 3);
    assert!(wallet.closed_within(Duration::from_secs(30)));
    assert_eq!(ask_rest(&mut rest_client), None);
    let why = connect_wallet(&server).answer().unwrap();
    assert_eq!(why["error"]["message"], "excessive resource usage: your address is not wanted here");
    let mut refused = HttpClient::connect(&rest).unwrap();
    let (status, why) = refused.ask(&get("/blocks/tip/height")).unwrap();
    assert_eq!((status, str::from_utf8(why).unwrap()), (403, "your address is not wanted here\n"));
    server.ctl_json(&["allow", "client", "127.0.0.1"]);
    assert!(is_served(&server) && ask_rest(&mut HttpClient::connect(&rest).unwrap()) == Some(200));
    assert_eq!(ask(&mut connect(&server), &json!(["REQ", "a", {}]))[0], "EOSE");
    server.ctl_json(&["unallow", "client", "127.0.0.1"]);
    assert!(!is_served(&server), "the ban is there again");
    server.ctl_json(&["unban", "client", "127.0.0.0/8"]);
    assert!(is_served(&server));
}

#[test]
fn bans_of_clients_need_no_relay_and_are_kept_and_in_backups() {
    let node = node();
    let mut server = Birdhouse::start(&node);
    for words in [["ban", "kind", "7"], ["unban", "kind", "7"]] {
        let (is_done, said) = server.ctl(&words);
        assert!(!is_done && said.contains("set --relay-addr"), "{said}");
    }
    let (is_done, said) = server.ctl(&["unban", "client", "127.0.0.1"]);
    assert!(!is_done && said.contains("list them with `birdhouse ctl banned`"), "{said}");
    server.ctl_json(&["ban", "client", "127.0.0.1", "--reason", "scans"]);
    let listed = server.ctl_json(&["banned"]);
    assert_eq!((&listed[0]["value"], &listed[0]["reason"]), (&json!("127.0.0.1"), &json!("scans")));
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    assert!(server.run("backup", &[copy.to_str().unwrap()]).0);
    let file = fs::read(server.dir().join("regtest/rules")).unwrap();
    assert_eq!(fs::read(copy.join("regtest/rules")).unwrap(), file);
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Birdhouse::start_early_in(server.into_dir(), &node);
    server.until("answers birdhouse ctl", || server.ctl(&["status"]).0.then_some(()));
    server.until("serves wallets", || server.port("serving the Electrum protocol"));
    assert_eq!(server.ctl_json(&["banned"]), listed);
    assert!(!is_served(&server));
    server.ctl_json(&["unban", "client", "127.0.0.1"]);
    assert!(is_served(&server));
    server.ctl_json(&["ban", "client", "127.0.0.1", "--for", "1s"]);
    server.until("the ban ends", || (server.ctl_json(&["audit"])[0]["action"] == "expire").then_some(()));
    assert!(is_served(&server));
}

#[test]
fn a_damaged_file_of_rules_stops_the_start_with_advice_and_is_kept() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    server.ctl_json(&["ban", "kind", "7"]);
    server.ctl_json(&["stop"]);
    server.wait();
    let dir = server.into_dir();
    let file = dir.path().join("relay/rules");
    let damaged = fs::read_to_string(&file).unwrap().replace("ban", "bad");
    fs::write(&file, &damaged).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_birdhouse"))
        .args(["run", "--bitcoin=off", "--relay-addr=127.0.0.1:0", &format!("--data-dir={}", dir.path().display())])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("restore the file from a backup"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
}

#[test]
fn a_backup_has_the_rules() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    assert!(is_accepted(&server, 1));
    server.ctl_json(&["ban", "kind", "7"]);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let (is_done, said) = server.run("backup", &[copy.to_str().unwrap()]);
    assert!(is_done, "{said}");
    for file in ["relay/rules", "relay/audit"] {
        assert_eq!(fs::read(copy.join(file)).unwrap(), fs::read(server.dir().join(file)).unwrap());
    }
}

#[test]
fn a_ban_for_a_time_ends_also_while_the_server_is_killed_and_its_log_is_cut() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let author = keys(1).pubkey().to_string();
    server.ctl_json(&["ban", "kind", "7", "--for", "1 h"]);
    let (is_done, said) = server.ctl(&["ban", "kind", "8", "--for", "soon"]);
    assert!(!is_done && said.contains("expected a time like"), "{said}");
    let (is_done, said) = server.ctl(&["ban", "kind", "8", "--for", "400000 d"]);
    assert!(!is_done && said.contains("2106"), "{said}");
    // Long enough for what follows on a machine with other work, until the kill.
    let done = server.ctl_json(&["ban", "author", &author, "--reason", "spam", "--for", "20s"]);
    let listed = server.ctl_json(&["banned"]);
    let until = done["until"].as_u64().unwrap();
    assert_eq!((until, &listed[0]["until"]), (listed[0]["since"].as_u64().unwrap() + 20, &json!(until)));
    assert!(!is_accepted(&server, 1));
    let before = server.ctl_json(&["audit"]);
    assert_eq!(
        (&before[0]["actor"], &before[0]["action"], &before[0]["reason"]),
        (&json!("ctl"), &json!("ban"), &json!("spam"))
    );
    server.signal(Signal::SIGKILL);
    server.wait();
    let file = server.dir().join("relay/audit");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // A kill amid the next entry.
    let mut cut = fs::read(&file).unwrap();
    cut.extend_from_slice(b"8f3a0c11 {\"number\":3,\"ti");
    fs::write(&file, cut).unwrap();
    std::thread::sleep(Duration::from_secs(22));
    let server = Birdhouse::start_relay(server.into_dir(), &[]);
    assert_eq!(server.ctl_json(&["banned"]).as_array().unwrap().len(), 1);
    assert!(is_accepted(&server, 1), "it was over before the start");
    let log = server.ctl_json(&["audit"]);
    assert_eq!((log.as_array().unwrap().len(), &log[2], &log[1]["ended_by"]), (3, &before[1], &json!(3)));
    assert_eq!(
        (&log[0]["actor"], &log[0]["action"], &log[0]["value"]),
        (&json!("expiry"), &json!("expire"), &json!(author))
    );

    assert_eq!(server.ctl_json(&["undo", "1"])["undone"], 1);
    assert_eq!(server.ctl_json(&["banned"]), json!([]));
    assert_eq!(server.ctl_json(&["undo", "4"])["undone"], 4, "the undoing itself");
    assert_eq!(server.ctl_json(&["banned"])[0]["until"], listed[1]["until"]);
    for (number, why) in [("1", "cannot be undone"), ("77", "no entry 77")] {
        let (is_done, said) = server.ctl(&["undo", number]);
        assert!(!is_done && said.contains(why), "{said}");
    }
    let newest = server.ctl_json(&["audit", "--count", "1"]);
    assert_eq!((newest.as_array().unwrap().len(), &newest[0]["id"]), (1, &json!(5)));
    let (_, table) = server.ctl(&["audit"]);
    assert!(table.starts_with("type    value"), "{table}");
}
