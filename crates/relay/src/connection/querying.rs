//! Stored events for the queries of a connection, page by page, each in the client's turn.

use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_events::Packed;
use tokio::task::block_in_place;
use tracing::warn;

use super::{Connection, Ending, Running, Step, overdrawn};
use crate::limits::{COUNT_ROWS, PAGE_ROWS};
use crate::message::SubscriptionId;
use crate::relay::now;
use crate::stored::{Next, Stored};
use crate::tally::Tally;

impl Connection<'_> {
    pub(super) async fn show(&mut self, id: SubscriptionId, number: u64, mut stored: Stored) -> Step {
        if self.subscriptions.get(&id).is_none_or(|open| open.number != number) {
            return Ok(()); // closed meanwhile
        }
        if let Err(owing) = self.visitor.check(Instant::now()) {
            self.unsubscribe(&id);
            return self.close(&id, &overdrawn(owing)).await;
        }
        let (prefix, mut page) = (id.event_prefix(), Vec::new());
        let next = self.page(&mut stored, PAGE_ROWS, &mut |packed| page.extend(event_message(&prefix, packed))).await?;
        self.visitor.counters.rows.fetch_add(page.len() as u64, Ordering::Relaxed);
        for message in page {
            self.feed(message).await?;
        }
        match next {
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
        if let Err(owing) = self.visitor.check(Instant::now()) {
            return self.close(&id, &overdrawn(owing)).await;
        }
        if self.page(&mut stored, COUNT_ROWS, &mut |packed| tally.add(packed)).await? == Next::Page {
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
        show: &mut (dyn FnMut(Packed<'_>) + Send),
    ) -> Result<Next, Ending> {
        let turn = self.turn().await;
        let since = Instant::now();
        let asked = (now(), self.audience());
        let mut count = 0;
        let next = block_in_place(|| {
            stored.page(&self.relay.events, asked, rows, &mut |packed| {
                count += 1;
                show(packed);
            })
        });
        let took = since.elapsed();
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

/// The message that carries a stored event; none for one that is damaged on the disk.
fn event_message(prefix: &str, packed: Packed<'_>) -> Option<String> {
    let mut message = prefix.as_bytes().to_vec();
    packed.write_json(&mut message)?;
    message.push(b']');
    String::from_utf8(message).ok()
}
