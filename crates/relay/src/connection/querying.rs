//! Stored events for the queries of a connection, page by page, each in the client's turn.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_events::Packed;
use tracing::warn;

use super::{Connection, Ending, Running, Step};
use crate::limits::{COUNT_ROWS, PAGE_BYTES, PAGE_ROWS};
use crate::message::SubscriptionId;
use crate::outgoing::Outgoing;
use crate::place::Place;
use crate::relay::now;
use crate::stored::{Next, Stored};
use crate::tally::Tally;

impl Connection<'_> {
    pub(super) async fn show(&mut self, id: SubscriptionId, number: u64, mut stored: Stored) -> Step {
        if self.subscriptions.get(&id).is_none_or(|open| open.number != number) {
            return Ok(()); // closed meanwhile
        }
        if let Err(rejection) = self.within_share() {
            self.unsubscribe(&id);
            return self.close(&id, &rejection).await;
        }
        let mut page = Page::new(&id, std::mem::take(&mut self.socket.outgoing));
        let next = self.page(&mut stored, PAGE_ROWS, &mut |packed| page.put(packed)).await;
        let Page { outgoing, rows, bytes, .. } = page;
        self.socket.outgoing = outgoing;
        self.visitor.counters.rows.fetch_add(rows, Ordering::Relaxed);
        self.visitor.moved(bytes);
        match next? {
            Next::Page => {
                self.running.push_back(Running::Req(id, number, stored));
                self.flush().await
            }
            Next::End(hint) => self.send(id.eose(hint)).await,
            Next::Refused(rejection) => {
                self.unsubscribe(&id);
                self.close(&id, &rejection).await
            }
        }
    }

    pub(super) async fn count_on(&mut self, id: SubscriptionId, mut stored: Stored, mut tally: Tally) -> Step {
        if let Err(rejection) = self.within_share() {
            return self.close(&id, &rejection).await;
        }
        let mut add = |packed: Packed<'_>| {
            tally.add(packed);
            ControlFlow::Continue(())
        };
        if self.page(&mut stored, COUNT_ROWS, &mut add).await? == Next::Page {
            self.running.push_back(Running::Count(id, stored, tally));
            return Ok(());
        }
        self.send(id.count(&tally)).await
    }

    /// The next page of stored events, and what comes after it.
    async fn page(
        &mut self,
        stored: &mut Stored,
        rows: usize,
        show: &mut (dyn FnMut(Packed<'_>) -> ControlFlow<()> + Send),
    ) -> Result<Next, Ending> {
        let turn = self.turn().await;
        let since = Instant::now();
        let asked = (now(), self.audience());
        let mut count = 0;
        let next = Place::of_page(&self.relay.disk_stall, since).run(|| {
            stored.page(&self.relay.events, asked, rows, &mut |packed| {
                count += 1;
                show(packed)
            })
        });
        let took = since.elapsed();
        Place::took(&self.relay.disk_stall, took);
        self.visitor.counters.queried(took);
        drop(turn);
        (stored.spent, stored.rows) = (stored.spent + took, stored.rows + count);
        let next = next.map_err(Ending::Failed)?;
        if next != Next::Page && self.relay.settings.limits.slow_query.is_some_and(|slow| stored.spent > slow) {
            let (shape, rows, spent_ms) = (stored.shape(), stored.rows, stored.spent.as_millis());
            warn!(shape, rows, spent_ms, "slow query: `birdhouse ctl explain` tells how such a filter is answered");
        }
        Ok(next)
    }
}

/// The messages of a page of stored events, behind what waited to be written before.
struct Page {
    prefix: String,
    outgoing: Outgoing,
    rows: u64,
    bytes: usize,
}

impl Page {
    fn new(id: &SubscriptionId, mut outgoing: Outgoing) -> Self {
        outgoing.prepare();
        Self { prefix: id.event_prefix(), outgoing, rows: 0, bytes: 0 }
    }

    /// Adds an event, unless it is damaged on the disk; and says when it is enough.
    fn put(&mut self, packed: Packed<'_>) -> ControlFlow<()> {
        let prefix = self.prefix.as_bytes();
        let written = self.outgoing.text_of(prefix.len() + packed.json_bytes(), |out| {
            out.extend_from_slice(prefix);
            packed.write_json(out)?;
            out.push(b']');
            Some(())
        });
        if let Some(bytes) = written {
            self.rows += 1;
            self.bytes += bytes;
        }
        if self.bytes < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
