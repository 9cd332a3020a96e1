//! The process that stores the events of a relay on a cluster, as its front ends reach it: over HTTP, at the listener
//! for replicas of whichever process holds the lease.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use birdhouse_relay::{FeedOffset, RelayWriter};

use crate::cluster::follow::failure::Failure;
use crate::cluster::follow::primary::{Primary, Timeouts};
use crate::config::{Options, secrets};

/// Time limits: the feed answers within a second, events after a publish, which waits long where a node is gone.
const FEED: Timeouts = Timeouts { connect: Duration::from_secs(2), answer: Duration::from_secs(4) };
const EVENTS: Timeouts = Timeouts { connect: Duration::from_secs(2), answer: Duration::from_secs(40) };

/// The processes of which one stores the events. The others wait for its lease, and do not listen.
pub(crate) struct RemoteWriter {
    candidates: Vec<Candidate>,
    /// Index of the one that answered last.
    last: AtomicUsize,
}

struct Candidate {
    feed: Primary,
    events: Primary,
}

// === impl RemoteWriter ===

impl RemoteWriter {
    /// Returns a client of the `relay-writer` of the settings. It sends nothing yet.
    ///
    /// # Errors
    /// An address is none of HTTP, or the file of the secret cannot be read.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let secret = secrets::of_replicas(options)?;
        let candidate = |url: &String| {
            let client = |timeouts| Primary::with_timeouts("relay-writer", url, secret.as_deref(), timeouts);
            Ok(Candidate { feed: client(FEED)?, events: client(EVENTS)? })
        };
        let candidates = options.relay_writer.iter().flatten().map(candidate).collect::<Result<_>>()?;
        Ok(Self { candidates, last: AtomicUsize::new(0) })
    }

    /// Asks the one that answered last, then the others.
    fn ask<T>(&self, ask: impl Fn(&Candidate) -> Result<T, Failure>) -> Result<T, String> {
        let first = self.last.load(Ordering::Relaxed);
        let mut failure = "no relay-writer is set".to_owned();
        for number in 0..self.candidates.len() {
            let index = (first + number) % self.candidates.len();
            match ask(&self.candidates[index]) {
                Ok(answer) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => failure = error.to_string(),
            }
        }
        Err(failure)
    }
}

impl RelayWriter for RemoteWriter {
    fn store(&self, events: &[u8]) -> Result<Vec<u8>, String> {
        self.ask(|candidate| candidate.events.store_events(events))
    }

    fn feed(&self, after: FeedOffset) -> Result<Option<Vec<u8>>, String> {
        self.ask(|candidate| candidate.feed.feed(after))
    }
}
