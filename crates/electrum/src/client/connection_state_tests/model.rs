//! A connection's state against a model of its client: in any order of events, the client receives no notification
//! before its reply, none twice, and in the end the present state.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Number of scripts, each with one outpoint.
const SCRIPTS: u8 = 3;

/// An event of the simulation.
#[derive(Debug, Clone)]
enum Event {
    /// The client subscribes; the reply is computed at this moment.
    Subscribe {
        subject: usize,
        is_hinted: bool,
    },
    Unsubscribe(usize),
    /// One of the replies on their way leaves, as an answer or as an error.
    Reply {
        which: usize,
        is_error: bool,
    },
    /// Chain or mempool change: these scripts, and the tip if `tip`.
    Publish {
        tip: bool,
        scripts: Vec<u8>,
        is_known: bool,
    },
    /// The connection takes the updates that wait.
    Take,
    /// The notifier checks due subjects, unless it has changes to send.
    Check,
    /// The notifier sends the changes that it has found.
    Notify,
}

/// The world at one moment: a number for the tip and for each script, that counts its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct World {
    tip: u8,
    scripts: [u8; SCRIPTS as usize],
}

/// A reply on its way.
struct Reply {
    subject: Subject,
    /// World at the snapshot of the reply.
    world: World,
    epoch: Epoch,
    /// The client has unsubscribed meanwhile.
    is_late: bool,
}

struct Run {
    connection: ConnectionState,
    world: World,
    /// Updates that the connection has not taken: the scripts that they touched, if these are known.
    updates: Vec<Option<Vec<ScriptHash>>>,
    replies: Vec<Reply>,
    /// States that the notifier has found and not sent yet, and the epoch of its check.
    check: Option<(Vec<SubjectState>, Epoch)>,
    /// State that the client received last of each subject that it follows; `None` before the reply.
    client: HashMap<usize, Option<SubjectState>>,
}

fn subjects() -> Vec<Subject> {
    let scripts = (0..SCRIPTS).flat_map(|number| {
        [Naming::Hash, Naming::Pubkey].map(|naming| Subject::Script(Script { hash: hash(number), naming }))
    });
    let outpoints = (0..SCRIPTS).map(|number| Subject::Outpoint(outpoint(number)));
    std::iter::once(Subject::Tip).chain(scripts).chain(outpoints).collect()
}

fn number(subject: Subject) -> usize {
    subjects().iter().position(|other| *other == subject).unwrap()
}

impl World {
    fn state(self, subject: Subject) -> SubjectState {
        match subject {
            Subject::Tip => SubjectState::Tip(tip(self.tip)),
            Subject::Script(script) => {
                let version = self.scripts[usize::from(script.hash.0[0])];
                SubjectState::Script(script, (version > 0).then_some([version; 32]))
            }
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
                let number = outpoint.txid.to_byte_array()[0];
                let version = self.scripts[usize::from(number)];
                // Unfunded at first, and now and then again.
                let height = (!version.is_multiple_of(4)).then_some(u32::from(version));
                SubjectState::Outpoint(outpoint, funded(number, height))
            }
        }
    }
}

