//! The relay alone (`--bitcoin off`), without a node.

use std::net::TcpStream;
use std::time::Duration;

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::inspection::Inspection;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

fn note(kind: u16) -> Value {
    let event =
        UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(kind), tags: Vec::new(), content: "a".into() };
    let event = event.sign(&Keys::from_secret([7; 32]).unwrap());
    serde_json::from_str(&event.to_json()).unwrap()
}

#[test]
fn the_relay_runs_without_a_node_with_the_same_monitoring_and_shutdown() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &["--relay-deny-kinds=7,20-29"]);
    let mut socket = connect(&server);
    let event = note(1);
    assert_eq!(ask(&mut socket, &json!(["EVENT", event])), json!(["OK", event["id"], true, ""]));
    for kind in [7, 25] {
        let refused = ask(&mut socket, &json!(["EVENT", note(kind)]));
        assert!(refused[3].as_str().unwrap().starts_with("blocked: "), "{refused}");
    }
    assert_eq!(ask(&mut socket, &json!(["REQ", "a", { "kinds": [1] }])), json!(["EVENT", "a", event]));

    let health = server.get("/health");
    assert_eq!(
        (health.status, health.body.as_str()),
        (200, "{\"relay\":{\"status\":\"serving\"},\"status\":\"serving\"}\n")
    );
    let metrics = server.get("/metrics").body;
    for line in [
        r#"birdhouse_relay_received_events_total{outcome="accepted"} 1"#,
        r#"birdhouse_relay_received_events_total{outcome="blocked"} 2"#,
        r#"birdhouse_relay_queries_total{verb="REQ"} 1"#,
        "birdhouse_relay_sent_stored_events_total 1",
        "birdhouse_relay_stored_events 1",
        "birdhouse_relay_connections 1",
        "birdhouse_relay_subscriptions 1",
        "birdhouse_healthy 1",
    ] {
        assert!(metrics.lines().any(|is| is == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("chain_") && !metrics.contains("electrum_"), "{metrics}");
    let status = server.ctl_json(&["status"]);
    assert_eq!(
        (&status["health"], &status["relay_events"], &status["relay_connections"]),
        (&json!("serving"), &json!(1), &json!(1))
    );
    assert_eq!(status["tip_height"], Value::Null);
    let explained = server.ctl_json(&["explain", r#"{"kinds":[1],"limit":5}"#]);
    assert_eq!((&explained["postings"], &explained["events"], &explained["rows"]), (&json!(1), &json!(1), &json!(1)));
    assert!(explained["plan"].as_str().unwrap().starts_with("merge 1 ranges of lists of all events"), "{explained}");
    assert!(!server.ctl(&["explain", "no filter"]).0);
    let connections = server.ctl_json(&["connections"]);
    let [connection] = &connections.as_array().unwrap()[..] else { panic!("{connections}") };
    assert_eq!(
        (&connection["protocol"], &connection["listener"], &connection["subscriptions"], &connection["requests"]),
        (&json!("Nostr"), &json!("relay"), &json!(1), &json!(4))
    );
    server.ctl_json(&["disconnect", &connection["id"].to_string()]);
    loop {
        match socket.read().unwrap() {
            Message::Close(frame) => break assert_eq!(frame.unwrap().reason, "the operator closed this connection"),
            Message::Text(text) => assert!(text.starts_with("[\"EOSE\""), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    server.until("forgets the connection", || (server.ctl_json(&["connections"]) == json!([])).then_some(()));
    assert!(!server.ctl(&["disconnect", "1"]).0);

    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success(), "{}", server.log());
    let mut server = Birdhouse::start_relay(server.into_dir(), &[]);
    assert_eq!(ask(&mut connect(&server), &json!(["COUNT", "a", {}])), json!(["COUNT", "a", { "count": 1 }]));
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success(), "{}", server.log());
}

#[test]
fn connections_get_a_close_message_when_the_relay_stops() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let mut sockets: Vec<_> = (0..200).map(|_| connect(&server)).collect();
    for socket in &mut sockets {
        assert_eq!(ask(socket, &json!(["REQ", "a", {}]))[0], "EOSE");
    }
    // One that never sends a request.
    let _silent = TcpStream::connect(("127.0.0.1", server.port("serving the relay").unwrap())).unwrap();
    server.signal(Signal::SIGTERM);
    for socket in &mut sockets {
        let last = socket.read();
        assert!(matches!(&last, Ok(Message::Close(Some(frame))) if u16::from(frame.code) == 1001), "{last:?}");
    }
    drop(sockets);
    let (status, took) = server.wait();
    // The silent one may stay for ten seconds, and a shutdown that waited for it would.
    assert!(status.success() && took < Duration::from_secs(8), "{status} after {took:?}\n{}", server.log());
}

#[test]
fn settings_of_the_configuration_file_apply_to_the_relay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("birdhouse.toml");
    let text = r#"
        relay-name = "Nest"
        relay-plugin = "while read -r line; do :; done"
        relay-plugin-broken = "accept"
        relay-proxy-from = ["127.0.0.0/8"]

        [limits.relay]
        subscriptions = 1
        plugin-timeout = "100 ms"
        slow-query = "0 ms"
    "#;
    std::fs::write(&file, text).unwrap();
    let server = Birdhouse::start_relay(dir, &[&format!("--config={}", file.display())]);
    let mut socket = connect(&server);
    assert_eq!(ask(&mut socket, &json!(["REQ", "a", { "#t": ["secret"], "kinds": [1, 6] }]))[0], "EOSE");
    assert!(server.log().contains("slow query") && server.log().contains("#t:1 kinds:2"), "{}", server.log());
    assert!(!server.log().contains("secret"));
    let refused = ask(&mut socket, &json!(["REQ", "b", {}]));
    assert!(refused[2].as_str().unwrap().starts_with("rate-limited: "), "{refused}");
    let event = note(1);
    socket.send(Message::text(json!(["EVENT", event]).to_string())).unwrap();
    server.until("accepts the event that the plugin does not judge", || {
        server.log().contains("it does not answer").then_some(())
    });
    server.until("stores the event", || (server.ctl_json(&["status"])["relay_events"] == 1).then_some(()));
    assert!(server.log().contains("the plugin is broken"));
    assert!(!server.log().contains(event["id"].as_str().unwrap()));
}

#[test]
fn nothing_to_serve_is_an_error_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_birdhouse"))
        .args(["run", "--bitcoin=off", &format!("--data-dir={}", dir.path().display())])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--relay-addr"), "{output:?}");
}

#[test]
fn people_who_open_the_relay_in_a_browser_learn_how_to_use_it() {
    const NPUB: &str = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";
    let pubkey = format!("--relay-pubkey={NPUB}");
    let server = Birdhouse::start_relay(
        tempfile::tempdir().unwrap(),
        &[
            "--relay-url=wss://relay.example.org",
            "--relay-name=The Nest",
            "--relay-description=A relay for birds",
            "--relay-contact=mailto:bird@example.org",
            &pubkey,
        ],
    );
    let own = format!("http://127.0.0.1:{}", server.port("serving the relay").unwrap());
    let Some(mut inspection) = Inspection::start(&own, "RELAY_PICTURES").unwrap() else { return };
    let mut text = String::new();
    inspection
        .inspect("relay", |browser| {
            browser.open(&own)?;
            text = browser.evaluate("document.body.innerText")?.as_str().unwrap_or_default().to_owned();
            Ok(())
        })
        .unwrap();
    for part in ["The Nest", "A relay for birds", "wss://relay.example.org", "Everybody may publish", NPUB, "NIP-42"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn an_export_that_fails_leaves_an_earlier_one_and_makes_no_relay() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("events.jsonl");
    std::fs::write(&file, "earlier\n").unwrap();
    let export = |more: &[&str]| {
        let data_dir = format!("--data-dir={}", data.path().display());
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_birdhouse"));
        let output = program.arg("export").arg(&file).arg(data_dir).args(more).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    // A folder without a relay.
    let (done, said) = export(&["--bitcoin=off"]);
    assert!(!done && said.contains("no relay"), "{said}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
    // A server whose relay is off.
    let node = crate::node();
    let server = Birdhouse::start(&node);
    let (done, said) = server.run("export", &[file.to_str().unwrap()]);
    assert!(!done && said.contains("the relay is off"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier\n");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "a part is left");
}
