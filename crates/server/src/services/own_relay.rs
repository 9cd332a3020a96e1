//! The relay as a way of notices: their messages are stored and sent without a connection.

use std::sync::Arc;

use birdhouse_events::{Event, Kind, Pubkey, RelayUrl};
use birdhouse_relay::Relay;
use birdhouse_watch::channel::OwnRelay;
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;

/// The relay of this process.
pub(crate) struct WatchRelay(pub(crate) Arc<Relay>);

impl OwnRelay for WatchRelay {
    fn urls(&self) -> Vec<String> {
        self.0.urls().iter().map(ToString::to_string).collect()
    }

    fn is_named(&self, url: &str) -> bool {
        RelayUrl::parse(url).is_some_and(|url| self.0.urls().contains(&url))
    }

    fn publish(&self, event: String) -> BoxFuture<'_, Result<(), String>> {
        let relay = Arc::clone(&self.0);
        Box::pin(on_disk(move || {
            let event = Event::from_json(&event).map_err(|malformed| malformed.to_string())?;
            relay.store_own(event.verify().map_err(|rejection| rejection.to_string())?)
        }))
    }

    fn newest(&self, kind: u16, author: [u8; 32]) -> BoxFuture<'_, Result<Option<String>, String>> {
        let relay = Arc::clone(&self.0);
        Box::pin(on_disk(move || {
            let newest = relay.newest(Kind(kind), Pubkey(author))?;
            Ok(newest.map(|event| event.to_json()))
        }))
    }
}

/// Runs work on a thread that may wait for the disk.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    spawn_blocking(work).await.map_err(|_| "the relay has failed".to_owned())?
}
