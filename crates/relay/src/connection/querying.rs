//! Stored events for the queries of a connection, page by page, each in the client's turn.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_clients::{Held, Slowest, UsedUp};
use birdhouse_events::{Filter, Pace, Packed, Rejection};
use birdhouse_net::{Compression, FrameWriter, ReadTurns, SHARE_BYTES};
use tokio::task::yield_now;
use tracing::warn;

use super::{Connection, Ending, Running, Step};
use crate::clock::now;
use crate::limits::{COUNT_ROWS, PAGE_BYTES, PAGE_ROWS};
use crate::message::SubscriptionId;
use crate::relay::FILTER_VALUES;
use crate::stored::{Asked, Next, Stored, Tally};

/// Turns as the time that a page has.
#[derive(Debug)]
pub(crate) struct TurnPace<'a>(pub(crate) &'a ReadTurns);

impl Pace for TurnPace<'_> {
    fn is_over(&self) -> bool {
        self.0.are_over()
    }
}

impl Connection<'_> {
    /// Counts the values of filters for as long as they are needed.
    pub(super) fn hold(&self, filters: &[Filter]) -> Result<Arc<Held>, Rejection> {
        let client = self.meter.held(FILTER_VALUES, self.relay.settings.limits.client_subscription_values);
        let held = Held::of(&client, &self.relay.filter_values, filters.iter().map(Filter::weight).sum());
        held.map(Arc::new).map_err(|used_up| {
            let why = match used_up {
                UsedUp::OfClient => "the filters of your subscriptions have too many values: close some",
                UsedUp::OfAll => "the filters of all subscriptions have too many values: try again later",
            };
            Rejection::RateLimited(why.into())
        })
    }

    pub(super) async fn send_page(&mut self, id: SubscriptionId, number: u64, mut stored: Stored) -> Step {
        if self.subscriptions.get(&id).is_none_or(|open| open.number != number) {
            return Ok(()); // closed meanwhile
        }
        if let Err(rejection) = self.within_share() {
            if stored.rows > 0 {
                // To many clients, an answer that is cut off looks complete: the rest comes when the share is back.
                self.running.push_front(Running::Req(id, number, stored));
                self.pause_if_overdrawn(Instant::now());
                return Ok(());
            }
            self.unsubscribe(&id);
            return self.close(&id, &rejection).await;
        }
        // While clients leave much untaken, each gets pages of the size that it may hold.
        let bytes_max = if self.unsent.has_room(SHARE_BYTES + 1) { PAGE_BYTES } else { SHARE_BYTES };
        let writer = std::mem::replace(&mut self.writer, FrameWriter::new(Compression::Off));
        let mut page = Page::new(&id, writer, bytes_max);
        let next = self.page(&mut stored, PAGE_ROWS, &mut |packed| page.put(packed)).await;
        let Page { writer, rows, bytes, .. } = page;
        self.writer = writer;
        self.relay.counters.rows.fetch_add(rows, Ordering::Relaxed);
        self.meter.sent(bytes);
        match next? {
            Next::Page => {
                self.running.push_back(Running::Req(id, number, stored));
                if rows == 0 {
                    // Nothing is written, so nothing is waited for.
                    yield_now().await;
                }
                self.flush().await
            }
            Next::End(completeness) => self.send(id.eose(self.relay.settings.eose_hints, completeness)).await,
            Next::Refused(rejection) => {
                self.unsubscribe(&id);
                self.close(&id, &rejection).await
            }
        }
    }

    pub(super) async fn run_count(&mut self, id: SubscriptionId, mut stored: Stored, mut tally: Tally) -> Step {
        if let Err(rejection) = self.within_share() {
            return self.close(&id, &rejection).await;
        }
        let mut add = |packed: Packed<'_>| {
            tally.add(packed);
            ControlFlow::Continue(())
        };
        if self.page(&mut stored, COUNT_ROWS, &mut add).await? == Next::Page {
            self.running.push_back(Running::Count(id, stored, tally));
            yield_now().await;
            return Ok(());
        }
        self.send(id.count(&tally)).await
    }

    /// Passes the next page of stored events to `show`, and returns its continuation.
    async fn page(
        &mut self,
        stored: &mut Stored,
        rows: usize,
        show: &mut (dyn FnMut(Packed<'_>) -> ControlFlow<()> + Send),
    ) -> Result<Next, Ending> {
        let (relay, audience) = (self.relay, self.audience());
        let must_wait = stored.is_search() || relay.events.is_remote();
        let mut count = 0;
        let page = |turns: &ReadTurns| {
            let (since, rules) = (Instant::now(), relay.rules());
            let asked = Asked { now: now(), audience, hidden: rules.hiding(), pace: Some(&TurnPace(turns)) };
            let next = stored.page(&relay.events, asked, rows, &mut |packed| {
                count += 1;
                show(packed)
            });
            (next, since.elapsed())
        };
        let reads = &relay.settings.reads;
        let (next, took) =
            if must_wait { reads.offloaded(&self.meter, page).await } else { reads.page(&self.meter, page).await };
        relay.counters.queried(took);
        (stored.spent, stored.rows) = (stored.spent + took, stored.rows + count);
        let next = next.map_err(Ending::Failed)?;
        if next != Next::Page && stored.spent >= Slowest::SLOW_MIN {
            self.relay.counters.slowest.record(stored.spent, Instant::now(), || stored.shape());
        }
        if next != Next::Page && self.relay.settings.limits.slow_query.is_some_and(|slow| stored.spent > slow) {
            let (shape, rows, spent_ms) = (stored.shape(), stored.rows, stored.spent.as_millis());
            warn!(shape, rows, spent_ms, "slow query; `birdhouse ctl explain` shows its plan");
        }
        Ok(next)
    }
}

/// The messages of a page of stored events, behind those that waited to be sent before.
struct Page {
    prefix: String,
    writer: FrameWriter,
    rows: u64,
    bytes: usize,
    bytes_max: usize,
}

impl Page {
    fn new(id: &SubscriptionId, mut writer: FrameWriter, bytes_max: usize) -> Self {
        writer.prepare();
        Self { prefix: id.event_prefix(), writer, rows: 0, bytes: 0, bytes_max }
    }

    /// Adds an event, unless it is damaged on disk; breaks when the page is full.
    fn put(&mut self, packed: Packed<'_>) -> ControlFlow<()> {
        let prefix = self.prefix.as_bytes();
        let written = self.writer.text_with(prefix.len() + packed.json_bytes(), |out| {
            out.extend_from_slice(prefix);
            packed.write_json(out)?;
            out.push(b']');
            Some(())
        });
        if let Some(bytes) = written {
            self.rows += 1;
            self.bytes += bytes;
        }
        if self.bytes < self.bytes_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
