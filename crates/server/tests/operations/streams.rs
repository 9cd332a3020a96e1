//! Streams of running servers: kills of both ends, new settings, and what the operator sees.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

/// Publishes an event of this moment that differs from those of other numbers; returns its id.
#[expect(clippy::disallowed_methods, reason = "streams are about events of this moment")]
fn publish(server: &Birdhouse, kind: u16, number: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (created_at, kind, content) = (Timestamp(now), Kind(kind), number.to_string());
    let event = UnsignedEvent { created_at, kind, tags: Vec::new(), content };
    let event: Value = serde_json::from_str(&event.sign(&Keys::from_secret([7; 32]).unwrap()).to_json()).unwrap();
    assert_eq!(ask(&mut connect(server), &json!(["EVENT", event]))[2], json!(true));
    event["id"].as_str().unwrap().to_owned()
}

fn ids(server: &Birdhouse) -> BTreeSet<String> {
    let (done, lines) = server.run("export", &["-"]);
    assert!(done, "{lines}");
    let id = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["id"].as_str()?.to_owned());
    lines.lines().filter_map(id).collect()
}

/// Starts a relay whose settings are in its folder.
fn start(dir: TempDir) -> Birdhouse {
    let config = format!("--config={}", dir.path().join("birdhouse.toml").display());
    Birdhouse::start_relay(dir, &[&config])
}

fn configure(dir: &Path, text: &str) {
    fs::write(dir.join("birdhouse.toml"), text).unwrap();
}

/// Returns a listener with a port that stays, and the URL.
fn listener() -> (String, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let table = format!("[[listener]]\nname = 'fixed'\nkind = 'relay'\naddr = '127.0.0.1:{port}'\n");
    (table, format!("ws://127.0.0.1:{port}"))
}

fn kill(mut server: Birdhouse) -> TempDir {
    server.signal(Signal::SIGKILL);
    server.wait();
    server.into_dir()
}

#[test]
fn kills_of_both_ends_lose_nothing() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (table, url) = listener();
    configure(theirs.path(), &table);
    configure(ours.path(), &format!("[[stream]]\nname = 'peer'\nurls = '{url}'\ndir = 'both'\n"));
    let (mut theirs, mut ours) = (start(theirs), start(ours));
    let (mut expected, mut number) = (BTreeSet::new(), 0);
    let mut some = |server: &Birdhouse, count: u64| {
        for _ in 0..count {
            number += 1;
            expected.insert(publish(server, 1, number));
        }
    };
    for _ in 0..2 {
        some(&theirs, 15);
        some(&ours, 15);
        let dir = kill(theirs);
        some(&ours, 15);
        theirs = start(dir);
        some(&theirs, 15);
        let dir = kill(ours);
        some(&theirs, 15);
        ours = start(dir);
    }
    ours.until("has all events", || (ids(&ours) == expected).then_some(()));
    theirs.until("has all events", || (ids(&theirs) == expected).then_some(()));
}

#[test]
fn the_operator_sees_streams_and_replaces_them() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (table, url) = listener();
    configure(theirs.path(), &format!("{table}relay-deny-kinds = 9\n"));
    configure(theirs.path(), &format!("relay-deny-kinds = 9\n{table}"));
    let of = |kinds: &str| {
        format!("[[stream]]\nname = 'peer'\nurls = ['{url}']\ndir = 'up'\nfilter = '{{\"kinds\":[{kinds}]}}'\n")
    };
    configure(ours.path(), &of("1,9"));
    let (theirs, ours) = (start(theirs), start(ours));
    let wanted = publish(&ours, 1, 1);
    publish(&ours, 9, 2);
    publish(&ours, 7, 3);
    let stream = || ours.ctl_json(&["status"])["streams"][0].clone();
    ours.until("has all outcomes", || (stream()["waiting"] == 0 && stream()["sent"] == 2).then_some(()));
    let line = stream();
    assert_eq!((&line["stream"], &line["url"], &line["state"]), (&json!("peer"), &json!(url), &json!("live")));
    assert_eq!((&line["accepted"], &line["refused_there"]), (&json!(1), &json!(1)));
    assert!(line["last_refusal"].as_str().unwrap().starts_with("blocked:"), "{line}");
    assert_eq!(ids(&theirs), BTreeSet::from([wanted.clone()]));
    let metrics = ours.get("/metrics").body;
    let labels = format!("{{stream=\"peer\",url=\"{url}\"}}");
    for (name, value) in
        [("accepted_events_total", 1), ("rejected_events_total", 1), ("live", 1), ("failures_total", 0)]
    {
        let metric = format!("birdhouse_relay_stream_{name}{labels} {value}\n");
        assert!(metrics.contains(&metric), "{metric}{metrics}");
    }
    assert!(ours.get("/").body.contains("peer, up"));

    // A mistake changes nothing.
    configure(ours.dir(), &of("1").replace("'up'", "'sideways'"));
    ours.signal(Signal::SIGHUP);
    ours.until("refuses the file", || ours.log().contains("kept the settings").then_some(()));
    configure(ours.dir(), &of("7"));
    ours.signal(Signal::SIGHUP);
    ours.until("takes the streams", || ours.log().contains("read certificates, log level, streams").then_some(()));
    publish(&ours, 1, 4);
    let seventh = publish(&ours, 7, 5);
    theirs.until("has the event", || ids(&theirs).contains(&seventh).then_some(()));
    assert_eq!(ids(&theirs), BTreeSet::from([wanted, seventh]));
    configure(ours.dir(), "");
    ours.signal(Signal::SIGHUP);
    ours.until("has no stream", || ours.ctl_json(&["status"])["streams"].as_array()?.is_empty().then_some(()));
}

#[test]
fn an_other_relay_that_is_away_is_a_warning_and_no_illness() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "[[stream]]\nname = 'away'\nurls = 'ws://127.0.0.1:1'\ndir = 'down'\n");
    let server = start(dir);
    let warning = || {
        let warnings = server.ctl_json(&["status"])["warnings"].clone();
        let text = warnings[0]["text"].as_str()?.to_owned();
        text.starts_with("Stream away, ws://127.0.0.1:1: failed to connect").then_some(())
    };
    server.until("warns", warning);
    assert_eq!(server.get("/health").status, 200);
}

/// The plugin of the stream takes notes of the stream alone; that of the relay would take nothing.
#[test]
fn a_stream_has_a_plugin_of_its_own() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (table, url) = listener();
    configure(theirs.path(), &table);
    let theirs = start(theirs);
    let expected = publish(&theirs, 1, 1);
    publish(&theirs, 7, 2);
    let plugin = ours.path().join("plugin.sh");
    let script = r#"while read -r line; do
        id=$(printf %s "$line" | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
        case $line in *'"kind":1,'*'"sourceType":"Stream"'*) action=accept ;; *) action=reject ;; esac
        printf '{"id":"%s","action":"%s","msg":"blocked: by the plugin"}\n' "$id" "$action"
    done"#;
    fs::write(&plugin, script).unwrap();
    let stream =
        format!("[[stream]]\nname = 'peer'\nurls = '{url}'\ndir = 'down'\nplugin = 'sh {}'\n", plugin.display());
    let settings = format!("relay-plugin = 'sh -c \"exit 1\"'\n{stream}");
    configure(ours.path(), &settings);
    let ours = start(ours);
    let refused = || (ours.ctl_json(&["status"])["streams"][0]["refused"] == 1).then_some(());
    ours.until("has refused one", refused);
    ours.until("has the other", || (ids(&ours) == BTreeSet::from([expected.clone()])).then_some(()));
}
