//! The state of one client, without sockets: negotiated version, subscriptions, what was last sent.
//!
//! Whatever a client follows is entered when its subscribe request is admitted, so that requests keep their order, and
//! *settled* when the reply leaves. Only what is settled is notified. Every update starts a new [`Epoch`]; what was
//! computed in an older one, an answer or a look, is checked again.

use birdhouse_chain::ScriptHash;
use bitcoin::OutPoint;

use crate::error::RpcError;
use crate::owners::Owners;
use crate::params::Args;
use crate::request::Request;
use crate::response::{Answer, OutpointState, OutpointStatus, Prospect, Status, TipHeader};
use crate::script::{Naming, Script};
use crate::subscriptions::{Age, Subscriptions};
use crate::version::{Version, VersionRange};

/// Outpoints that one client may follow without saying whose they are, while nobody can know: each is looked up again
/// at every update.
pub(crate) const UNOWNED_OUTPOINTS_MAX: usize = 100;

/// One client.
#[derive(Debug, Default)]
pub(crate) struct Session {
    greeting: Greeting,
    tip: Subscriptions<(), TipHeader>,
    by_hash: Subscriptions<ScriptHash, Status>,
    by_pubkey: Subscriptions<ScriptHash, Status>,
    outpoints: Subscriptions<OutPoint, OutpointStatus>,
    owners: Owners,
    epoch: Epoch,
}

/// Something that a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Tip,
    Script(Script),
    Outpoint(OutPoint),
}

/// A subject as it is at one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Tip(TipHeader),
    Script(Script, Status),
    Outpoint(OutPoint, OutpointState),
}

/// Counts the updates that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Epoch(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Greeting {
    /// No request yet.
    #[default]
    Silent,
    /// Requests, but no `server.version`.
    Skipped,
    Version(Version),
}

/// What to do with a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Compute it.
    Run(Request),
    /// The session itself knows the answer.
    Answer(Result<Answer, RpcError>),
    /// As [`Self::Answer`], and the connection ends after it.
    Farewell(RpcError),
}

/// What a reply means for the subscriptions, to be settled as it leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Settle {
    Told(State),
    Failed(Subject),
}

// === impl Subject, State, Settle ===

impl Subject {
    /// What a request subscribes to.
    fn of(request: &Request) -> Option<Self> {
        match request {
            Request::HeadersSubscribe => Some(Self::Tip),
            Request::Subscribe(script) => Some(Self::Script(*script)),
            Request::OutpointSubscribe { outpoint, .. } => Some(Self::Outpoint(*outpoint)),
            _ => None,
        }
    }
}

impl State {
    fn subject(&self) -> Subject {
        match self {
            Self::Tip(_) => Subject::Tip,
            Self::Script(script, _) => Subject::Script(*script),
            Self::Outpoint(outpoint, _) => Subject::Outpoint(*outpoint),
        }
    }
}

impl Settle {
    /// What the answer to a request means; `None` if the request subscribes to nothing.
    pub(crate) fn of(request: &Request, result: &Result<Answer, RpcError>) -> Option<Self> {
        let subject = Subject::of(request)?;
        Some(match (subject, result) {
            (Subject::Tip, Ok(Answer::Tip(tip))) => Self::Told(State::Tip(*tip)),
            (Subject::Script(script), Ok(Answer::Status(status))) => Self::Told(State::Script(script, *status)),
            (Subject::Outpoint(outpoint), Ok(Answer::Outpoint(state))) => Self::Told(State::Outpoint(outpoint, *state)),
            (subject, _) => Self::Failed(subject),
        })
    }

    /// What it is when the reply cannot be sent after all.
    pub(crate) fn failed(self) -> Self {
        match self {
            Self::Told(state) => Self::Failed(state.subject()),
            failed @ Self::Failed(_) => failed,
        }
    }
}

// === impl Session: requests ===

impl Session {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// How many scripts and outpoints it follows.
    pub(crate) fn subscriptions(&self) -> usize {
        self.by_hash.len() + self.by_pubkey.len() + self.outpoints.len()
    }

    /// The moment to take before the snapshot that a reply is computed from.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Reads a request in the version that was negotiated. A client that never says one speaks the oldest.
    pub(crate) fn read(&self, method: &str, args: Result<Args<'_>, RpcError>) -> Result<Request, RpcError> {
        let version = match self.greeting {
            Greeting::Version(version) => version,
            Greeting::Silent | Greeting::Skipped => Version::MIN,
        };
        if !matches!(self.greeting, Greeting::Version(_))
            && !Request::is_known(method, version)
            && Request::is_known(method, Version::MAX)
        {
            return Err(RpcError::version_first());
        }
        Request::parse(method, args, version)
    }

