//! A session against a model of its client: whatever happens in whatever order, the client is told nothing before its
//! reply, nothing twice, and in the end the present.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// How many scripts there are, each with one outpoint.
const SCRIPTS: u8 = 3;

/// What can happen.
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
    /// Chain or mempool move: the tip, if it is to, and these scripts.
    Publish {
        tip: bool,
        scripts: Vec<u8>,
        is_known: bool,
    },
    /// The session takes the updates that wait.
    Take,
    /// The notifier looks at what is due, if it is not busy telling,
    Look,
    /// and tells what has changed.
    Tell,
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
    /// Of which it tells.
    world: World,
    epoch: Epoch,
    /// Whether the client has unsubscribed meanwhile.
    is_late: bool,
}

struct Run {
    session: Session,
    world: World,
    /// Updates that the session has not taken: what they touched, if that is known.
    updates: Vec<Option<Vec<ScriptHash>>>,
    replies: Vec<Reply>,
    /// What the notifier has seen and not told yet, and when it looked.
    look: Option<(Vec<State>, Epoch)>,
    /// What the client was told last of what it follows; nothing before the reply.
    client: HashMap<usize, Option<State>>,
}

fn subjects() -> Vec<Subject> {
    let scripts = (0..SCRIPTS).flat_map(|number| {
        [Naming::Hash, Naming::Pubkey].map(|naming| Subject::Script(Script { hash: hash(number), naming }))
    });
    let outpoints = (0..SCRIPTS).map(|number| Subject::Outpoint(outpoint(number)));
    std::iter::once(Subject::Tip).chain(scripts).chain(outpoints).collect()
}

fn place(subject: Subject) -> usize {
    subjects().iter().position(|other| *other == subject).unwrap()
}

impl World {
    fn state(self, subject: Subject) -> State {
        match subject {
            Subject::Tip => State::Tip(tip(self.tip)),
            Subject::Script(script) => {
                let version = self.scripts[usize::from(script.hash.0[0])];
                State::Script(script, (version > 0).then_some([version; 32]))
            }
            Subject::Outpoint(outpoint) => {
                let number = outpoint.txid.to_byte_array()[0];
                let version = self.scripts[usize::from(number)];
                // Unfunded at first, and now and then again.
                let height = (!version.is_multiple_of(4)).then_some(u32::from(version));
                State::Outpoint(outpoint, funded(number, height))
            }
        }
    }
}

impl Run {
    fn new() -> Self {
        Self {
            session: Session::new(),
            world: World::default(),
            updates: Vec::new(),
            replies: Vec::new(),
            look: None,
            client: HashMap::new(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Subscribe { subject, is_hinted } => self.subscribe(subjects()[subject], is_hinted),
            Event::Unsubscribe(subject) => self.unsubscribe(subjects()[subject]),
            Event::Reply { which, is_error } if !self.replies.is_empty() => {
                let reply = self.replies.remove(which % self.replies.len());
                self.reply(&reply, is_error && !reply.is_late);
            }
            Event::Publish { tip, scripts, is_known } => self.publish(tip, &scripts, is_known),
            Event::Take => self.take(),
            Event::Look if self.look.is_none() => self.look(),
            Event::Tell => self.tell(),
            Event::Reply { .. } | Event::Look => {}
        }
    }

    fn subscribe(&mut self, subject: Subject, is_hinted: bool) {
        let request = match subject {
            Subject::Outpoint(outpoint) if is_hinted => hinted(outpoint.txid.to_byte_array()[0]),
            subject => subscribe(subject),
        };
        assert!(matches!(self.session.admit(request, "Birdhouse", usize::MAX), Admission::Run(_)));
        self.replies.push(Reply { subject, world: self.world, epoch: self.session.epoch(), is_late: false });
        self.client.entry(place(subject)).or_default();
    }

    fn unsubscribe(&mut self, subject: Subject) {
        let request = match subject {
            Subject::Tip => Request::HeadersUnsubscribe,
            Subject::Script(script) => Request::Unsubscribe(script),
            Subject::Outpoint(outpoint) => Request::OutpointUnsubscribe(outpoint),
        };
        for reply in self.replies.iter_mut().filter(|reply| reply.subject == subject) {
            reply.is_late = true;
        }
        let was_followed = self.client.remove(&place(subject)).is_some();
        assert_eq!(leave(&mut self.session, request), was_followed);
    }

    fn reply(&mut self, reply: &Reply, is_error: bool) {
        let subject = reply.subject;
        if is_error {
            self.session.settle(Settle::Failed(subject), reply.epoch);
            let is_awaited = self.replies.iter().any(|other| other.subject == subject && !other.is_late);
            if self.client.get(&place(subject)) == Some(&None) && !is_awaited {
                self.client.remove(&place(subject));
            }
        } else {
            let state = reply.world.state(subject);
            self.session.settle(Settle::Told(state), reply.epoch);
            self.client.entry(place(subject)).and_modify(|told| *told = Some(state));
        }
    }

    fn publish(&mut self, tip: bool, scripts: &[u8], is_known: bool) {
        self.world.tip += u8::from(tip);
        for script in scripts {
            self.world.scripts[usize::from(*script)] += 1;
        }
        let mut touched: Vec<ScriptHash> = scripts.iter().map(|script| hash(*script)).collect();
        touched.sort_unstable();
        self.updates.push(is_known.then_some(touched));
    }

    fn take(&mut self) {
        for update in std::mem::take(&mut self.updates) {
            match update {
                Some(touched) => self.session.touch(&touched),
                None => self.session.touch_all(),
            }
        }
    }

    fn look(&mut self) {
        let due = self.session.take_due();
        let states = due.into_iter().map(|subject| self.world.state(subject)).collect();
        self.look = Some((states, self.session.epoch()));
    }

    fn tell(&mut self) {
        let Some((states, epoch)) = self.look.take() else { return };
        for state in states {
            if self.session.change(&state, epoch).is_some() {
                let told = self.client.get_mut(&place(state.subject())).expect("told what nobody follows");
                let before = told.replace(state).expect("told before the reply");
                assert!(!same(&before, &state), "told what is known: {state:?}");
            }
        }
    }

    /// Everything that is on its way arrives.
    fn settle_down(mut self) {
        for reply in std::mem::take(&mut self.replies) {
            self.reply(&reply, false);
        }
        self.tell();
        self.take();
        self.look();
        self.tell();
        for (place, told) in &self.client {
            let present = self.world.state(subjects()[*place]);
            let told = told.as_ref().expect("every reply has left");
            assert!(same(told, &present), "the client believes {told:?}, and {present:?} is true");
        }
    }
}

/// Whether two states read the same to a client.
fn same(one: &State, other: &State) -> bool {
    match (one, other) {
        (State::Outpoint(one, state), State::Outpoint(other, present)) => {
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
        3 => Just(Event::Look),
        3 => Just(Event::Tell),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_client_is_told_changes_only_and_in_the_end_the_present(events in prop::collection::vec(event(), 0..60)) {
        let mut run = Run::new();
        for event in events {
            run.happen(event);
        }
        run.settle_down();
    }
}
