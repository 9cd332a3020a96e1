//! Files for their owner alone, and secrets that others cannot read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::pipe;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::node;
use crate::process::Birdhouse;

/// Returns the paths below `folder` to which others have access, with their modes.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        // A segment may be merged away meanwhile.
        let Ok(found) = entry.metadata() else { continue };
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            open.push(format!("{:o} {}", mode, entry.path().display()));
        }
        if found.is_dir() {
            open.extend(open_to_others(&entry.path()));
        }
    }
    open
}

#[test]
fn whatever_the_umask_files_are_for_their_owner_alone() {
    let node = node();
    for umask in ["umask 000", "umask 022"] {
        let envs = [
            ("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0"),
            ("BIRDHOUSE_ELECTRUM_TLS_ADDR", "127.0.0.1:0"),
            ("BIRDHOUSE_LOG", "info"),
        ];
        let server = Birdhouse::start_after(umask, &node, &envs);
        server.until("serves ctl", || server.ctl(&["status"]).0.then_some(()));
        assert_eq!(fs::metadata(server.socket()).unwrap().permissions().mode() & 0o777, 0o600);
        let folders = ["regtest", "relay"].map(|name| server.dir().join(name));
        for folder in &folders {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
            assert_eq!(open_to_others(folder), [""; 0], "{umask}");
        }
        let pem = server.dir().join("electrum-tls.pem");
        assert_eq!(fs::metadata(pem).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_plugin_sees_no_variable_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let plugin = format!("env > {}; cat > /dev/null", seen.display());
    let envs = "export BIRDHOUSE_RPC_PASSWORD=hunter2 CREDENTIALS_DIRECTORY=/run/credentials KEPT=yes";
    let server = Birdhouse::start_relay_after(envs, dir, &[&format!("--relay-plugin={plugin}")]);
    let port = server.port("serving the relay").unwrap();
    let mut socket = pipe::ws(pipe::tcp(port).unwrap()).unwrap();
    let event = UnsignedEvent { created_at: Timestamp(1), kind: Kind(1), tags: Vec::new(), content: String::new() };
    let event = event.sign(&Keys::from_secret([7; 32]).unwrap()).to_json();
    socket.send(Message::text(format!("[\"EVENT\",{event}]"))).unwrap();
    let variables = server.until("starts the plugin", || {
        fs::read_to_string(&seen).ok().filter(|variables| variables.contains("KEPT=yes"))
    });
    assert!(!variables.contains("hunter2") && !variables.contains("BIRDHOUSE_"), "{variables}");
    assert!(!variables.contains("CREDENTIALS_DIRECTORY"), "{variables}");
}

#[test]
fn a_password_on_the_command_line_is_warned_of_and_one_in_a_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let shown = ["--rpc-user=alice", "--rpc-password=hunter2"];
    let server = Birdhouse::start_relay_after(":", dir, &shown);
    assert!(server.log().contains("other users can read this value"), "{}", server.log());
    assert!(!server.log().contains("hunter2"), "{}", server.log());
    assert_eq!(server.ctl_json(&["connections"]), json!([]));
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, "hunter2\n").unwrap();
    let hidden = ["--rpc-user=alice".to_owned(), format!("--rpc-password-file={}", file.display())];
    let server = Birdhouse::start_relay_after(":", dir, &[&hidden[0], &hidden[1]]);
    assert!(!server.log().contains("other users can read"), "{}", server.log());
}