    /// Takes a request in the order in which the client sent it.
    pub(crate) fn admit(&mut self, request: Request, software: &str, subscriptions_max: usize) -> Admission {
        if let Request::Version(range) = request {
            return self.greet(range, software);
        }
        if self.greeting == Greeting::Silent {
            self.greeting = Greeting::Skipped;
        }
        if let Some(subject) = Subject::of(&request) {
            if let Err(error) = self.has_place(&request, subject, subscriptions_max) {
                return Admission::Answer(Err(error));
            }
            self.enter(&request, subject);
            return Admission::Run(request);
        }
        let left = match request {
            Request::HeadersUnsubscribe => self.leave(Subject::Tip),
            Request::Unsubscribe(script) => self.leave(Subject::Script(script)),
            Request::OutpointUnsubscribe(outpoint) => self.leave(Subject::Outpoint(outpoint)),
            request => return Admission::Run(request),
        };
        Admission::Answer(Ok(Answer::Bool(left)))
    }

    fn greet(&mut self, range: VersionRange, software: &str) -> Admission {
        let server_max = match self.greeting {
            Greeting::Silent => Version::MAX,
            // From 1.6 the version is to be the first message; before, servers let it come late.
            Greeting::Skipped if range.min >= Version::V1_6 => {
                return Admission::Farewell(RpcError::version_first());
            }
            Greeting::Skipped => Version::V1_4_2,
            Greeting::Version(_) => {
                return Admission::Answer(Err(RpcError::bad_request("server.version already sent")));
            }
        };
        let Some(version) = range.negotiate(server_max) else {
            let message = format!("unsupported protocol version: {} to {}", range.min, range.max);
            return Admission::Farewell(RpcError::bad_request(message));
        };
        self.greeting = Greeting::Version(version);
        Admission::Answer(Ok(Answer::Version { software: software.to_owned(), version }))
    }
}

// === impl Session: subscriptions ===

impl Session {
    fn has_place(&self, request: &Request, subject: Subject, subscriptions_max: usize) -> Result<(), RpcError> {
        let followed = match subject {
            Subject::Tip => true,
            Subject::Script(Script { hash, naming: Naming::Hash }) => self.by_hash.contains(&hash),
            Subject::Script(Script { hash, naming: Naming::Pubkey }) => self.by_pubkey.contains(&hash),
            Subject::Outpoint(outpoint) => self.outpoints.contains(&outpoint),
        };
        if followed {
            return Ok(());
        }
        if self.subscriptions() >= subscriptions_max {
            return Err(RpcError::excessive(format_args!("at most {subscriptions_max} subscriptions")));
        }
        let has_no_hint = matches!(request, Request::OutpointSubscribe { hint: None, .. });
        if has_no_hint && self.owners.unowned_len() >= UNOWNED_OUTPOINTS_MAX {
            let message = format_args!("at most {UNOWNED_OUTPOINTS_MAX} unfunded outpoints without spk_hint");
            return Err(RpcError::excessive(message));
        }
        Ok(())
    }

    fn enter(&mut self, request: &Request, subject: Subject) {
        match subject {
            Subject::Tip => self.tip.enter(()),
            Subject::Script(script) => self.scripts(script.naming).enter(script.hash),
            Subject::Outpoint(outpoint) => {
                self.outpoints.enter(outpoint);
                if let Request::OutpointSubscribe { hint, .. } = request {
                    self.owners.put(outpoint, *hint);
                }
            }
        }
    }

    fn leave(&mut self, subject: Subject) -> bool {
        match subject {
            Subject::Tip => self.tip.leave(&()),
            Subject::Script(script) => self.scripts(script.naming).leave(&script.hash),
            Subject::Outpoint(outpoint) => {
                self.owners.remove(&outpoint);
                self.outpoints.leave(&outpoint)
            }
        }
    }

    fn scripts(&mut self, naming: Naming) -> &mut Subscriptions<ScriptHash, Status> {
        match naming {
            Naming::Hash => &mut self.by_hash,
            Naming::Pubkey => &mut self.by_pubkey,
        }
    }

