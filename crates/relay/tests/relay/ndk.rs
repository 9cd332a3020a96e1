//! NDK (npm) and its sync, in node with `ws`. It sends an array of filters, whatever it was given.

use std::path::PathBuf;
use std::process::Command;

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::{App, event, ids};

const CACHED: &str = "birdhouse/ndk-3.0.3/node_modules";
const SCRIPT: &str = include_str!("ndk.js");

/// Where the packages are, if they are there.
fn packages() -> Option<PathBuf> {
    let cache = || {
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let folder = std::env::var_os("NDK").map(PathBuf::from).or_else(|| Some(cache()?.join(CACHED)))?;
    folder.join("@nostr-dev-kit/sync").is_dir().then_some(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn ndk_syncs_the_union_of_its_filters() {
    let Some(packages) = packages() else {
        eprintln!("LEFT OUT: NDK is not there; run `scripts/peers ndk`");
        return;
    };
    let notes: Vec<VerifiedEvent> =
        (0..60).zip([1, 7, 9].into_iter().cycle()).map(|(n, kind)| event(1, kind, n, &[])).collect();
    let app = App::start_filled(Settings::default(), &notes).await;
    let url = app.url();
    let run = move || Command::new("node").args(["--eval", SCRIPT]).arg(packages).arg(url).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["failures"], json!([]));
    let mut wanted = ids(notes.iter().filter(|note| note.kind.0 != 9));
    wanted.sort();
    assert_eq!((&seen["need"], &seen["events"]), (&json!(wanted), &json!(wanted)));
}
