//! A synchronization with another relay, with reports on the way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use birdhouse_dial::Guard;
use birdhouse_mirror::{Job, Missing, Peer, SharedTally, WallClock, relay_url, sync};
use birdhouse_relay::{Exchange, Relay};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::files::write_line;
use super::line::{Line, Synced};
use crate::config::SyncRequest;
use crate::services::relay_key;

/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Ids of missing events that wait to be printed.
const LISTED_MAX: usize = 1024;
/// Reports that wait to be written or printed.
pub(crate) const REPORTS_WAITING: usize = 64;
/// Name in the list of connections.
const NAME: &str = "sync";

/// Synchronizes with another relay, with reports on the way; returns how it ended.
///
/// # Errors
/// It could not begin: the request is wrong, or the relay cannot be reached. Or nobody reads the reports any more.
pub(crate) async fn synchronize(
    relay: &Arc<Relay>,
    guard: &Guard,
    request: &SyncRequest,
    reports: mpsc::Sender<Line<Synced>>,
) -> Result<Synced> {
    let plain = |why: String| anyhow!(why);
    let mut job = Job::new(&relay.filter_limits(), request.purpose, &request.filter).map_err(plain)?;
    job = request.since.into_iter().fold(job, Job::since);
    job = request.until.into_iter().fold(job, Job::until);
    let keys = request.key_file.as_deref().map(relay_key::read).transpose()?.map(Arc::new);
    let target = relay_url(&request.url).map_err(plain)?.through(request.proxy);
    let mut peer = Peer::connect(guard, target, keys, WallClock::system()).await.map_err(plain)?;
    let exchange = Arc::new(Exchange::enter(relay, NAME, peer.address.ip()).map_err(plain)?);
    let tally = SharedTally::default();
    let (listed, mut found) = mpsc::channel(LISTED_MAX);
    let working = sync(&exchange, &mut peer, &job, &tally, Some(listed));
    tokio::pin!(working);
    let mut ticks = interval(REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            biased;
            Some(missing) = found.recv() => reports.send(missing_line(missing)).await?,
            ended = &mut working => break ended,
            _ = ticks.tick() => reports.send(Line::Progress(tally.now())).await?,
        }
    };
    while let Ok(missing) = found.try_recv() {
        reports.send(missing_line(missing)).await?;
    }
    Ok(Synced { tally: tally.now(), failure: ended.err() })
}

/// Synchronizes with another relay, and writes the reports as lines of JSON.
///
/// # Errors
/// As [`synchronize`].
pub(in crate::operator) async fn synchronize_over(
    relay: &Arc<Relay>,
    guard: &Guard,
    request: &SyncRequest,
    out: &mut (impl AsyncWrite + Unpin),
) -> Result<Synced> {
    let (reports, mut lines) = mpsc::channel(REPORTS_WAITING);
    // It owns the lines: once the other side is gone, the next report fails and ends the synchronization.
    let writing = async move {
        while let Some(line) = lines.recv().await {
            if write_line(out, &line).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(synchronize(relay, guard, request, reports), writing).0
}

fn missing_line(missing: Missing) -> Line<Synced> {
    Line::Missing(match missing {
        Missing::There(id) => format!("have,{id}"),
        Missing::Here(id) => format!("need,{id}"),
    })
}
