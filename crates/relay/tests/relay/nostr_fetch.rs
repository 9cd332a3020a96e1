//! nostr-fetch (npm), in node with `ws`. It waits for an EOSE of two elements before it returns anything.

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::Settings;

use crate::app::{App, event, ids};
use crate::npm::Npm;

const NOSTR_FETCH: Npm = Npm { variable: "NOSTR_FETCH", cached: "nostr-fetch-0.17.0", package: "nostr-fetch" };
const SCRIPT: &str = include_str!("nostr_fetch.js");

#[tokio::test(flavor = "multi_thread")]
async fn nostr_fetch_sees_the_end_of_the_stored_events() {
    let notes: Vec<VerifiedEvent> = (0..20).map(|n| event(1, 1, n, &[])).collect();
    let app = App::start_filled(Settings::default(), &notes).await;
    let Some(mut seen) = NOSTR_FETCH.run::<Vec<String>>(SCRIPT, app.url()).await else { return };
    let mut wanted = ids(&notes);
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
}
