//! State of the follower that other threads read and set: the reason to wait, the depth of the reorgs it follows, and
//! the time of its next look at the node.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::names::Height;
use crate::outside::{Runtime, Waiting};
use crate::tip::silence::Silence;

/// State of the follower that other threads read and set.
#[derive(Debug)]
pub(super) struct Following {
    /// The reason to wait, and when it was logged.
    waiting: Mutex<Option<(Waiting, Instant)>>,
    /// While the node downloads the chain: [`Waiting::NodeDownloads`].
    download: Mutex<Option<Waiting>>,
    depth_max: AtomicU32,
    /// Length of the chain below the fork that a person accepted; [`NOT_ACCEPTED`] otherwise. Set under the lock of
    /// `waiting`.
    accepted: AtomicU32,
    /// Time from one look at the node to the next; without it the node's announcements are waited for.
    look_interval: OnceLock<Duration>,
    /// Time of the last look.
    looked: Mutex<Duration>,
    /// Set if the next look must not wait for the interval.
    is_look_wanted: AtomicBool,
    silence: Mutex<Silence>,
}

const NOT_ACCEPTED: u32 = u32::MAX;
/// The longest sleep before another thread's wish for a look is noticed.
const NAP: Duration = Duration::from_millis(50);
/// Interval at which a reason that lasts is logged again.
const LOG_AGAIN: Duration = Duration::from_mins(5);

impl Following {
    pub(super) fn new(depth_max: u32) -> Self {
        Self {
            waiting: Mutex::default(),
            download: Mutex::default(),
            depth_max: depth_max.into(),
            accepted: NOT_ACCEPTED.into(),
            look_interval: OnceLock::new(),
            looked: Mutex::default(),
            is_look_wanted: AtomicBool::new(false),
            silence: Mutex::default(),
        }
    }

    pub(super) fn waiting(&self) -> Option<Waiting> {
        self.waiting.lock().as_ref().map(|(waiting, _)| waiting.clone())
    }

    /// Returns the state of the node's download, while there is one.
    pub(super) fn download(&self) -> Option<Waiting> {
        self.download.lock().clone()
    }

    /// Notes how far the node's download is.
    pub(super) fn note_download(&self, node: Height, best_header: Height) {
        let state = Waiting::NodeDownloads { node, best_header };
        let mut download = self.download.lock();
        if download.is_none() {
            tracing::info!(%state, "following a node that downloads the chain");
        }
        *download = Some(state);
    }

    /// Notes that the index has all blocks of a node that downloads no more.
    pub(super) fn end_download(&self) {
        if self.download.lock().take().is_some() {
            tracing::info!("the node has downloaded the chain");
        }
    }

    /// Notes that somebody asks the node all the time from now on.
    pub(super) fn begin_node_watch(&self, now: Duration) {
        self.silence.lock().begin(now);
    }

    /// Notes an answer of the node to that.
    pub(super) fn note_node_answer(&self, now: Duration) {
        self.silence.lock().answer(now);
    }

    /// Returns true while the node is silent, as far as somebody asks it.
    pub(super) fn is_node_silent(&self, now: Duration) -> bool {
        self.silence.lock().is_long(now)
    }

    /// Begins or goes on to wait; logs each new kind of reason, and the same one again after [`LOG_AGAIN`].
    pub(super) fn wait(&self, reason: Waiting) {
        let (mut waiting, now) = (self.waiting.lock(), Instant::now());
        let logged = waiting.as_ref().filter(|(before, _)| before.kind() == reason.kind()).map(|(_, logged)| *logged);
        let logged = logged.filter(|logged| now.duration_since(*logged) < LOG_AGAIN);
        match (&reason, logged) {
            (_, Some(_)) => {}
            (Waiting::Failed { message }, None) => {
                tracing::error!(error = message, "failed to index; serving what is known, trying again");
            }
            (reason, None) => tracing::warn!(%reason, "waiting for the node; serving what is known"),
        }
        *waiting = Some((reason, logged.unwrap_or(now)));
    }

    /// Ends the wait.
    pub(super) fn go_on(&self) {
        if self.waiting.lock().take().is_some() {
            tracing::info!("no longer waiting for the node");
        }
    }

    pub(super) fn set_look_interval(&self, interval: Duration) {
        // The first call counts.
        let _ = self.look_interval.set(interval);
    }

    /// Notes a look at the node.
    pub(super) fn looks(&self, now: Duration) {
        *self.looked.lock() = now;
        self.is_look_wanted.store(false, Ordering::Relaxed);
    }

    /// Ends the sleep until the next look.
    pub(super) fn want_look(&self) {
        self.is_look_wanted.store(true, Ordering::Relaxed);
    }

    /// Sleeps until the next look at the node is due or wanted, or `stop` is set. Returns false without an interval.
    pub(super) fn sleeps_between_looks(&self, runtime: &dyn Runtime, stop: &AtomicBool) -> bool {
        let Some(interval) = self.look_interval.get() else { return false };
        tracing::debug!(interval_s = interval.as_secs(), "sleeping until the next look at the node");
        while !stop.load(Ordering::Relaxed) && !self.is_look_wanted.load(Ordering::Relaxed) {
            // Another look meanwhile, as for a signal, begins the interval anew.
            let left = (*self.looked.lock() + *interval).saturating_sub(runtime.now());
            if left.is_zero() {
                break;
            }
            runtime.sleep(left.min(NAP), stop);
        }
        true
    }

    pub(super) fn set_depth_max(&self, blocks: u32) {
        self.depth_max.store(blocks, Ordering::Relaxed);
    }

    pub(super) fn depth_max(&self) -> u32 {
        self.depth_max.load(Ordering::Relaxed)
    }

    /// Accepts the deep reorg that is waited for, or a shallower one; `None` if there is none.
    pub(super) fn accept(&self) -> Option<Waiting> {
        let waiting = self.waiting.lock();
        let (reason, _) = waiting.as_ref()?;
        let Waiting::DeepReorg { fork, .. } = reason else { return None };
        self.accepted.store(fork.0 + 1, Ordering::Relaxed);
        Some(reason.clone())
    }

    /// True if a person accepted a reorg that keeps no more than `shared` blocks.
    pub(super) fn is_accepted(&self, shared: u32) -> bool {
        shared >= self.accepted.load(Ordering::Relaxed)
    }

    /// Forgets the deep reorg that was waited for, and the operator's approval of it: it was followed, or the node has
    /// left it.
    pub(super) fn end_deep_reorg(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.take_if(|(reason, _)| matches!(reason, Waiting::DeepReorg { .. })).is_some() {
            tracing::info!("no longer waiting for the operator's approval of a deep reorg");
        }
        self.accepted.store(NOT_ACCEPTED, Ordering::Relaxed);
    }
}
