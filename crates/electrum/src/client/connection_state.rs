//! State of one connection, without sockets: negotiated version, subscriptions, and the states sent last.
//!
//! A subscription is entered when its request is admitted, so that requests keep their order, and *settled* when the
//! reply leaves. Only settled subscriptions are notified. Every update starts a new [`Epoch`]; an answer or a state
//! that was computed in an older one is checked again.

use birdhouse_chain::ScriptHash;
use bitcoin::OutPoint;

use crate::client::owners::Owners;
use crate::client::rare::Rare;
use crate::client::subscriptions::{Age, Subscriptions};
use crate::error::RpcError;
use crate::limits::{HINTED_OUTPOINTS_MAX, UNOWNED_OUTPOINTS_MAX};
use crate::protocol::{
    Answer, Args, Naming, OutpointState, OutpointStatus, Prospect, Script, SilentId, Status, Subject, SubjectState,
    TipHeader, Topic, TweakStream, Version, VersionRange,
};
use crate::request::{
    ConnectionRequest, IndexRequest, Lookup, MemoryRequest, Query, Read, Request, SilentRequest, Work,
};
use crate::silentpayments::SilentSubscriptions;
use crate::tweaks::TweakStreams;

/// State of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    greeting: Greeting,
    tip: Subscriptions<(), TipHeader>,
    scripts: Subscriptions<Script, Status>,
    outpoints: Subscriptions<OutPoint, OutpointStatus>,
    owners: Rare<Owners>,
    pub(crate) silent: SilentSubscriptions,
    pub(crate) tweaks: TweakStreams,
    epoch: Epoch,
}

/// Number of updates that a connection's state has taken.
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

/// Outcome of admitting a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The request is to be computed; its reply settles the topic.
    Run(Work, Option<Topic>),
    /// The state itself knows the answer.
    Answer(Result<Answer, RpcError>),
    /// The caller answers it with [`ConnectionState::silent`].
    Silent(SilentRequest),
    /// As [`Self::Answer`], and the connection ends after it.
    Farewell(RpcError),
}

/// Effect of a reply on a subscription, applied as the reply leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Settle {
    /// The reply carries this state.
    Sent(SubjectState),
    /// The reply is an error.
    Failed(Subject),
    /// The reply confirms a subscription to silent payments.
    Silent(SilentId),
    /// The reply to a subscription to silent payments is an error.
    SilentFailed(SilentId),
    /// The reply has the first block of a stream of tweaks.
    Tweaks(TweakStream),
    /// The reply to a request for tweaks is an error.
    TweaksFailed,
}

/// A subscribe request.
#[derive(Debug, Clone, Copy)]
struct Subscribe {
    subject: Subject,
    /// Script of an outpoint, as the client states it.
    hint: Option<ScriptHash>,
}

// === impl Subscribe, Settle ===

impl Subscribe {
    /// Returns the subscription that a request asks for.
    fn of(work: &Work) -> Option<Self> {
        let Work::Read(read) = work else { return None };
        let (subject, hint) = match read {
            Read::Memory(MemoryRequest::HeadersSubscribe) => (Subject::Tip, None),
            Read::Index(IndexRequest::Lookup(Lookup::Subscribe(script))) => (Subject::Script(*script), None),
            Read::Index(IndexRequest::Query(Query::OutpointSubscribe { outpoint, hint })) => {
                (Subject::Outpoint(*outpoint), *hint)
            }
            _ => return None,
        };
        Some(Self { subject, hint })
    }
}

impl Settle {
    /// Returns the effect of the answer to a subscribe request.
    pub(crate) fn of(topic: Topic, result: &Result<Answer, RpcError>) -> Self {
        let subject = match topic {
            Topic::Subject(subject) => subject,
            Topic::Silent(id) if result.is_ok() => return Self::Silent(id),
            Topic::Silent(id) => return Self::SilentFailed(id),
            Topic::Tweaks => {
                let Ok(Answer::Tweaks { stream, .. }) = result else { return Self::TweaksFailed };
                return Self::Tweaks(*stream);
            }
        };
        match (subject, result) {
            (Subject::Tip, Ok(Answer::Tip(tip))) => Self::Sent(SubjectState::Tip(*tip)),
            (Subject::Script(script), Ok(Answer::Status(status))) => Self::Sent(SubjectState::Script(script, *status)),
            (Subject::Outpoint(outpoint), Ok(Answer::Outpoint(state))) => {
                Self::Sent(SubjectState::Outpoint(outpoint, *state))
            }
            (subject, _) => Self::Failed(subject),
        }
    }

