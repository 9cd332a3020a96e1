//! A checker of what streams between relays have passed on: it finds events that are missing or were sent back in a
//! recorded history. Pure, and without any code of the relay.
//!
//! A history has, for each *peer* (another relay to which a stream leads), the events of its own clients, what it wrote
//! to the relay and got from it, and what it has at the end. Times are microseconds of one clock.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::relay_history::{EventNumber, Micros, Seen};

/// Direction of a stream, as the relay sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Events come from the peer.
    Down,
    /// Events go to the peer.
    Up,
    /// Both.
    Both,
}

/// The history of one peer.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Direction of its stream.
    pub passes: Passes,
    /// Events of its own clients.
    pub own: BTreeSet<EventNumber>,
    /// Times at which it began to write events to the relay, the first for each.
    pub offered: BTreeMap<EventNumber, Micros>,
    /// Events that the relay sent to it, with the times at which it read them.
    pub came: Vec<Seen>,
    /// Events that it has at the end.
    pub has: BTreeSet<EventNumber>,
    /// Times in which nothing passed, ascending: begin and end.
    pub cuts: Vec<Cut>,
}

/// A time in which nothing passed between a peer and the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its begin.
    pub from: Micros,
    /// Its end.
    pub to: Micros,
}

/// A recorded history.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Every peer.
    pub peers: Vec<Peer>,
    /// Events that clients of the relay published and that it accepted.
    pub published: BTreeSet<EventNumber>,
    /// Events that the relay has at the end.
    pub has: BTreeSet<EventNumber>,
    /// Time in which two messages that cross each other arrive.
    pub crossing: Micros,
}

/// A fault, with the number of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The relay lacks an event of a peer, or one that it has accepted.
    MissingHere(EventNumber),
    /// A peer lacks an event of the relay.
    MissingThere(EventNumber, usize),
    /// The relay sent an event back to a peer that had sent it before.
    Echo(EventNumber, usize),
    /// The relay has an event that nobody gave to it, or sent one to a peer of which it only reads.
    Foreign(EventNumber),
}

/// The results of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The faults.
    pub faults: BTreeSet<Fault>,
    /// Events that had to be at the relay, and at the peers to which they go.
    pub expected: u64,
    /// Events that went to a peer more than once: it was gone before the relay knew that it had them.
    pub repeated: u64,
    /// Events that a peer and the relay sent to each other at the same time.
    pub crossed: u64,
}

/// Checks a history.
pub fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let gives = |peer: &&Peer| peer.passes != Passes::Up;
    let given = history.peers.iter().filter(gives).flat_map(|peer| &peer.own);
    let expected: BTreeSet<EventNumber> = given.chain(&history.published).copied().collect();
    findings.expected = expected.len() as u64;
    findings.faults.extend(expected.difference(&history.has).map(|event| Fault::MissingHere(*event)));
    findings.faults.extend(history.has.difference(&expected).map(|event| Fault::Foreign(*event)));
    for (number, peer) in history.peers.iter().enumerate() {
        if peer.passes == Passes::Down {
            findings.faults.extend(peer.came.iter().map(|seen| Fault::Foreign(seen.event)));
            continue;
        }
        findings.expected += history.has.len() as u64;
        findings.faults.extend(history.has.difference(&peer.has).map(|event| Fault::MissingThere(*event, number)));
        sent_back(history, number, &mut findings);
    }
    findings
}

/// Finds what the relay sent to a peer that had sent it before.
fn sent_back(history: &History, number: usize, findings: &mut Findings) {
    let peer = &history.peers[number];
    let mut before = HashSet::new();
    for seen in &peer.came {
        if !before.insert(seen.event) {
            findings.repeated += 1;
            continue;
        }
        let Some(offered) = peer.offered.get(&seen.event).filter(|offered| **offered < seen.at) else { continue };
        if seen.at - offered - cut(&peer.cuts, *offered, seen.at) > history.crossing {
            findings.faults.insert(Fault::Echo(seen.event, number));
        } else {
            findings.crossed += 1;
        }
    }
}

