//! nostr-bench (crate), which opens connections, publishes and asks: it runs through, and what it counts is what
//! happened.

use std::path::PathBuf;
use std::process::Command;

use birdhouse_relay::Settings;
use serde_json::Value;

use crate::app::{App, event};

const CACHED: &str = "birdhouse/nostr-bench-0.4.0/bin/nostr-bench";
const CLIENTS: u64 = 10;
/// It asks for one of this many values of `t`.
const VALUES: u64 = 1000;

/// Where the program is, if it is there.
fn program() -> Option<PathBuf> {
    let cache = || {
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let program = std::env::var_os("NOSTR_BENCH").map(PathBuf::from).or_else(|| Some(cache()?.join(CACHED)))?;
    program.is_file().then_some(program)
}

/// Runs a part of it for some seconds; the last figures that it printed.
async fn run(app: &App, part: &str) -> Option<Value> {
    let Some(program) = program() else {
        eprintln!("LEFT OUT: nostr-bench is not there; run `scripts/peers nostr-bench`");
        return None;
    };
    let (part, url) = (part.to_owned(), app.url());
    let run = move || {
        let clients = CLIENTS.to_string();
        let figures = ["--count", &clients, "--rate", &clients, "--keepalive", "3", "--json"];
        Command::new(program).arg(&part).args(figures).arg(url).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for (name, count) in [("connect", CLIENTS), ("error", 0), ("lost", 0)] {
        assert_eq!(figures["connect_stats"][name], count, "{name}: {figures}");
    }
    Some(figures)
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_bench_connects() {
    let app = App::start(Settings::default()).await;
    let Some(figures) = run(&app, "connect").await else { return };
    assert_eq!(figures["connect_stats"]["success_time"]["count"], CLIENTS, "{figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_bench_publishes_and_every_event_is_kept() {
    let app = App::start(Settings::default()).await;
    let Some(figures) = run(&app, "event").await else { return };
    let messages = &figures["message_stats"];
    // It takes the challenge that greets each of its clients for an answer, and for a bad one.
    assert_eq!(messages["error"], CLIENTS, "{figures}");
    let accepted = messages["complete"].as_u64().unwrap() - CLIENTS;
    assert!(accepted > CLIENTS, "{figures}");
    // Its last figures are of a moment before its end.
    let (kept, sent) = (app.events.live_events(), messages["total"].as_u64().unwrap());
    assert!(kept >= accepted && sent > accepted, "{kept} are kept: {figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_bench_asks_and_gets_what_is_there() {
    let app = App::start(Settings::default()).await;
    // Two events of each value: with its limit of one, each question has one answer.
    let events: Vec<_> = (0..2 * VALUES)
        .map(|number| event(1, 1, number, &[&["t", &format!("nostr-bench-{}", number % VALUES)]]))
        .collect();
    app.events.accept(&events.iter().collect::<Vec<_>>()).unwrap();
    let Some(figures) = run(&app, "req").await else { return };
    let messages = &figures["message_stats"];
    let (answered, sent) = (messages["complete"].as_u64().unwrap(), messages["event"].as_u64().unwrap());
    assert!(answered > CLIENTS, "{figures}");
    // Each client may just have heard an event and not yet EOSE.
    assert!((answered..=answered + CLIENTS).contains(&sent), "{figures}");
    assert_eq!(messages["error"], 0, "{figures}");
}
