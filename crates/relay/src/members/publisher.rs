//! Publishes the list of members, and who was added and removed, after each change of the rules.
//!
//! It compares the rules with the list that is stored, so a change before a crash, or while the server was stopped, is
//! published at the next start. Changes that come close together are published together. The list comes last: after a
//! crash in between an addition may be published twice, but none is missing.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::{Event, Keys, Pubkey, VerifiedEvent};
use tracing::warn;

use super::events::{ADDED, MEMBERS, REMOVED, change, list, listed};
use crate::clock::now;
use crate::limits::{BATCH_EVENTS, MEMBERS_MAX};
use crate::message::Outcome;
use crate::newest::newest;
use crate::rules::{RuleBook, Rules};
use crate::worker::{Retry, Worker};
use crate::writing::{Depot, Gathering};

/// Interval of looks at the rules.
const PAUSE: Duration = Duration::from_millis(200);

struct Publisher {
    keys: Arc<Keys>,
    depot: Arc<Depot>,
    gathering: Arc<Gathering>,
    rules: Arc<RuleBook>,
}

/// Starts the thread.
pub(crate) fn start(keys: &Arc<Keys>, depot: &Arc<Depot>, gathering: &Arc<Gathering>, rules: &Arc<RuleBook>) -> Worker {
    let publisher = Publisher {
        keys: Arc::clone(keys),
        depot: Arc::clone(depot),
        gathering: Arc::clone(gathering),
        rules: Arc::clone(rules),
    };
    Worker::start("members", move |wait| publisher.run(wait))
}

impl Publisher {
    /// Looks until `wait` returns false.
    fn run(&self, wait: &dyn Fn(Duration) -> bool) {
        let (mut published, mut retry, mut pause) = (None::<Arc<Rules>>, Retry::default(), Duration::ZERO);
        while wait(pause) {
            let rules = self.rules.current();
            pause = PAUSE;
            if published.as_ref().is_some_and(|published| Arc::ptr_eq(published, &rules)) {
                continue;
            }
            match self.publish(&rules) {
                Ok(()) => {
                    published = Some(rules);
                    retry = Retry::default();
                }
                Err(error) => {
                    warn!(error, "failed to publish the members; trying again");
                    pause = retry.pause();
                }
            }
        }
    }

    fn publish(&self, rules: &Rules) -> Result<(), String> {
        let members: Vec<Pubkey> = rules.members().iter().take(MEMBERS_MAX).map(|member| member.pubkey).collect();
        let stored = newest(&self.depot.events, MEMBERS, self.keys.pubkey())?;
        for events in due(&self.keys, &members, stored.as_ref(), now()).chunks(BATCH_EVENTS) {
            let outcomes = self.gathering.store(&self.depot, events.to_vec()).ok_or("storing the events failed")?;
            let refused = outcomes.into_iter().find_map(|(outcome, _)| match outcome {
                Outcome::Refused(rejection) => Some(rejection.to_string()),
                _ => None,
            });
            refused.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

/// Returns the events to be published, with the list last; none if the stored list has these members. Where no list is
/// stored, the members were there before there was one, and none counts as added.
fn due(keys: &Keys, members: &[Pubkey], stored: Option<&Event>, now: u32) -> Vec<VerifiedEvent> {
    let Some(stored) = stored else { return vec![list(keys, members, now.into())] };
    let (before, after) = (listed(stored), members.iter().map(|member| member.0).collect());
    if before == after {
        return Vec::new();
    }
    let removed = before.difference(&after).map(|member| change(keys, REMOVED, &Pubkey(*member), now));
    let added = after.difference(&before).map(|member| change(keys, ADDED, &Pubkey(*member), now));
    // A clock that went back must not make a list that is older than the stored one.
    let created_at = u64::from(now).max(stored.created_at.0 + 1);
    removed.chain(added).chain([list(keys, members, created_at)]).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "publisher_tests.rs"]
mod tests;