/// Returns the part of a time in which nothing passed.
fn cut(cuts: &[Cut], from: Micros, to: Micros) -> Micros {
    cuts.iter().map(|cut| cut.to.min(to).saturating_sub(cut.from.max(from))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(passes: Passes, own: impl IntoIterator<Item = u64>) -> Peer {
        let own: BTreeSet<u64> = own.into_iter().collect();
        let offered = own.iter().map(|event| (*event, event * 1000)).collect();
        Peer { passes, has: own.clone(), own, offered, came: Vec::new(), cuts: Vec::new() }
    }

    /// Three peers, one for each direction. All their events but those of the second come to the relay, and all of the
    /// relay go to the second and third, 100 microseconds after they came.
    fn right() -> History {
        let mut peers = vec![peer(Passes::Down, 0..10), peer(Passes::Up, 5..12), peer(Passes::Both, 8..20)];
        let has: BTreeSet<u64> = (0..10).chain(8..20).chain([100]).collect();
        for peer in peers.iter_mut().filter(|peer| peer.passes != Passes::Down) {
            let lacked: Vec<u64> = has.difference(&peer.has).copied().collect();
            peer.came = lacked.iter().map(|event| Seen { event: *event, at: event * 1000 + 100 }).collect();
            peer.has.extend(lacked);
        }
        History { peers, published: BTreeSet::from([100]), has, crossing: 500 }
    }

    fn faults(history: &History) -> Vec<Fault> {
        check(history).faults.into_iter().collect()
    }

    #[test]
    fn a_right_history_has_no_fault() {
        let findings = check(&right());
        assert_eq!(findings, Findings { expected: 3 * 21, ..Findings::default() });
    }

    #[test]
    fn missing_events_are_found_on_either_side() {
        let mut history = right();
        history.has.remove(&3);
        history.peers[2].has.remove(&100);
        assert_eq!(faults(&history), [Fault::MissingHere(3), Fault::MissingThere(100, 2)]);
        let mut history = right();
        history.has.remove(&100);
        assert_eq!(faults(&history), [Fault::MissingHere(100)]);
        // The peer that only gets events owes none.
        let mut history = right();
        history.peers[1].own.insert(50);
        assert_eq!(faults(&history), []);
    }

    #[test]
    fn an_event_that_goes_back_is_an_echo_unless_it_crosses_the_peers() {
        let mut history = right();
        history.peers[2].came.push(Seen { event: 9, at: 9_400 });
        assert_eq!((faults(&history), check(&history).crossed), (vec![], 1));
        history.peers[2].came.push(Seen { event: 10, at: 10_600 });
        assert_eq!(faults(&history), [Fault::Echo(10, 2)]);
        history.peers[2].cuts.push(Cut { from: 10_500, to: 11_000 });
        assert_eq!(faults(&history), [], "the message lay in the cable");
        // Before the peer sends it, it has it from elsewhere.
        history.peers[2].came.push(Seen { event: 12, at: 11_999 });
        assert_eq!(faults(&history), []);
    }

    #[test]
    fn events_from_nowhere_and_to_where_none_goes_are_foreign() {
        let mut history = right();
        history.has.insert(77);
        for peer in &mut history.peers {
            peer.has.insert(77);
        }
        history.peers[0].came.push(Seen { event: 3, at: 50_000 });
        assert_eq!(faults(&history), [Fault::Foreign(3), Fault::Foreign(77)]);
    }

    #[test]
    fn events_that_go_twice_are_counted() {
        let mut history = right();
        let again = history.peers[1].came[0];
        history.peers[1].came.push(Seen { at: 90_000, ..again });
        assert_eq!((faults(&history), check(&history).repeated), (vec![], 1));
    }
}