    /// Returns the effect if the reply cannot be sent after all.
    pub(crate) fn failed(self) -> Self {
        match self {
            Self::Sent(state) => Self::Failed(state.subject()),
            Self::Silent(id) => Self::SilentFailed(id),
            Self::Tweaks(_) => Self::TweaksFailed,
            failed @ (Self::Failed(_) | Self::SilentFailed(_) | Self::TweaksFailed) => failed,
        }
    }
}

// === impl ConnectionState: requests ===

impl ConnectionState {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns the number of scripts and outpoints that the connection follows.
    pub(crate) fn subscriptions(&self) -> usize {
        self.scripts.len() + self.outpoints.len()
    }

    /// Returns the epoch. It must be read before the snapshot that a reply is computed from.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Parses a request in the negotiated version. A client that never sends `server.version` speaks the oldest.
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

    /// Admits a request. Requests must come in the order in which the client sent them.
    pub(crate) fn admit(&mut self, request: Request, software: &str, subscriptions_max: usize) -> Admission {
        if !matches!(request, Request::Connection(ConnectionRequest::Version(_))) && self.greeting == Greeting::Silent {
            self.greeting = Greeting::Skipped;
        }
        let work = match request {
            Request::Connection(request) => return self.answer(request, software),
            Request::Silent(request) => return Admission::Silent(request),
            Request::Work(work) => work,
        };
        if let Work::Read(Read::Index(IndexRequest::Query(Query::TweaksSubscribe(_)))) = work {
            return match self.tweaks.enter() {
                Ok(()) => Admission::Run(work, Some(Topic::Tweaks)),
                Err(error) => Admission::Answer(Err(error)),
            };
        }
        let subscribe = Subscribe::of(&work);
        if let Some(subscribe) = subscribe {
            if let Err(error) = self.check_room(subscribe, subscriptions_max) {
                return Admission::Answer(Err(error));
            }
            self.enter(subscribe);
        }
        Admission::Run(work, subscribe.map(|subscribe| Topic::Subject(subscribe.subject)))
    }

