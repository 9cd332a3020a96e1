//! The way of a peer that has no negentropy: pages of its events, which are compared with own ones of the same time.

use std::collections::HashSet;

use birdhouse_events::{EventId, Filter};
use serde_json::json;

use super::{Rest, Session};
use crate::job::{Direction, Purpose};
use crate::limits::{PAGE_EVENTS, QUEUED_IDS_MAX};
use crate::page::{Complete, New, Next, Page};
use crate::windows::Window;

impl Session<'_> {
    /// Compares own events with the page that came, then asks for the next page.
    pub(super) async fn go_on_with_pages(&mut self) -> Result<(), String> {
        while let Some(rest) = self.rest.take() {
            self.compare_some(rest).await?;
            if !self.has_room() {
                return Ok(());
            }
        }
        if self.page.is_some() {
            return Ok(());
        }
        let first = || Some(Next { window: self.windows.rest()?, known: HashSet::new() });
        match self.next_page.take().or_else(first) {
            Some(next) => self.ask_for_page(next).await,
            None => Ok(()),
        }
    }

    async fn ask_for_page(&mut self, Next { window, known }: Next) -> Result<(), String> {
        let name = self.next_name("p");
        let mut filter = self.job.wire_in(window);
        filter.insert("limit".into(), PAGE_EVENTS.into());
        self.send(&json!(["REQ", name, filter])).await?;
        self.page = Some(Page::new(name, window, known));
        Ok(())
    }

    /// Takes the end of a page.
    pub(super) async fn page_complete(&mut self, page: Page) -> Result<(), String> {
        let window = page.window();
        let Complete { covered, ids, events, next, crowded, stuck } = page.complete();
        let is_crowded = crowded.is_some() || (self.stuck.is_some() && !events.is_empty());
        self.stuck = stuck;
        self.tally.change(|tally| {
            tally.crowded_seconds += u64::from(is_crowded);
            tally.windows += 1;
            tally.compared_from = covered.map(|window| window.since).or(tally.compared_from);
        });
        self.store_page(events).await?;
        self.rest = covered.map(|window| Rest { window, theirs: ids });
        if next.is_none() {
            self.windows.go_on_before(window.since);
        }
        self.next_page = next;
        Ok(())
    }

    /// Has the events of a page stored that are not here.
    async fn store_page(&mut self, events: Vec<New>) -> Result<(), String> {
        let mut theirs: Vec<EventId> = events.iter().map(|new| new.id).collect();
        theirs.sort_unstable();
        let most = theirs.len();
        let here = self.exchange.ids(&Filter { ids: Some(theirs), ..Filter::default() }, most).await?;
        let here: HashSet<EventId> = here.into_iter().map(|dated| dated.id).collect();
        let mut need = Vec::new();
        for New { id, json } in events {
            if here.contains(&id) {
                continue;
            }
            need.push(id);
            if let Some(json) = json
                && self.job.purpose.is_down()
            {
                self.tally.change(|tally| tally.received += 1);
                self.intake.add(json).await;
            }
        }
        self.intake.flush().await;
        self.report(&[], &need).await
    }

    /// Has own events sent or listed that the peer lacks, as far as there is room for their ids.
    async fn compare_some(&mut self, Rest { window, theirs }: Rest) -> Result<(), String> {
        if self.job.purpose == Purpose::Transfer(Direction::Down) {
            return Ok(());
        }
        let mut own = self.exchange.ids(&self.job.own_in(window), QUEUED_IDS_MAX).await?;
        let older = (own.len() > QUEUED_IDS_MAX).then(|| own[QUEUED_IDS_MAX].created_at);
        if let Some(oldest) = older {
            own.retain(|dated| dated.created_at > oldest);
            if own.is_empty() {
                return Err(format!("more than {QUEUED_IDS_MAX} events are of one second"));
            }
        }
        self.tally.change(|tally| tally.compared += own.len() as u64);
        let have: Vec<EventId> = own.into_iter().map(|dated| dated.id).filter(|id| !theirs.contains(id)).collect();
        self.report(&have, &[]).await?;
        if self.job.purpose.is_up() {
            self.upload.add(have);
        }
        self.rest = older.map(|oldest| Rest { window: Window { until: Some(oldest), ..window }, theirs });
        Ok(())
    }
}
