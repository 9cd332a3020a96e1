//! Rules of retention are tried before they delete.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::pipe;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::process::Birdhouse;

const DAY: u64 = 24 * 3600;

#[test]
#[expect(clippy::disallowed_methods, reason = "the server goes by the clock of the machine")]
fn rules_in_the_file_are_weighed_before_sighup_and_delete_what_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("birdhouse.toml");
    fs::write(&file, "").unwrap();
    let server = Birdhouse::start_relay(dir, &[&format!("--config={}", file.display())]);
    let mut socket = pipe::ws(pipe::tcp(server.port("serving the relay").unwrap()).unwrap()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // Of kind 1 one a day for 20 days, of kind 7 for 10.
    let ages = (0..20).map(|age| (1, age)).chain((0..10).map(|age| (7, age)));
    for (kind, age) in ages {
        let created_at = Timestamp(now - age * DAY - 60);
        let event = UnsignedEvent { created_at, kind: Kind(kind), tags: Vec::new(), content: format!("{kind} {age}") };
        let event = event.sign(&Keys::from_secret([7; 32]).unwrap()).to_json();
        socket.send(Message::text(format!("[\"EVENT\",{event}]"))).unwrap();
        while !matches!(socket.read().unwrap(), Message::Text(text) if text.contains(",true,")) {}
    }
    assert_eq!(server.ctl_json(&["retention"]), json!([]), "the file has no rule");

    let rules = "[[relay-retention]]\nkinds = [7]\ntime = '3 d'\n[[relay-retention]]\ntime = '15 d'\n";
    fs::write(&file, rules).unwrap();
    let weighed = server.ctl_json(&["retention"]);
    let counts = |line: usize| (weighed[line]["keeps"].as_u64().unwrap(), weighed[line]["deletes"].as_u64().unwrap());
    assert_eq!([counts(0), counts(1)], [(3, 7), (15, 5)], "{weighed}");
    assert!(weighed[1]["deletes_bytes"].as_u64().unwrap() > 5 * 64, "{weighed}");
    let (done, text) = server.ctl(&["retention"]);
    assert!(done && text.lines().count() == 3 && text.contains("deletes"), "{text}");
    let events = || server.ctl_json(&["status"])["relay_events"].as_u64().unwrap();
    assert_eq!(events(), 30, "nothing is deleted yet");

    server.signal(Signal::SIGHUP);
    server.until("deletes what it said", || (events() == 18).then_some(()));
    let weighed = server.ctl_json(&["retention"]);
    assert_eq!((&weighed[0]["deletes"], &weighed[1]["deletes"]), (&json!(0), &json!(0)), "{weighed}");
}
