//! Connections of one URL of a stream, one after the other, each until it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::backoff::Backoff;
use super::conversation::{Conversation, Ended};
use super::leg::Leg;
use super::settings::shown;
use super::status::StreamState;
use super::up::Cause;
use crate::clock::elapsed;
use crate::limits::STABLE;

/// Passes events on for as long as the future is polled.
pub(super) async fn run(leg: Arc<Leg>) {
    let mut backoff = Backoff::default();
    loop {
        let began = elapsed();
        leg.enter(StreamState::Connecting);
        let Err(Ended { why, cause }) = connected(&leg).await else { continue };
        // An event that has ended the connection waits by itself.
        if elapsed().saturating_sub(began) > STABLE || cause == Cause::Event {
            backoff.reset();
        }
        let pause = backoff.next(getrandom::u32().unwrap_or_default());
        report(&leg, &why, pause, backoff.failures());
        leg.failed(why);
        sleep(pause).await;
    }
}

async fn connected(leg: &Arc<Leg>) -> Result<(), Ended> {
    let (peer, exchange) = leg.connect().await.map_err(Ended::by_peer)?;
    Conversation::new(Arc::clone(leg), peer, exchange).run().await
}

/// Logs the first failure of several as a warning.
fn report(leg: &Leg, why: &str, pause: Duration, failures: u32) {
    let (stream, url, again_in_ms) = (&leg.key.name, shown(&leg.target), pause.as_millis());
    if failures == 1 {
        tracing::warn!(stream, %url, why, again_in_ms, "a stream has stopped");
    } else {
        tracing::debug!(stream, %url, why, again_in_ms, "a stream has failed again");
    }
}
