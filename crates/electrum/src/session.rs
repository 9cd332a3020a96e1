//! The state of one client, without sockets: negotiated version, subscriptions, what was last sent.
//!
//! A script is entered when its subscribe request is admitted, so that requests keep their order, and
//! *settled* when the reply leaves with a status. Only settled scripts are notified. Every update that the
//! notifier takes starts a new [`Epoch`]; an answer that was computed in an older one is checked again.

use std::collections::{HashMap, HashSet};

use birdhouse_chain::ScriptHash;
use bitcoin::BlockHash;

use crate::error::RpcError;
use crate::request::Request;
use crate::response::{Answer, Status};
use crate::version::{Version, VersionRange};

/// One client.
#[derive(Debug)]
pub(crate) struct Session {
    greeting: Greeting,
    scripts: HashMap<ScriptHash, Sent<Status>>,
    tip: Option<Sent<BlockHash>>,
    due: Due,
    epoch: Epoch,
}

/// What the client was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent<T> {
    /// The reply to the subscribe request is on its way.
    Nothing,
    This(T),
}

/// Counts the updates that the notifier has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Epoch(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// No request yet.
    Silent,
    /// Requests, but no `server.version`.
    Skipped,
    Version(Version),
}

/// Scripts and tip to be looked at again.
#[derive(Debug, Default)]
struct Due {
    tip: bool,
    scripts: HashSet<ScriptHash>,
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
    Script(ScriptHash, Status),
    Tip(BlockHash),
    FailedScript(ScriptHash),
    FailedTip,
}

impl Settle {
    /// What it is when the reply cannot be sent after all.
    pub(crate) fn failed(self) -> Self {
        match self {
            Self::Script(scripthash, _) | Self::FailedScript(scripthash) => Self::FailedScript(scripthash),
            Self::Tip(_) | Self::FailedTip => Self::FailedTip,
        }
    }
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            greeting: Greeting::Silent,
            scripts: HashMap::new(),
            tip: None,
            due: Due::default(),
            epoch: Epoch::default(),
        }
    }

    /// The version that requests are read in. A client that never says it speaks the oldest.
    pub(crate) fn version(&self) -> Version {
        match self.greeting {
            Greeting::Version(version) => version,
            Greeting::Silent | Greeting::Skipped => Version::MIN,
        }
    }

    /// The moment to take before the snapshot that a reply is computed from.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Takes a request in the order in which the client sent it.
    pub(crate) fn admit(&mut self, request: Request, software: &str, subscriptions_max: usize) -> Admission {
        if let Request::Version(range) = request {
            return self.greet(range, software);
        }
        if self.greeting == Greeting::Silent {
            self.greeting = Greeting::Skipped;
        }
        match request {
            Request::Subscribe(scripthash) => {
                if self.scripts.len() >= subscriptions_max && !self.scripts.contains_key(&scripthash) {
                    let message = format_args!("at most {subscriptions_max} subscriptions").to_string();
                    return Admission::Answer(Err(RpcError::excessive(message)));
                }
                self.scripts.entry(scripthash).or_insert(Sent::Nothing);
                Admission::Run(Request::Subscribe(scripthash))
            }
            Request::Unsubscribe(scripthash) => {
                self.due.scripts.remove(&scripthash);
                Admission::Answer(Ok(Answer::Bool(self.scripts.remove(&scripthash).is_some())))
            }
            Request::HeadersSubscribe => {
                self.tip.get_or_insert(Sent::Nothing);
                Admission::Run(Request::HeadersSubscribe)
            }
            request => Admission::Run(request),
        }
    }

    fn greet(&mut self, range: VersionRange, software: &str) -> Admission {
        let server_max = match self.greeting {
            Greeting::Silent => Version::MAX,
            // From 1.6 the version is to be the first message; before, servers let it come late.
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

    /// Notes what a leaving reply tells, computed in `epoch`. True if the notifier must look again.
    pub(crate) fn settle(&mut self, settle: Settle, epoch: Epoch) -> bool {
        let is_stale = epoch != self.epoch;
        match settle {
            Settle::Script(scripthash, status) => {
                let Some(sent) = self.scripts.get_mut(&scripthash) else { return false };
                *sent = Sent::This(status);
                if is_stale {
                    self.due.scripts.insert(scripthash);
                }
                is_stale
            }
            Settle::Tip(hash) => {
                self.tip = Some(Sent::This(hash));
                self.due.tip |= is_stale;
                is_stale
            }
            Settle::FailedScript(scripthash) => {
                if self.scripts.get(&scripthash) == Some(&Sent::Nothing) {
                    self.scripts.remove(&scripthash);
                }
                false
            }
            Settle::FailedTip => {
                self.tip = self.tip.filter(|sent| *sent != Sent::Nothing);
                false
            }
        }
    }

    /// The chain moved, and these scripts (sorted) with it.
    pub(crate) fn touch(&mut self, touched: &[ScriptHash]) {
        self.next_epoch();
        // Whichever is shorter leads.
        if touched.len() < self.scripts.len() {
            let known = touched.iter().filter(|scripthash| self.scripts.contains_key(scripthash));
            self.due.scripts.extend(known);
        } else {
            let moved = self.scripts.keys().filter(|scripthash| touched.binary_search(scripthash).is_ok());
            self.due.scripts.extend(moved);
        }
    }

    /// The chain moved and it is not known what with it.
    pub(crate) fn touch_all(&mut self) {
        self.next_epoch();
        self.due.scripts.extend(self.scripts.keys());
    }

    fn next_epoch(&mut self) {
        self.epoch.0 += 1;
        self.due.tip = true;
    }

    /// Takes the news of the tip: true if `hash` is to be told to the client now.
    pub(crate) fn tip_changed(&mut self, hash: BlockHash) -> bool {
        let is_due = std::mem::take(&mut self.due.tip);
        match &mut self.tip {
            Some(Sent::This(sent)) if is_due && *sent != hash => {
                *sent = hash;
                true
            }
            _ => false,
        }
    }

    /// The scripts whose status must be computed again.
    pub(crate) fn due_scripts(&self) -> Vec<ScriptHash> {
        self.due.scripts.iter().copied().collect()
    }

    /// Takes the news of a script: true if `status` is to be told to the client now.
    pub(crate) fn status_changed(&mut self, scripthash: &ScriptHash, status: Status) -> bool {
        self.due.scripts.remove(scripthash);
        match self.scripts.get_mut(scripthash) {
            Some(Sent::This(sent)) if *sent != status => {
                *sent = status;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
