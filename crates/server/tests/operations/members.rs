//! Members of the relay (NIP-43) by `birdhouse ctl`: listed, added, invited and removed, across restarts and backups.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

fn keys(author: u8) -> Keys {
    Keys::from_secret([author; 32]).unwrap()
}

/// Returns a signed event of now as JSON.
#[expect(clippy::disallowed_methods, reason = "the relay goes by the clock of the machine")]
fn signed(author: u8, kind: u16, tags: &[[&str; 2]]) -> Value {
    let tags = tags.iter().map(|tag| Tag(tag.map(str::to_owned).to_vec())).collect();
    let created_at = Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let event = UnsignedEvent { created_at, kind: Kind(kind), tags, content: String::new() };
    serde_json::from_str(&event.sign(&keys(author)).to_json()).unwrap()
}

/// Publishes an event on a connection of its own, and returns the text of the answer.
fn publish(server: &Birdhouse, event: &Value) -> String {
    ask(&mut connect(server), &json!(["EVENT", event]))[3].as_str().unwrap().to_owned()
}

fn start(dir: TempDir) -> Birdhouse {
    Birdhouse::start_relay(dir, &["--relay-members=publish"])
}

/// Kills a server and starts it again.
fn restarted(mut server: Birdhouse) -> Birdhouse {
    server.signal(Signal::SIGKILL);
    server.wait();
    start(server.into_dir())
}

/// Returns the relay's list of members, once it has this number of them.
fn listed(server: &Birdhouse, members: usize) -> Value {
    server.until("lists the members", || {
        let mut client = connect(server);
        let list = ask(&mut client, &json!(["REQ", "a", { "kinds": [13_534] }]))[2].clone();
        (list["tags"].as_array()?.len() == members + 1).then_some(list)
    })
}

#[test]
fn the_operator_invites_adds_and_removes_members() {
    let mut server = start(tempfile::tempdir().unwrap());
    assert_eq!(server.ctl(&["members"]).1, "none\n");
    let code = server.ctl_json(&["invite", "--days", "3"])["code"].as_str().unwrap().to_owned();
    let invite = &server.ctl_json(&["invites"])[0];
    assert_eq!((&invite["code"], &invite["uses"], &invite["inviter"]), (&json!(code), &json!(1), &Value::Null));
    assert_eq!(invite["until"].as_u64().unwrap() - invite["since"].as_u64().unwrap(), 3 * 86_400);

    // The invite outlives a restart.
    server = restarted(server);
    let note = signed(1, 1, &[]);
    assert_eq!(publish(&server, &note), "restricted: only members may publish here");
    assert_eq!(publish(&server, &signed(1, 28_934, &[["claim", &code]])), "info: welcome!");
    assert_eq!(publish(&server, &note), "");
    assert_eq!(server.ctl_json(&["invites"]), json!([]));
    let author = |author: u8| keys(author).pubkey().to_string();
    server.ctl_json(&["allow", "author", &author(2), "--reason", "a friend"]);
    let members = server.ctl_json(&["members"]);
    assert_eq!((&members[0]["value"], &members[1]["value"]), (&json!(author(1)), &json!(author(2))));
    assert_eq!(members[0]["reason"], "joined with an invite of the operator");
    let list = listed(&server, 2);
    assert_eq!(list["tags"][1], json!(["member", author(1)]));
    server.ctl_json(&["unallow", "author", &author(1)]);
    assert_eq!(publish(&server, &signed(1, 1, &[])), "restricted: only members may publish here");
    listed(&server, 1);

    let code = server.ctl_json(&["invite", "--uses", "2"])["code"].as_str().unwrap().to_owned();
    server.ctl_json(&["revoke", &code]);
    assert!(server.ctl(&["revoke", &code]).1.contains("no invite has this code"));
    assert_eq!(
        publish(&server, &signed(3, 28_934, &[["claim", &code]])),
        "restricted: that is an invalid invite code."
    );

    // The key stays the same, and is in backups.
    let key = server.dir().join("relay/self-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let backup = tempfile::tempdir().unwrap();
    let target = backup.path().join("backup");
    assert!(server.run("backup", &[target.to_str().unwrap()]).0);
    assert_eq!(fs::read(target.join("relay/self-key")).unwrap(), fs::read(&key).unwrap());
    let server = restarted(server);
    assert_eq!(listed(&server, 1)["pubkey"], list["pubkey"]);
}

#[test]
fn without_members_there_are_no_invites_and_no_key() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    assert!(server.ctl(&["invite"]).1.contains("relay-members"));
    assert!(!server.dir().join("relay/self-key").exists());
}