    fn answer(&mut self, request: ConnectionRequest, software: &str) -> Admission {
        let was_subscribed = match request {
            ConnectionRequest::Version(range) => return self.greet(range, software),
            ConnectionRequest::HeadersUnsubscribe => self.leave(Subject::Tip),
            ConnectionRequest::Unsubscribe(script) => self.leave(Subject::Script(script)),
            ConnectionRequest::OutpointUnsubscribe(outpoint) => self.leave(Subject::Outpoint(outpoint)),
        };
        Admission::Answer(Ok(Answer::Bool(was_subscribed)))
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

// === impl ConnectionState: subscriptions ===

impl ConnectionState {
    fn check_room(&self, Subscribe { subject, hint }: Subscribe, subscriptions_max: usize) -> Result<(), RpcError> {
        let is_followed = match subject {
            Subject::Tip => true,
            Subject::Script(script) => self.scripts.contains(&script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => self.outpoints.contains(&outpoint),
        };
        if is_followed {
            return Ok(());
        }
        if self.subscriptions() >= subscriptions_max {
            return Err(RpcError::excessive(format_args!("at most {subscriptions_max} subscriptions")));
        }
        if !matches!(subject, Subject::Outpoint(_)) {
            return Ok(());
        }
        let (unfunded, most, noun) = match hint {
            None => (self.owners.get().map_or(0, Owners::unowned_len), UNOWNED_OUTPOINTS_MAX, "without"),
            Some(_) => (self.owners.get().map_or(0, Owners::hinted_len), HINTED_OUTPOINTS_MAX, "with"),
        };
        if unfunded >= most {
            return Err(RpcError::excessive(format_args!("at most {most} unfunded outpoints {noun} spk_hint")));
        }
        Ok(())
    }

    fn enter(&mut self, Subscribe { subject, hint }: Subscribe) {
        match subject {
            Subject::Tip => self.tip.enter(()),
            Subject::Script(script) => self.scripts.enter(script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
                self.outpoints.enter(outpoint);
                self.owners.get_mut().enter(outpoint, hint);
            }
        }
    }

    /// Ends a subscription; returns false if there was none.
    fn leave(&mut self, subject: Subject) -> bool {
        match subject {
            Subject::Tip => self.tip.leave(&()),
            Subject::Script(script) => self.scripts.leave(&script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
                self.forget_owner(&outpoint);
                self.outpoints.leave(&outpoint)
            }
        }
    }

    /// Applies the effect of a leaving reply, computed in `epoch`. Returns true if the notifier must look again.
    pub(super) fn settle(&mut self, settle: Settle, epoch: Epoch) -> bool {
        let age = self.age(epoch);
        match settle {
            Settle::Sent(SubjectState::Tip(tip)) => self.tip.settle((), tip, age),
            Settle::Sent(SubjectState::Script(script, status)) => self.scripts.settle(script, status, age),
            Settle::Sent(SubjectState::Outpoint(outpoint, state)) => {
                let must_look = self.outpoints.settle(outpoint, state.status, age);
                self.follow_by_script(outpoint, state);
                must_look
            }
            Settle::Failed(subject) => {
                self.fail(subject);
                false
            }
            Settle::Silent(id) => {
                self.silent.settle(id);
                false
            }
            Settle::SilentFailed(id) => {
                self.silent.fail(id);
                false
            }
            Settle::Tweaks(stream) => {
                self.tweaks.settle(stream);
                false
            }
            Settle::TweaksFailed => {
                self.tweaks.end();
                false
            }
        }
    }

    fn fail(&mut self, subject: Subject) {
        match subject {
            Subject::Tip => self.tip.fail(&()),
            Subject::Script(script) => self.scripts.fail(&script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
                self.outpoints.fail(&outpoint);
                if !self.outpoints.contains(&outpoint) {
                    self.forget_owner(&outpoint);
                }
            }
        }
    }

    fn forget_owner(&mut self, outpoint: &OutPoint) {
        if let Some(owners) = self.owners.known() {
            owners.remove(outpoint);
        }
    }

    /// Follows an outpoint by the script that the last check has found, or drops it once its status is final.
    fn follow_by_script(&mut self, outpoint: OutPoint, state: OutpointState) {
        match state.prospect {
            Prospect::Open if self.outpoints.contains(&outpoint) => self.owners.get_mut().put(outpoint, state.output),
            Prospect::Open => {}
            Prospect::Final => drop(self.leave(Subject::Outpoint(outpoint))),
        }
    }
}

// === impl ConnectionState: updates ===

impl ConnectionState {
    /// Takes an update of chain or mempool that touched these scripts (sorted).
    pub(super) fn touch(&mut self, touched: &[ScriptHash]) {
        self.next_epoch();
        // The shorter list leads.
        if touched.len() < self.scripts.len() {
            for hash in touched {
                for naming in Naming::ALL {
                    self.scripts.touch(&Script { hash: *hash, naming });
                }
            }
        } else {
            self.scripts.touch_where(|script| touched.binary_search(&script.hash).is_ok());
        }
        if let Some(owners) = self.owners.get() {
            owners.touched(touched, |outpoint| self.outpoints.touch(outpoint));
        }
    }

    /// Takes an update of chain or mempool that may have touched anything.
    pub(super) fn touch_all(&mut self) {
        self.next_epoch();
        self.scripts.touch_where(|_| true);
        self.outpoints.touch_where(|_| true);
    }

    fn next_epoch(&mut self) {
        self.epoch.0 += 1;
        self.tip.touch(&());
    }

    /// Returns true if the tip must be checked again.
    pub(super) fn is_tip_due(&self) -> bool {
        self.tip.has_due()
    }

    /// Returns true if a script or an outpoint must be checked again.
    pub(super) fn has_due(&self) -> bool {
        self.scripts.has_due() || self.outpoints.has_due()
    }

    /// Takes the subjects that must be checked again, the tip first. The snapshot for the check must be taken after
    /// this call.
    pub(crate) fn take_due(&mut self) -> Vec<Subject> {
        let tip = self.tip.take_due().map(|()| Subject::Tip);
        let scripts = self.scripts.take_due().map(Subject::Script);
        let outpoints = self.outpoints.take_due().map(|outpoint| {
            let is_unspendable = self.owners.get().is_some_and(|owners| owners.is_unspendable(&outpoint));
            if is_unspendable { Subject::Unspendable(outpoint) } else { Subject::Outpoint(outpoint) }
        });
        tip.chain(scripts).chain(outpoints).collect()
    }

    /// Keeps a subject due whose check has failed.
    pub(crate) fn put_back(&mut self, subject: Subject) {
        match subject {
            Subject::Tip => self.tip.touch(&()),
            Subject::Script(script) => self.scripts.touch(&script),
            Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => self.outpoints.touch(&outpoint),
        }
    }

    /// Takes the result of a check that began in `epoch`. Returns its age if the client must be notified of it now, and
    /// `None` if not; a stale one must be checked again.
    pub(crate) fn change(&mut self, state: &SubjectState, epoch: Epoch) -> Option<Age> {
        let age = self.age(epoch);
        match *state {
            SubjectState::Tip(tip) => self.tip.change((), tip, age),
            SubjectState::Script(script, status) => self.scripts.change(script, status, age),
            SubjectState::Outpoint(outpoint, state) => {
                let change = self.outpoints.change(outpoint, state.status, age);
                self.follow_by_script(outpoint, state);
                change
            }
        }
    }

    fn age(&self, epoch: Epoch) -> Age {
        if epoch == self.epoch { Age::Present } else { Age::Stale }
    }
}

#[cfg(test)]
#[path = "connection_state_tests.rs"]
mod tests;
