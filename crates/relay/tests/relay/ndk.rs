//! NDK (npm) and its sync, in node with `ws`. It sends an array of filters, whatever it was given.

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::{App, event, ids};
use crate::npm::Npm;

const NDK: Npm = Npm { variable: "NDK", cached: "ndk-3.0.3", package: "@nostr-dev-kit/sync" };
const SCRIPT: &str = include_str!("ndk.js");

#[tokio::test(flavor = "multi_thread")]
async fn ndk_syncs_the_union_of_its_filters() {
    let notes: Vec<VerifiedEvent> =
        (0..60).zip([1, 7, 9].into_iter().cycle()).map(|(n, kind)| event(1, kind, n, &[])).collect();
    let app = App::start_filled(Settings::default(), &notes).await;
    let Some(seen) = NDK.run::<Value>(SCRIPT, app.url()).await else { return };
    assert_eq!(seen["failures"], json!([]));
    let mut wanted = ids(notes.iter().filter(|note| note.kind.0 != 9));
    wanted.sort();
    assert_eq!((&seen["need"], &seen["events"]), (&json!(wanted), &json!(wanted)));
}
