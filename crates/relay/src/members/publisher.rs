//! Publishes the list of members, who was added and removed, and the roles, after each change of the rules.
//!
//! It compares the rules with the events that are stored, so a change before a crash, or while the server was stopped,
//! is published at the next start. Changes that come close together are published together. The list comes last: after
//! a crash in between an addition may be published twice, but none is missing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::{Event, Keys, Pubkey, Tag, VerifiedEvent};
use tracing::warn;

use super::events::{ADDED, MEMBERS, REMOVED, ROLE, change, deletion, list, listed, member, role, role_tags};
use crate::clock::now;
use crate::limits::{BATCH_EVENTS, MEMBERS_MAX, ROLES_MAX};
use crate::message::Outcome;
use crate::newest::{newest, newest_of};
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
        let stored = Stored {
            list: newest(&self.depot.events, MEMBERS, self.keys.pubkey())?,
            roles: newest_of(&self.depot.events, ROLE, self.keys.pubkey(), ROLES_MAX)?,
        };
        for events in stored.due(&self.keys, rules, now()).chunks(BATCH_EVENTS) {
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

/// The relay's own events about its members, as they are stored.
#[derive(Debug, Default)]
struct Stored {
    list: Option<Event>,
    roles: Vec<Event>,
}

impl Stored {
    /// Returns the events to be published, with the list last; none if the stored ones say the same as the rules.
    fn due(&self, keys: &Keys, rules: &Rules, now: u32) -> Vec<VerifiedEvent> {
        let mut due = self.due_of_roles(keys, rules, now);
        due.extend(self.due_of_members(keys, rules, now));
        due
    }

    /// Where no list is stored, the members were there before there was one, and none counts as added.
    fn due_of_members(&self, keys: &Keys, rules: &Rules, now: u32) -> Vec<VerifiedEvent> {
        let members = rules.members();
        let after: Vec<Tag> = members.iter().take(MEMBERS_MAX).map(|one| member(rules, &one.pubkey)).collect();
        let Some(stored) = &self.list else { return vec![list(keys, after, now.into())] };
        if listed(stored).eq(&after) {
            return Vec::new();
        }
        let keys_of = |tags: &mut dyn Iterator<Item = &Tag>| tags.filter_map(pubkey).collect::<BTreeSet<_>>();
        let (old, new) = (keys_of(&mut listed(stored)), keys_of(&mut after.iter()));
        let removed = old.difference(&new).map(|member| change(keys, REMOVED, &Pubkey(*member), now));
        let added = new.difference(&old).map(|member| change(keys, ADDED, &Pubkey(*member), now));
        removed.chain(added).chain([list(keys, after.clone(), newer(stored, now))]).collect()
    }

    fn due_of_roles(&self, keys: &Keys, rules: &Rules, now: u32) -> Vec<VerifiedEvent> {
        let stored: HashMap<&str, &Event> =
            self.roles.iter().filter_map(|event| Some((event.values("d").next()?, event))).collect();
        let changed = rules.roles().filter_map(|one| match stored.get(one.id.as_str()) {
            Some(event) if event.tags[1..] == role_tags(one) => None,
            Some(event) => Some(role(keys, one, newer(event, now))),
            None => Some(role(keys, one, now.into())),
        });
        let wanted: BTreeSet<&str> = rules.roles().map(|role| role.id.as_str()).collect();
        let gone = stored.iter().filter(|(id, _)| !wanted.contains(*id));
        let deletions = gone.map(|(id, event)| deletion(keys, id, newer(event, now)));
        changed.chain(deletions).collect()
    }
}

/// Returns the time of an event that replaces another one: a clock that went back must not make an older one.
fn newer(stored: &Event, now: u32) -> u64 {
    u64::from(now).max(stored.created_at.0 + 1)
}

/// Returns the member of a tag of the list.
fn pubkey(member: &Tag) -> Option<[u8; 32]> {
    member.0.get(1).and_then(|pubkey| Pubkey::parse(pubkey)).map(|pubkey| pubkey.0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "publisher_tests.rs"]
mod tests;
