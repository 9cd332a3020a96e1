//! A checker of what clients of a relay saw: it finds faults in a recorded history, as
//! [Elle](https://github.com/jepsen-io/elle) does for databases. Pure.
//!
//! A history has events with the times at which they were sent and acknowledged, subscriptions with the times of all
//! that they received, and the times at which the relay was killed. Times are microseconds of one clock. Events are
//! regular ones, which nothing replaces or deletes, each of one author.

use std::collections::{BTreeSet, HashMap, HashSet};

/// Microseconds of one clock.
pub type Micros = u64;
/// The number of an event: its id, or any number that orders events as their ids do.
pub type EventNumber = u64;
/// The number of an author.
pub type Author = u8;

/// An event that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The event.
    pub event: EventNumber,
    /// Its author.
    pub author: Author,
    /// Its `created_at`, in seconds.
    pub created_at: u64,
    /// Before it was sent.
    pub at: Micros,
    /// After `OK` with true arrived; `None` if the outcome is unknown.
    pub acknowledged: Option<Micros>,
}

/// An event that a subscription received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The event.
    pub event: EventNumber,
    /// After it arrived.
    pub at: Micros,
}

/// A subscription to some authors, on one connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscription {
    /// The authors of its one filter.
    pub authors: BTreeSet<Author>,
    /// The `limit` of its filter.
    pub limit: Option<usize>,
    /// Before REQ was sent.
    pub begun: Micros,
    /// Events before EOSE, in their order.
    pub stored: Vec<Seen>,
    /// After EOSE arrived; `None` if the connection broke before.
    pub eose: Option<Micros>,
    /// Events after EOSE.
    pub live: Vec<Seen>,
    /// Before the client left, or saw the connection break.
    pub ended: Micros,
}

/// A recorded history.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Every event that was sent.
    pub sent: Vec<Sent>,
    /// Every subscription.
    pub subscriptions: Vec<Subscription>,
    /// Times just before the relay was killed, ascending.
    pub kills: Vec<Micros>,
    /// The longest time that a live event may take from its `OK` to its subscriptions.
    pub delivery: Micros,
    /// The time after which an event is stored wherever a client asks: 0 if one process answers all of them. Before, it
    /// comes live.
    pub lag: Micros,
}

/// A fault of the relay, with the number of the subscription that saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The stored events lack one that was acknowledged before.
    Lost(EventNumber, usize),
    /// The stored events lack one without acknowledgement that somebody saw before, although the relay was not killed
    /// in between.
    Vanished(EventNumber, usize),
    /// A subscription did not receive an event that was acknowledged while it was open.
    Gap(EventNumber, usize),
    /// A subscription received an event twice.
    Twice(EventNumber, usize),
    /// Among the stored events, one stands before an event that NIP-01 puts before it.
    Disordered(EventNumber, usize),
    /// An event arrived that nobody had sent, or that the filter excludes.
    Foreign(EventNumber, usize),
    /// There are more stored events than the limit.
    BeyondLimit(usize),
}

/// The results of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The faults.
    pub faults: BTreeSet<Fault>,
    /// Events that somebody saw and that are gone since a kill. They had no acknowledgement, so nothing was promised.
    pub gone_with_a_kill: BTreeSet<EventNumber>,
    /// Pairs of a subscription and an event that it had to receive.
    pub expected: u64,
}

/// Checks a history.
pub fn check(history: &History) -> Findings {
    let known: HashMap<EventNumber, &Sent> = history.sent.iter().map(|sent| (sent.event, sent)).collect();
    let checker = Checker { history, known, sightings: sightings(history) };
    let mut findings = Findings::default();
    for number in 0..history.subscriptions.len() {
        checker.subscription(number, &mut findings);
    }
    findings
}

/// The times at which the relay had each event, as somebody saw. A connection that was open at a kill brings, after
/// it, what the relay wrote before.
fn sightings(history: &History) -> HashMap<EventNumber, BTreeSet<Micros>> {
    let mut sightings: HashMap<_, BTreeSet<_>> = HashMap::new();
    for one in &history.subscriptions {
        let kill = history.kills.iter().copied().find(|kill| *kill >= one.begun).unwrap_or(Micros::MAX);
        for seen in one.stored.iter().chain(&one.live) {
            sightings.entry(seen.event).or_default().insert(seen.at.min(kill));
        }
    }
    sightings
}

struct Checker<'a> {
    history: &'a History,
    known: HashMap<EventNumber, &'a Sent>,
    sightings: HashMap<EventNumber, BTreeSet<Micros>>,
}

// === impl Checker ===