impl Run {
    fn new() -> Self {
        Self {
            connection: ConnectionState::new(),
            world: World::default(),
            updates: Vec::new(),
            replies: Vec::new(),
            check: None,
            client: HashMap::new(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Subscribe { subject, is_hinted } => {
                let subject = subjects()[subject];
                let request = match subject {
                    Subject::Outpoint(outpoint) if is_hinted => hinted(outpoint.txid.to_byte_array()[0]),
                    subject => subscribe(subject),
                };
                self.subscribe(subject, request);
            }
            Event::Unsubscribe(subject) => self.unsubscribe(subjects()[subject]),
            Event::Reply { which, is_error } if !self.replies.is_empty() => {
                let reply = self.replies.remove(which % self.replies.len());
                if is_error && !reply.is_late { self.fail(&reply) } else { self.reply(&reply) }
            }
            Event::Publish { tip, scripts, is_known } => {
                self.world.tip += u8::from(tip);
                let touched = self.change(&scripts);
                self.updates.push(is_known.then_some(touched));
            }
            Event::Take => self.take(),
            Event::Check if self.check.is_none() => self.check(),
            Event::Notify => self.notify(),
            Event::Reply { .. } | Event::Check => {}
        }
    }

    fn subscribe(&mut self, subject: Subject, request: Request) {
        assert!(matches!(self.connection.admit(request, "Birdhouse", usize::MAX), Admission::Run(..)));
        self.replies.push(Reply { subject, world: self.world, epoch: self.connection.epoch(), is_late: false });
        self.client.entry(number(subject)).or_default();
    }

    fn unsubscribe(&mut self, subject: Subject) {
        let request = match subject {
            Subject::Tip => ConnectionRequest::HeadersUnsubscribe,
            Subject::Script(script) => ConnectionRequest::Unsubscribe(script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
                ConnectionRequest::OutpointUnsubscribe(outpoint)
            }
        };
        for reply in self.replies.iter_mut().filter(|reply| reply.subject == subject) {
            reply.is_late = true;
        }
        let was_followed = self.client.remove(&number(subject)).is_some();
        assert_eq!(leave(&mut self.connection, request), was_followed);
    }

    fn reply(&mut self, reply: &Reply) {
        let state = reply.world.state(reply.subject);
        self.connection.settle(Settle::Sent(state), reply.epoch);
        self.client.entry(number(reply.subject)).and_modify(|sent| *sent = Some(state));
    }

    /// Replies with an error.
    fn fail(&mut self, reply: &Reply) {
        let subject = reply.subject;
        self.connection.settle(Settle::Failed(subject), reply.epoch);
        let is_awaited = self.replies.iter().any(|other| other.subject == subject && !other.is_late);
        if self.client.get(&number(subject)) == Some(&None) && !is_awaited {
            self.client.remove(&number(subject));
        }
    }

    /// Changes the history of scripts; returns their hashes, sorted.
    fn change(&mut self, scripts: &[u8]) -> Vec<ScriptHash> {
        for script in scripts {
            self.world.scripts[usize::from(*script)] += 1;
        }
        let mut touched: Vec<ScriptHash> = scripts.iter().map(|script| hash(*script)).collect();
        touched.sort_unstable();
        touched
    }

    fn take(&mut self) {
        for update in std::mem::take(&mut self.updates) {
            match update {
                Some(touched) => self.connection.touch(&touched),
                None => self.connection.touch_all(),
            }
        }
    }

    fn check(&mut self) {
        let due = self.connection.take_due();
        let states = due.into_iter().map(|subject| self.world.state(subject)).collect();
        self.check = Some((states, self.connection.epoch()));
    }

    fn notify(&mut self) {
        let Some((states, epoch)) = self.check.take() else { return };
        for state in states {
            if self.connection.change(&state, epoch).is_some() {
                let sent = self
                    .client
                    .get_mut(&number(state.subject()))
                    .expect("notified of a subject without a subscription");
                let before = sent.replace(state).expect("notified before the reply");
                assert!(!same(&before, &state), "notified twice: {state:?}");
            }
        }
    }

    /// Everything that is on its way arrives.
    fn settle_down(mut self) {
        for reply in std::mem::take(&mut self.replies) {
            self.reply(&reply);
        }
        self.notify();
        self.take();
        self.check();
        self.notify();
        for (number, sent) in &self.client {
            let present = self.world.state(subjects()[*number]);
            let sent = sent.as_ref().expect("every reply has left");
            assert!(same(sent, &present), "the client has {sent:?}, but the state is {present:?}");
        }
    }
}

/// Returns true if two states read the same to a client.
fn same(one: &SubjectState, other: &SubjectState) -> bool {
    match (one, other) {
        (SubjectState::Outpoint(one, state), SubjectState::Outpoint(other, present)) => {
            one == other && state.status == present.status
        }
        (one, other) => one == other,
    }
}

fn event() -> impl Strategy<Value = Event> {
    let subject = 0..subjects().len();
    prop_oneof![
        4 => (subject.clone(), any::<bool>())
            .prop_map(|(subject, is_hinted)| Event::Subscribe { subject, is_hinted }),
        1 => subject.prop_map(Event::Unsubscribe),
        4 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(which, is_error)| Event::Reply { which, is_error }),
        4 => (any::<bool>(), prop::collection::vec(0..SCRIPTS, 0..3), prop::bool::weighted(0.9))
            .prop_map(|(tip, mut scripts, is_known)| {
                scripts.sort_unstable();
                scripts.dedup();
                Event::Publish { tip, scripts, is_known }
            }),
        3 => Just(Event::Take),
        3 => Just(Event::Check),
        3 => Just(Event::Notify),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_client_is_notified_of_changes_only_and_in_the_end_of_the_present(events in prop::collection::vec(event(), 0..60)) {
        let mut run = Run::new();
        for event in events {
            run.happen(event);
        }
        run.settle_down();
    }
}
