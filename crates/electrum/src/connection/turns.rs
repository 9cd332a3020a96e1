//! Work for one client in turns of long reads, on threads that may wait for the disk: scans for silent payments, and
//! streams of tweaks. The client pays for the time, and its own requests go first.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Error;
use birdhouse_chain::source::BlockPart;
use birdhouse_clients::{BegunRead, Queueing};
use birdhouse_silentpayments::wipe_stack;
use tokio::task::spawn_blocking;
use tracing::error;

use crate::client::Client;
use crate::service::Service;

/// Pause before work on blocks that the index does not cover is tried again.
pub(super) const BEHIND: Duration = Duration::from_secs(1);
/// Pause before failed work is tried again.
pub(super) const FAILED: Duration = Duration::from_secs(10);
/// Percent of [`Limits::client_work`](crate::Limits::client_work) that such work uses up; the rest is for requests.
pub(super) const WORK_PERCENT: u32 = 50;

/// State of work that is done in several turns.
pub(super) enum Work<T, R> {
    Left(T),
    Done(R),
}

/// Work that has failed.
pub(super) enum Failure {
    /// The log has the cause.
    Logged,
    /// It needs parts of blocks that the node has removed.
    Removed(Vec<BlockPart>),
}

/// Returns true if work must give its turns back, or end.
pub(super) type IsOver<'a> = &'a dyn Fn() -> bool;

/// Does the parts of some work; `None` once it is cancelled. The stack of each part, which may have held keys, is
/// wiped.
pub(super) async fn in_turns<T: Send + 'static, R: Send + 'static>(
    service: &Arc<Service>,
    client: &Client,
    is_cancelled: impl Fn() -> bool + Clone + Send + 'static,
    mut state: T,
    mut part: impl FnMut(T, IsOver<'_>) -> birdhouse_chain::Result<Work<T, Option<R>>> + Send + 'static,
) -> Result<Option<R>, Failure> {
    loop {
        // Last: the client's own requests go first.
        let turns = service.reads.long_turns(&client.meter, Queueing::Last).await;
        let (reads, is_over) = (Arc::clone(&service.reads), is_cancelled.clone());
        let working = spawn_blocking(move || {
            let began = BegunRead::begin();
            let result = part(state, &|| is_over() || turns.are_wanted());
            wipe_stack();
            reads.end_long(&began);
            drop(turns);
            (result, part)
        });
        let (result, again) = working.await.map_err(|_| {
            error!("work of a connection panicked");
            Failure::Logged
        })?;
        match result {
            Ok(Work::Done(result)) => return Ok(result.filter(|_| !is_cancelled())),
            Ok(Work::Left(_)) if is_cancelled() => return Ok(None),
            Ok(Work::Left(left)) => (state, part) = (left, again),
            Err(Error::Removed { parts }) => return Err(Failure::Removed(parts)),
            Err(error) => {
                error!(%error, "work of a connection failed");
                return Err(Failure::Logged);
            }
        }
    }
}