    /// Notes what a leaving reply tells, computed in `epoch`. True if the notifier must look again.
    pub(crate) fn settle(&mut self, settle: Settle, epoch: Epoch) -> bool {
        let age = self.age(epoch);
        match settle {
            Settle::Told(State::Tip(tip)) => self.tip.settle((), tip, age),
            Settle::Told(State::Script(script, status)) => self.scripts(script.naming).settle(script.hash, status, age),
            Settle::Told(State::Outpoint(outpoint, state)) => {
                let look_again = self.outpoints.settle(outpoint, state.status, age);
                self.place(outpoint, state);
                look_again
            }
            Settle::Failed(subject) => {
                self.fail(subject);
                false
            }
        }
    }

    fn fail(&mut self, subject: Subject) {
        match subject {
            Subject::Tip => self.tip.fail(&()),
            Subject::Script(script) => self.scripts(script.naming).fail(&script.hash),
            Subject::Outpoint(outpoint) => {
                self.outpoints.fail(&outpoint);
                if !self.outpoints.contains(&outpoint) {
                    self.owners.remove(&outpoint);
                }
            }
        }
    }

    /// Follows an outpoint by what was seen of it last.
    fn place(&mut self, outpoint: OutPoint, state: OutpointState) {
        match state.prospect {
            Prospect::Open if self.outpoints.contains(&outpoint) => self.owners.put(outpoint, state.script),
            Prospect::Open => {}
            Prospect::Final => drop(self.leave(Subject::Outpoint(outpoint))),
        }
    }
}

// === impl Session: updates ===

impl Session {
    /// Chain or mempool moved, and these scripts (sorted) with it.
    pub(crate) fn touch(&mut self, touched: &[ScriptHash]) {
        self.next_epoch();
        for scripts in [&mut self.by_hash, &mut self.by_pubkey] {
            // Whichever is shorter leads.
            if touched.len() < scripts.len() {
                for script in touched {
                    scripts.touch(script);
                }
            } else {
                scripts.touch_where(|script| touched.binary_search(script).is_ok());
            }
        }
        self.owners.touched(touched, |outpoint| self.outpoints.touch(outpoint));
    }

    /// Chain or mempool moved and it is not known what with it.
    pub(crate) fn touch_all(&mut self) {
        self.next_epoch();
        self.by_hash.touch_where(|_| true);
        self.by_pubkey.touch_where(|_| true);
        self.outpoints.touch_where(|_| true);
    }

    fn next_epoch(&mut self) {
        self.epoch.0 += 1;
        self.tip.touch(&());
    }

    /// Whether the tip must be looked at.
    pub(crate) fn is_tip_due(&self) -> bool {
        self.tip.has_due()
    }

    /// Whether anything else must be looked at.
    pub(crate) fn has_due(&self) -> bool {
        self.by_hash.has_due() || self.by_pubkey.has_due() || self.outpoints.has_due()
    }

    /// Takes out what must be looked at, the tip first. The snapshot to look at is to be taken after this.
    pub(crate) fn take_due(&mut self) -> Vec<Subject> {
        let script = |naming| move |hash| Subject::Script(Script { hash, naming });
        let tip = self.tip.take_due().map(|()| Subject::Tip);
        let by_hash = self.by_hash.take_due().map(script(Naming::Hash));
        let by_pubkey = self.by_pubkey.take_due().map(script(Naming::Pubkey));
        let outpoints = self.outpoints.take_due().map(Subject::Outpoint);
        tip.chain(by_hash).chain(by_pubkey).chain(outpoints).collect()
    }

    /// It could not be looked at: it stays due.
    pub(crate) fn put_back(&mut self, subject: Subject) {
        match subject {
            Subject::Tip => self.tip.touch(&()),
            Subject::Script(script) => self.scripts(script.naming).touch(&script.hash),
            Subject::Outpoint(outpoint) => self.outpoints.touch(&outpoint),
        }
    }

    /// Takes what a look has found that began in `epoch`. Tells whether it is to be told to the client now; if it may be
    /// stale, the notifier must look again.
    pub(crate) fn change(&mut self, state: &State, epoch: Epoch) -> Option<Age> {
        let age = self.age(epoch);
        match *state {
            State::Tip(tip) => self.tip.change((), tip, age),
            State::Script(script, status) => self.scripts(script.naming).change(script.hash, status, age),
            State::Outpoint(outpoint, state) => {
                let change = self.outpoints.change(outpoint, state.status, age);
                self.place(outpoint, state);
                change
            }
        }
    }

    fn age(&self, epoch: Epoch) -> Age {
        if epoch == self.epoch { Age::Present } else { Age::Stale }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
