//! Events of the relay in the order in which they were published, for a reader that goes on where it was. An event that
//! was replaced, deleted, banned or has expired meanwhile is left out; ephemeral events have no place in this order.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_events::{Event, Filter, Seq};
use birdhouse_net::ReadTurns;

use crate::clock::now;
use crate::exchange::Exchange;
use crate::limits::PAGE_BYTES;
use crate::plugin::Plugin;
use crate::relay::Relay;
use crate::settings::PluginSettings;

/// Numbers of events that are read in one turn.
const READ_TOGETHER: u64 = 500;

/// An event and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The number.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// Events that match, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPage {
    /// The events.
    pub events: Vec<Published>,
    /// The number at which the next page begins.
    pub next: Seq,
}

impl Relay {
    /// Returns the number of the next event. Those below are durable.
    ///
    /// # Errors
    /// Another process stores the events.
    pub fn published_end(&self) -> Result<Seq, String> {
        Ok(self.depot()?.feed.end())
    }

    /// Waits until events from a number on are durable.
    ///
    /// # Errors
    /// Another process stores the events.
    pub async fn published_beyond(&self, seq: Seq) -> Result<(), String> {
        self.depot()?.feed.published_beyond(seq).await;
        Ok(())
    }

    /// Starts another plugin for some of the events, which [`Exchange::streaming`] has judged by it. It ends with the
    /// handle. Needs a runtime around the caller.
    pub fn start_plugin(&self, settings: PluginSettings) -> Arc<Plugin> {
        Arc::new(Plugin::start(settings, self.settings.limits.plugin_timeout, self.ingest.weak()))
    }
}

impl Exchange {
    /// Returns the durable events of a filter from a number on, `most` at most. A page may have none and not be the
    /// last.
    ///
    /// # Errors
    /// The store's failure, or another process stores the events.
    pub async fn published(&self, from: Seq, filter: &Filter, most: usize) -> Result<PublishedPage, String> {
        let end = self.relay.published_end()?.0.min(from.0 + READ_TOGETHER);
        let seqs: Vec<Seq> = (from.0..end).map(Seq).collect();
        let (rules, seconds) = (self.relay.rules(), u64::from(now()));
        let read = |_: &ReadTurns| {
            let (mut events, mut bytes, mut next) = (Vec::new(), 0, Seq(end));
            let visited = self.relay.events.visit(&seqs, &mut |seq, packed| {
                bytes += packed.json_bytes();
                let Some(event) = packed.to_event() else { return ControlFlow::Continue(()) };
                let is_hidden = rules.hiding().is_some_and(|hidden| hidden.hides(&event.id, &event.pubkey));
                let has_expired = event.expiration().is_some_and(|at| at.0 <= seconds);
                if filter.matches(&event) && !is_hidden && !has_expired {
                    events.push(Published { seq, event });
                }
                if events.len() < most && bytes < PAGE_BYTES {
                    return ControlFlow::Continue(());
                }
                next = Seq(seq.0 + 1);
                ControlFlow::Break(())
            });
            visited.map(|()| PublishedPage { events, next })
        };
        let page = self.relay.settings.reads.offloaded(&self.guard.meter, read).await;
        page.map_err(|error| error.to_string())
    }
}
