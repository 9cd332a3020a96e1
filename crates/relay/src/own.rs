//! Events of the server itself, and its own questions: no connection sends them, so neither policy, nor rates, nor the
//! plugin are asked.

use std::time::Duration;

use birdhouse_events::{Event, Filter, Hide, Kind, Pubkey, Query, RelayUrl, VerifiedEvent};

use crate::clock::now;
use crate::message::Outcome;
use crate::newest::{each_newest, newest};
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
        newest(&self.events, kind, author)
    }

    /// Calls a function with the newest events of a filter, at most `most`. Waits for the store.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn each_newest(
        &self,
        filter: &Filter,
        hidden: Option<&dyn Hide>,
        most: usize,
        then: &mut dyn FnMut(Event),
    ) -> Result<(), String> {
        let query = Query { end: self.events.end(), now: now(), hidden, ..Query::of(filter) };
        each_newest(&self.events, query, most, then)
    }
}