impl Checker<'_> {
    fn subscription(&self, number: usize, findings: &mut Findings) {
        let one = &self.history.subscriptions[number];
        let received: HashSet<EventNumber> = one.stored.iter().chain(&one.live).map(|seen| seen.event).collect();
        self.received(number, one, findings);
        if one.eose.is_none() {
            return;
        }
        for sent in self.history.sent.iter().filter(|sent| one.authors.contains(&sent.author)) {
            if received.contains(&sent.event) {
                findings.expected += 1;
                continue;
            }
            if let Some(fault) = self.absent(number, one, sent, findings) {
                findings.expected += 1;
                findings.faults.insert(fault);
            }
        }
    }

    /// Faults of what was received.
    fn received(&self, number: usize, one: &Subscription, findings: &mut Findings) {
        let mut before = HashSet::new();
        for seen in one.stored.iter().chain(&one.live) {
            if !before.insert(seen.event) {
                findings.faults.insert(Fault::Twice(seen.event, number));
            }
            let is_ours = |sent: &&Sent| sent.at <= seen.at && one.authors.contains(&sent.author);
            if !self.known.get(&seen.event).is_some_and(is_ours) {
                findings.faults.insert(Fault::Foreign(seen.event, number));
            }
        }
        let places = one.stored.iter().filter_map(|seen| Some((place(self.known.get(&seen.event)?), seen.event)));
        let places: Vec<_> = places.collect();
        for pair in places.windows(2).filter(|pair| pair[0].0 > pair[1].0) {
            findings.faults.insert(Fault::Disordered(pair[0].1, number));
        }
        if one.limit.is_some_and(|limit| one.stored.len() > limit) {
            findings.faults.insert(Fault::BeyondLimit(number));
        }
    }

    /// The fault in the absence of an event, if it is one.
    fn absent(&self, number: usize, one: &Subscription, sent: &Sent, findings: &mut Findings) -> Option<Fault> {
        let (may_be_cut, lag) = (!self.is_within_limit(one, sent), self.history.lag);
        let Some(acknowledged) = sent.acknowledged else {
            let last_seen = *self.sightings.get(&sent.event)?.range(..one.begun.saturating_sub(lag)).next_back()?;
            if self.history.kills.iter().any(|kill| (last_seen..one.begun).contains(kill)) {
                findings.gone_with_a_kill.insert(sent.event);
                return None;
            }
            return (!may_be_cut).then_some(Fault::Vanished(sent.event, number));
        };
        if acknowledged + lag < one.begun {
            return (!may_be_cut).then_some(Fault::Lost(sent.event, number));
        }
        // It was stored or came live. Only stored events fall behind a limit.
        let was_live = one.eose.is_some_and(|eose| sent.at > eose);
        let was_due = acknowledged + self.history.delivery < one.ended;
        (was_due && (was_live || !may_be_cut)).then_some(Fault::Gap(sent.event, number))
    }

    /// Returns false if a full answer ends before the place of an event.
    fn is_within_limit(&self, one: &Subscription, sent: &Sent) -> bool {
        let is_full = one.limit.is_some_and(|limit| one.stored.len() >= limit);
        let last = one.stored.last().and_then(|seen| self.known.get(&seen.event));
        !is_full || last.is_some_and(|last| place(sent) < place(last))
    }
}

