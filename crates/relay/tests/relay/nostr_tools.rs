//! nostr-tools (npm), the library of most clients on the web, in node with `ws`.

use std::path::PathBuf;
use std::process::Command;

use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::App;

const CACHED: &str = "birdhouse/nostr-tools-2.25.2/node_modules";
const SCRIPT: &str = include_str!("nostr_tools.js");

/// Where the packages are, if they are there.
pub(crate) fn packages() -> Option<PathBuf> {
    let cache = || {
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let folder = std::env::var_os("NOSTR_TOOLS").map(PathBuf::from).or_else(|| Some(cache()?.join(CACHED)))?;
    folder.join("nostr-tools").is_dir().then_some(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_tools_publishes_follows_counts_authenticates_deletes_and_syncs() {
    let Some(packages) = packages() else {
        eprintln!("LEFT OUT: nostr-tools is not there; run `scripts/peers nostr-tools`");
        return;
    };
    let app = App::start(Settings::default()).await;
    let (url, events) = (app.url(), &app.events);
    let run = move || Command::new("node").args(["--eval", SCRIPT]).arg(packages).arg(url).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let begins = |what: &str, prefix: &str| {
        assert!(seen[what].as_str().is_some_and(|said| said.starts_with(prefix)), "{what}: {seen}");
    };
    assert_eq!((&seen["published"], &seen["told"]), (&json!(""), &json!("a note")));
    assert_eq!((&seen["stored"], &seen["counted"]), (&json!(["a note"]), &json!(1)));
    begins("stranger", "auth-required: ");
    assert_eq!(seen["recipient"], json!(["a secret"]));
    begins("protected", "auth-required: ");
    assert_eq!(seen["author"], json!(""));
    assert_eq!(seen["deleted"], json!([]));
    begins("again", "blocked: ");
    assert_eq!((&seen["ours"], &seen["theirs"]), (&json!([true]), &json!([true])), "what is deleted, and the deletion");
    assert_eq!(events.live_events(), 3, "the secret, what is protected and the deletion");
}
