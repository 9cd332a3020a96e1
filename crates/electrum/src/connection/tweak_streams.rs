//! Streams of tweaks of one client: after the reply, which has the first block, a notification for each other one.
//!
//! Blocks are read in turns of long reads. A client that does not read gets no more, and pays for the time of its
//! streams as for its requests; they pause before they use up what these need. Each part is of the chain at its time:
//! after a reorg the blocks above the fork are sent again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use birdhouse_chain::{Error, Height, Snapshot};
use tokio::time::sleep;

use crate::client::{Client, TWEAKS_DUE};
use crate::connection::turns::{BEHIND, FAILED, Failure, WORK_PERCENT, Work, in_turns};
use crate::methods::tweaks;
use crate::protocol::{TweakForm, TweakStream};
use crate::service::Service;
use crate::silentpayments::Cursor;
use crate::tweaks::{TweakBlock, done, notification};

/// Bytes of blocks that are made before they are sent, unless one has more.
const PART_BYTES: usize = 256 << 10;

/// Ends the work on threads when the connection stops listening.
#[derive(Default)]
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends streams whenever there are any, until the client has gone.
pub(super) async fn run(service: &Arc<Service>, client: &Client) {
    loop {
        client.signals.raised(TWEAKS_DUE).await;
        // Few clients have any: its state is not part of every connection's.
        if Box::pin(send_all(service, client)).await.is_none() {
            return;
        }
    }
}

/// Sends the streams that wait; `None` if the client has gone.
async fn send_all(service: &Arc<Service>, client: &Client) -> Option<()> {
    let ending = Ending::default();
    loop {
        let next = client.state().tweaks.next();
        let Some(stream) = next else { return Some(()) };
        send(service, client, stream, &ending).await?;
        client.state().tweaks.end();
    }
}

/// Sends a stream; `None` if the client has gone.
async fn send(service: &Arc<Service>, client: &Client, stream: TweakStream, ending: &Ending) -> Option<()> {
    let mut cursor = Cursor::after(stream.start, stream.first);
    loop {
        if !client.room(Instant::now()).await {
            return None;
        }
        if let Err(overdrawn) = client.meter.check_percent(WORK_PERCENT, Instant::now()) {
            sleep(overdrawn.wait).await;
            continue;
        }
        let Ok(at) = service.index.snapshot() else {
            sleep(BEHIND).await;
            continue;
        };
        let hash_at = |height: u32| at.block_hash(Height(height));
        let (next, end) = (cursor.next_on(stream.start, hash_at), stream.end.min(at.tip().height.0 + 1));
        if next >= end {
            client.push_notification(done());
            return Some(());
        }
        match part(service, client, &at, stream.form, next..end, ending).await {
            Ok(Some(part)) => {
                part.lines.into_iter().for_each(|line| client.push_notification(line));
                cursor = Cursor::at(part.end, hash_at);
            }
            Ok(None) => sleep(BEHIND).await,
            Err(Failure::Removed(parts)) if service.fetch_removed(client, &parts).await => {}
            Err(_) => sleep(FAILED).await,
        }
    }
}

/// Consecutive blocks of a stream.
struct Part {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Height after the last of them.
    end: u32,
}

/// Makes the next part of a stream; `None` if the index does not cover the first block.
async fn part(
    service: &Arc<Service>,
    client: &Client,
    at: &Arc<Snapshot>,
    form: TweakForm,
    heights: Range<u32>,
    ending: &Ending,
) -> Result<Option<Part>, Failure> {
    let Some(tweaks) = tweaks::tweaks(service) else { return Ok(None) };
    let (at, ended) = (Arc::clone(at), Arc::clone(&ending.0));
    let is_cancelled = move || ended.load(Ordering::Relaxed);
    let part = Part { lines: Vec::new(), bytes: 0, end: heights.start };
    in_turns(service, client, is_cancelled, (part, None::<TweakBlock>), move |(mut part, begun), is_over| {
        let mut begun = begun;
        while part.end < heights.end && part.bytes < PART_BYTES {
            let block = match begun.take() {
                Some(block) => Some(block),
                None => TweakBlock::read(form, &tweaks, &at, part.end)?,
            };
            let Some(mut block) = block else { break };
            match block.advance(&at, is_over) {
                Ok(true) => {}
                Ok(false) => return Ok(Work::Left((part, Some(block)))),
                // The lines before it are sent first: the next part begins with this block.
                Err(Error::Removed { .. }) if !part.lines.is_empty() => break,
                Err(error) => return Err(error),
            }
            let line = notification(&block.finish());
            part.bytes += line.len();
            part.lines.push(line);
            part.end += 1;
            if is_over() {
                break;
            }
        }
        Ok(Work::Done((!part.lines.is_empty()).then_some(part)))
    })
    .await
}
