//! nostr-tools (npm), the library of most clients on the web, in node with `ws`.

use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::App;
use crate::npm::Npm;

pub(crate) const NOSTR_TOOLS: Npm =
    Npm { variable: "NOSTR_TOOLS", cached: "nostr-tools-2.25.2", package: "nostr-tools" };
const SCRIPT: &str = include_str!("nostr_tools.js");

#[tokio::test(flavor = "multi_thread")]
async fn nostr_tools_publishes_follows_counts_authenticates_deletes_and_syncs() {
    let app = App::start(Settings::default()).await;
    let Some(seen) = NOSTR_TOOLS.run::<Value>(SCRIPT, app.url()).await else { return };
    let begins = |what: &str, prefix: &str| {
        assert!(seen[what].as_str().is_some_and(|said| said.starts_with(prefix)), "{what}: {seen}");
    };
    assert_eq!((&seen["published"], &seen["told"]), (&json!(""), &json!("a note")));
    assert_eq!((&seen["stored"], &seen["counted"]), (&json!(["a note"]), &json!(1)));
    begins("stranger", "auth-required: ");
    assert_eq!(seen["recipient"], json!(["a secret"]));
    assert_eq!((&seen["wraps"], &seen["messages"]), (&json!([131_168, 153_012]), &json!([60_000, 65_535])));
    assert_eq!(seen["request"], json!("mute: nobody listened"));
    begins("protected", "auth-required: ");
    assert_eq!(seen["author"], json!(""));
    assert_eq!(seen["deleted"], json!([]));
    begins("again", "blocked: ");
    assert_eq!((&seen["ours"], &seen["theirs"]), (&json!([true]), &json!([true])), "what is deleted, and the deletion");
    assert_eq!(app.events.live_events(), 5, "the secret, two gift wraps, what is protected and the deletion");
}
