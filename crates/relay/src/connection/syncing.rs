//! Negentropy sessions of a connection (NIP-77).

use std::future::pending;

use birdhouse_events::TagsBy;
use birdhouse_net::ReadTurns;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::querying::TurnPace;
use super::{Connection, Ending, Running, Step, without_search};
use crate::clock::now;
use crate::connection::sync::Progress;
use crate::live::SinceSeq;
use crate::message::{SubscriptionId, SyncMessage, sync_refused};
use crate::stored::{Asked, Stored};

impl Connection<'_> {
    pub(super) async fn handle_sync(&mut self, message: SyncMessage) -> Step {
        let (id, number) = match message {
            SyncMessage::Close(id) => {
                self.syncs.close(&id);
                return Ok(());
            }
            SyncMessage::Open(id, filters, message) => {
                self.syncs.close(&id);
                let may_ask = self.may_ask(&filters).and_then(|()| without_search(&filters));
                let held = match may_ask.and_then(|()| self.hold(&filters)) {
                    Ok(held) => held,
                    Err(rejection) => return self.send(sync_refused(&id, &rejection)).await,
                };
                let most = self.relay.settings.limits.sync_sessions;
                let end = SinceSeq::at(self.relay.events.end());
                let stored = Stored::new(filters.into(), TagsBy::Event, end).holding(held);
                let number = self.syncs.open(&id, stored, message, most);
                (id, number)
            }
            SyncMessage::Message(id, message) => {
                if let Err(rejection) = self.within_share() {
                    self.syncs.close(&id);
                    return self.send(sync_refused(&id, &rejection)).await;
                }
                let number = self.syncs.receive(&id, message);
                (id, number)
            }
        };
        match number {
            Ok(number) => {
                self.running.push_back(Running::Sync(id, number));
                Ok(())
            }
            Err(refusal) => self.send(refusal).await,
        }
    }

    /// Does a piece of a session's work.
    pub(super) async fn run_sync(&mut self, id: SubscriptionId, number: u64) -> Step {
        let Some(mut session) = self.syncs.take(&id, number) else { return Ok(()) };
        let (events, limits) = (&self.relay.events, &self.relay.settings.limits);
        let rules = self.relay.rules();
        let (audience, hidden) = (self.audience(), rules.hiding());
        let piece = |turns: &ReadTurns| {
            let asked = Asked { now: now(), audience, hidden, pace: Some(&TurnPace(turns)) };
            session.advance(&id, events, asked, limits)
        };
        let progress = self.relay.settings.reads.offloaded(&self.meter, piece).await;
        match progress.map_err(Ending::Failed)? {
            Progress::End(answer) => self.send(answer).await,
            Progress::Answer(answer) => {
                self.syncs.put_back(id, session);
                self.send(answer).await
            }
            Progress::More => {
                self.syncs.put_back(id.clone(), session);
                self.running.push_back(Running::Sync(id, number));
                yield_now().await;
                Ok(())
            }
        }
    }

    /// Waits until a session has waited too long for its client.
    pub(super) fn sync_silence(&self) -> impl Future<Output = ()> + use<> {
        let (since, bound) = (self.syncs.waiting_since(), self.relay.settings.limits.sync_idle_timeout);
        async move {
            match since {
                Some(since) => sleep_until(since + bound).await,
                None => pending().await,
            }
        }
    }

    pub(super) async fn end_silent_syncs(&mut self) -> Step {
        let Some(since) = Instant::now().checked_sub(self.relay.settings.limits.sync_idle_timeout) else {
            return Ok(());
        };
        for message in self.syncs.close_idle(since) {
            self.send(message).await?;
        }
        Ok(())
    }
}
