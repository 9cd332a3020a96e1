//! An answer of any length, at its pace: it holds turns, is charged while it runs, and gives its turns back when other
//! clients wait for them.
//!
//! It ends early when it has waited among too many others (`service::paused`). The answer to a question ends also when
//! its client has gone, or has used its share.
//!
//! It runs in a task of its own, for its connection notices only then that the client leaves. While it waits it keeps
//! its thread, so few may wait.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::{Pace, paced};
use birdhouse_clients::{BegunRead, Queueing};
use birdhouse_net::{Meter, ReadTurns, can_wait_offloaded, offload, wait_offloaded};
use tokio::select;
use tokio::sync::oneshot;

use crate::service::Service;
use crate::wire::{Answer, Failure};

/// The server's end of a channel through which nothing is sent: it is closed when the client is gone.
pub(super) type Departure = oneshot::Sender<Infallible>;

/// The reason why an answer ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Its client has gone.
    Gone,
    /// Its client has used its share.
    Overdrawn { wait: Duration },
    /// Too many others waited, and it had worked for longest.
    Crowded,
}

impl Service {
    /// Does a read of any length, while others take over the thread's other tasks. It may fail with
    /// [`birdhouse_chain::Error::Cancelled`] when too many answers wait.
    pub(crate) async fn offloaded<T>(self: &Arc<Self>, meter: &Arc<Meter>, read: impl FnOnce() -> T) -> T {
        let turns = self.reads.long_turns(meter, Queueing::Last).await;
        offload(|| LongRead::new(self, meter, turns, None).run(read).0)
    }

    /// Answers a question of any length, unless its client leaves or uses up its share.
    pub(crate) async fn answered(
        self: &Arc<Self>,
        meter: &Arc<Meter>,
        mut departure: Departure,
        answer: impl FnOnce() -> Answer,
    ) -> Answer {
        let turns = select! {
            turns = self.reads.long_turns(meter, Queueing::Last) => turns,
            () = departure.closed() => return Err(Ended::Gone.into()),
        };
        let (answer, ended) = offload(|| LongRead::new(self, meter, turns, Some(departure)).run(answer));
        match ended {
            Some(ended) => answer.map_err(|_| ended.into()),
            None => answer,
        }
    }
}

/// A long read while it runs, on its thread.
struct LongRead {
    service: Arc<Service>,
    meter: Arc<Meter>,
    /// `None` once it has ended.
    turns: Option<ReadTurns>,
    watch: BegunRead,
    since: Instant,
    /// Time worked before `since`.
    worked: Duration,
    departure: Option<Departure>,
    ended: Option<Ended>,
}

impl LongRead {
    fn new(service: &Arc<Service>, meter: &Arc<Meter>, turns: ReadTurns, departure: Option<Departure>) -> Self {
        Self {
            service: Arc::clone(service),
            meter: Arc::clone(meter),
            turns: Some(turns),
            watch: BegunRead::begin(),
            since: Instant::now(),
            worked: Duration::ZERO,
            departure,
            ended: None,
        }
    }

    fn run<T>(self, read: impl FnOnce() -> T) -> (T, Option<Ended>) {
        let this = Rc::new(RefCell::new(self));
        let answer = paced(Rc::<RefCell<Self>>::clone(&this), read);
        let mut this = this.borrow_mut();
        this.put_down();
        (answer, this.ended)
    }

    /// Gives the turns back.
    fn put_down(&mut self) {
        if self.turns.take().is_some() {
            self.worked += self.since.elapsed();
            self.service.reads.end_long(&self.watch);
        }
    }

    /// Waits for turns.
    fn pause(&mut self) -> Result<(), Ended> {
        self.put_down();
        let service = Arc::clone(&self.service);
        let (meter, departure) = (&self.meter, &mut self.departure);
        let turns = wait_offloaded(async {
            let mut paused = service.paused.enter(self.worked);
            select! {
                turns = service.reads.long_turns(meter, Queueing::First) => Ok(turns),
                () = paused.ended() => Err(Ended::Crowded),
                () = gone(departure) => Err(Ended::Gone),
            }
        })?;
        (self.turns, self.since) = (Some(turns), Instant::now());
        self.watch = BegunRead::begin();
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Ended> {
        let now = Instant::now();
        let Some(turns) = &mut self.turns else { return self.ended.map_or(Ok(()), Err) };
        turns.charge(now);
        if let Some(departure) = &self.departure {
            if departure.is_closed() {
                return Err(Ended::Gone);
            }
            self.meter.check(now).map_err(|overdrawn| Ended::Overdrawn { wait: overdrawn.wait })?;
        }
        if turns.are_wanted() && can_wait_offloaded() { self.pause() } else { Ok(()) }
    }
}

impl Pace for LongRead {
    fn step(&mut self) -> ControlFlow<()> {
        match self.go_on() {
            Ok(()) => ControlFlow::Continue(()),
            Err(ended) => {
                self.put_down();
                self.ended = Some(ended);
                ControlFlow::Break(())
            }
        }
    }
}

/// Waits until the client is gone; for ever, if that does not matter.
async fn gone(departure: &mut Option<Departure>) {
    match departure {
        Some(departure) => departure.closed().await,
        None => std::future::pending().await,
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Overdrawn { wait } => Self::TooMany { seconds: wait.as_secs() + 1 },
            Ended::Crowded => Self::crowded(),
            // Nobody reads it.
            Ended::Gone => Self::unavailable("the client has gone"),
        }
    }
}
