//! Events of the server itself: no connection sends them, so neither policy, nor rates, nor the plugin are asked.

use std::ops::ControlFlow;
use std::time::Duration;

use birdhouse_events::{Event, Filter, Kind, Pubkey, Query, RelayUrl, VerifiedEvent, hex};

use crate::clock::now;
use crate::message::Outcome;
use crate::relay::Relay;
use crate::writing::Destination;

impl Relay {
    /// Returns the URLs by which clients know the relay.
    pub fn urls(&self) -> &[RelayUrl] {
        self.events.urls()
    }

    /// Stores an event of the server's own and sends it to subscriptions; returns once it is durable. Waits for the
    /// store. An event that is here already counts as stored.
    ///
    /// # Errors
    /// The reason why it is not stored.
    pub fn store_own(&self, event: VerifiedEvent) -> Result<(), String> {
        let outcome = match &self.destination {
            Destination::Local(depot) => {
                let stored = self.gathering.store(depot, vec![event]);
                stored.and_then(|outcomes| outcomes.into_iter().next()).map(|(outcome, _)| outcome)
            }
            Destination::Remote(link) => link.pass_on(&[&event], &mut [Duration::ZERO]).into_iter().next(),
        };
        match outcome.ok_or("storing the event failed")? {
            Outcome::Accepted | Outcome::Duplicate | Outcome::Shadowed => Ok(()),
            Outcome::Refused(rejection) => Err(format!("the relay refused the event: {rejection}")),
        }
    }

    /// Returns the newest event of a kind and an author. Waits for the store.
    ///
    /// # Errors
    /// The store's failure.
    pub fn newest(&self, kind: Kind, author: Pubkey) -> Result<Option<Event>, String> {
        let filter = format!(r#"{{"kinds":[{}],"authors":["{}"],"limit":1}}"#, kind.0, hex::string(&author.0));
        let limits = self.settings.limits.filter(self.settings.unknown_keys);
        let filter = Filter::from_json(&filter, &limits).map_err(|rejection| rejection.to_string())?;
        let query = Query { end: self.events.end(), now: now(), ..Query::of(&filter) };
        let (mut from, mut found) = (None, None);
        loop {
            let page = self.events.page(query, from, 1, &mut |_, packed| {
                found = packed.to_event();
                ControlFlow::Break(())
            });
            from = page.map_err(|error| error.to_string())?;
            if found.is_some() || from.is_none() {
                return Ok(found);
            }
        }
    }
}