/// The place of an event among stored ones: newest first, of equal times lowest id first
/// ([NIP-01](https://github.com/nostr-protocol/nips/blob/master/01.md)).
fn place(sent: &Sent) -> (std::cmp::Reverse<u64>, EventNumber) {
    (std::cmp::Reverse(sent.created_at), sent.event)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three authors send one event a millisecond, ten with the same `created_at`, and get an answer half a
    /// millisecond later. The relay is killed at 50 ms.
    fn sent() -> Vec<Sent> {
        let event = |number: u64| Sent {
            // Ids have an order of their own.
            event: number * 7919 % 1000,
            author: u8::try_from(number % 3).expect("below 3"),
            created_at: number / 10,
            at: number * 1000,
            acknowledged: Some(number * 1000 + 500),
        };
        (0..100).map(event).collect()
    }

    /// Returns the answers of a right relay to a subscription from `begun` to `ended`.
    fn answer(sent: &[Sent], authors: &[Author], limit: Option<usize>, begun: Micros, ended: Micros) -> Subscription {
        let eose = begun + 100;
        let ours = |sent: &&Sent| authors.contains(&sent.author);
        let mut stored: Vec<&Sent> = sent.iter().filter(ours).filter(|sent| sent.at < begun).collect();
        stored.sort_by_key(|sent| place(sent));
        stored.truncate(limit.unwrap_or(usize::MAX));
        let live = sent.iter().filter(ours).filter(|sent| (begun..ended).contains(&sent.at));
        Subscription {
            authors: authors.iter().copied().collect(),
            limit,
            begun,
            stored: stored.into_iter().map(|sent| Seen { event: sent.event, at: begun + 50 }).collect(),
            eose: Some(eose),
            live: live.map(|sent| Seen { event: sent.event, at: eose.max(sent.at + 200) }).collect(),
            ended,
        }
    }

    fn right() -> History {
        let sent = sent();
        let subscriptions = vec![
            answer(&sent, &[0, 1, 2], None, 20_050, 49_000),
            answer(&sent, &[0, 2], None, 60_050, 90_000),
            answer(&sent, &[1], Some(5), 70_050, 80_000),
            answer(&sent, &[0, 1, 2], None, 200_000, 200_200),
        ];
        History { sent, subscriptions, kills: vec![50_000], delivery: 1000, lag: 0 }
    }

    fn faults(history: &History) -> Vec<Fault> {
        check(history).faults.into_iter().collect()
    }

    #[test]
    fn a_right_history_has_no_fault() {
        let findings = check(&right());
        assert_eq!(findings, Findings { expected: findings.expected, ..Findings::default() });
        assert!(findings.expected > 150, "{findings:?}");
    }

    #[test]
    fn an_acknowledged_event_that_is_not_stored_is_lost() {
        let mut history = right();
        let event = history.subscriptions[3].stored.remove(40).event;
        assert_eq!(faults(&history), [Fault::Lost(event, 3)]);
    }

    #[test]
    fn a_lost_event_is_found_below_a_limit_and_only_above_the_last_event_of_a_full_answer() {
        let mut history = right();
        let event = history.subscriptions[2].stored.remove(2).event;
        assert_eq!(faults(&history).len(), 24 - 4, "an answer that is not full must have all");
        // A full answer without it has a later event at its end.
        let sent = sent();
        let fuller = answer(&sent, &[1], Some(6), 70_050, 80_000);
        let last = fuller.stored[5];
        history.subscriptions[2].stored.push(last);
        assert_eq!(faults(&history), [Fault::Lost(event, 2)]);
    }

    #[test]
    fn a_live_event_that_does_not_arrive_is_a_gap() {
        let mut history = right();
        let event = history.subscriptions[0].live.remove(3).event;
        assert_eq!(faults(&history), [Fault::Gap(event, 0)]);
        // One that was acknowledged a moment before the end may be under way.
        let mut history = right();
        history.subscriptions[0].live.pop();
        assert_eq!(faults(&history), []);
    }

    #[test]
    fn an_event_between_stored_and_live_ones_is_not_missed() {
        let mut history = right();
        // Sent before REQ, acknowledged after it: on either side, and on one at least.
        let begun = history.subscriptions[0].begun;
        let between = history.sent.iter().find(|sent| sent.at < begun && sent.acknowledged > Some(begun));
        let event = between.expect("REQ comes in the middle of a publish").event;
        history.subscriptions[0].stored.retain(|seen| seen.event != event);
        assert_eq!(faults(&history), [Fault::Gap(event, 0)]);
    }

    #[test]
    fn an_event_that_is_stored_and_live_comes_twice() {
        let mut history = right();
        let seen = history.subscriptions[1].stored[7];
        history.subscriptions[1].live.push(Seen { at: 80_000, ..seen });
        assert_eq!(faults(&history), [Fault::Twice(seen.event, 1)]);
    }

    #[test]
    fn stored_events_in_another_order_than_that_of_nip_01_are_found() {
        for (one, other) in [(0, 1), (30, 31), (5, 25)] {
            let mut history = right();
            history.subscriptions[3].stored.swap(one, other);
            let found = faults(&history);
            assert!(!found.is_empty(), "{one} and {other}");
            assert!(found.iter().all(|fault| matches!(fault, Fault::Disordered(_, 3))), "{found:?}");
        }
    }

    #[test]
    fn an_event_without_acknowledgement_may_go_with_a_kill_and_not_without_one() {
        let mut history = right();
        // The last event before the kill: live ones saw it, its author got no answer.
        let event = history.subscriptions[0].live.last().expect("live events").event;
        history.sent.iter_mut().filter(|sent| sent.event == event).for_each(|sent| sent.acknowledged = None);
        for later in [1, 3] {
            history.subscriptions[later].stored.retain(|seen| seen.event != event);
        }
        let findings = check(&history);
        assert_eq!((findings.faults.len(), findings.gone_with_a_kill), (0, BTreeSet::from([event])));
        history.kills.clear();
        let found = faults(&history);
        assert!(found.contains(&Fault::Vanished(event, 3)), "{found:?}");
        assert!(found.iter().all(|fault| matches!(fault, Fault::Vanished(..))), "{found:?}");
    }

    #[test]
    fn an_event_that_nobody_sent_or_asked_for_is_foreign() {
        let mut history = right();
        history.subscriptions[0].live.push(Seen { event: 77_777, at: 40_000 });
        let other = history.sent[1].event;
        history.subscriptions[1].live.push(Seen { event: other, at: 70_000 });
        // And one that comes before it is sent.
        history.subscriptions[2].live[0].at = 10;
        let early = history.subscriptions[2].live[0].event;
        assert_eq!(faults(&history), [Fault::Foreign(early, 2), Fault::Foreign(other, 1), Fault::Foreign(77_777, 0)]);
    }

    #[test]
    fn more_events_than_the_limit_are_found() {
        let mut history = right();
        history.subscriptions[2].limit = Some(4);
        assert_eq!(faults(&history), [Fault::BeyondLimit(2)]);
    }

    #[test]
    fn a_subscription_whose_connection_broke_before_eose_owes_nothing() {
        let mut history = right();
        history.subscriptions[3].stored.truncate(3);
        history.subscriptions[3].eose = None;
        assert_eq!(faults(&history), []);
    }
}
