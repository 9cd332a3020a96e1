//! Events as lines of JSON, one event a line, over the control socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use birdhouse_events::Filter;
use birdhouse_mirror::SharedTally;
use birdhouse_relay::{Exchange, Relay};
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::line::{Imported, Line};

/// Lines that are stored together.
const LINES: usize = 1024;
/// Bytes of these lines; the last one may go beyond.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of one line.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Stores events that come as lines, until the other side has no more. Writes reports on the way.
///
/// # Errors
/// The other side is gone, or a line is too long. What came before is stored.
pub(in crate::operator) async fn import(
    relay: &Arc<Relay>,
    lines: &mut (impl AsyncBufRead + Unpin),
    out: &mut (impl AsyncWrite + Unpin),
) -> Result<Imported> {
    let exchange = enter(relay, "import")?;
    let (tally, mut invalid, mut reported) = (SharedTally::default(), 0, Instant::now());
    loop {
        let batch = next_lines(lines).await?;
        if batch.is_empty() {
            break;
        }
        for taken in exchange.take(&batch, &Filter::default()).await {
            invalid += u64::from(tally.took(taken));
        }
        if reported.elapsed() >= REPORT_INTERVAL {
            write_line(out, &Line::<Imported>::Progress(tally.now())).await?;
            reported = Instant::now();
        }
    }
    Ok(Imported { tally: tally.now(), invalid, events: relay.overview().live_events })
}

/// Writes all events as lines, newest first.
///
/// # Errors
/// The other side is gone, or the store has failed.
pub(in crate::operator) async fn export(relay: &Arc<Relay>, out: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    let exchange = enter(relay, "export")?;
    let (mut from, mut lines) = (None, Vec::new());
    loop {
        lines.clear();
        from = exchange.lines(from, &mut lines).await.map_err(|why| anyhow!(why))?;
        out.write_all(&lines).await?;
        if from.is_none() {
            return Ok(());
        }
    }
}

fn enter(relay: &Arc<Relay>, name: &str) -> Result<Exchange> {
    Exchange::enter(relay, name, std::net::Ipv4Addr::LOCALHOST.into()).map_err(|why| anyhow!(why))
}

/// Reads lines until a batch is full, or there are no more.
async fn next_lines(lines: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<String>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < LINES && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        let read = (&mut *lines).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).await?;
        if read == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            bail!("failed to import a line: it has more than {LINE_BYTES_MAX} bytes; is it a file of events?");
        }
        bytes += read;
        // A text that is no event is refused and counted.
        let line = String::from_utf8_lossy(&line);
        if !line.trim_end().is_empty() {
            batch.push(line.trim_end().to_owned());
        }
        if batch.is_empty() {
            bytes = 0;
        }
    }
    Ok(batch)
}

/// Writes a line of JSON.
pub(super) async fn write_line<T: Serialize>(out: &mut (impl AsyncWrite + Unpin), line: &Line<T>) -> Result<()> {
    out.write_all((serde_json::to_string(line)? + "\n").as_bytes()).await?;
    Ok(())
}
