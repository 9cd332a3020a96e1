//! Records of the mempool for the history, one a minute.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_net::offload;
use tokio::time::sleep;

use crate::clock;
use crate::fees::{NodeUse, ProjectedBlock};
use crate::history::{History, Record};
use crate::service::Service;

/// Seconds between two records.
const INTERVAL_S: u64 = 60;
/// Pause while the index is built or the node does not answer.
const PAUSE: Duration = Duration::from_secs(10);

/// Adds records for as long as it is polled, at the beginning of each minute.
pub(crate) async fn keep(service: Arc<Service>) {
    loop {
        let pause =
            if offload(|| add(&service)) { Duration::from_secs(INTERVAL_S - clock::now() % INTERVAL_S) } else { PAUSE };
        sleep(pause).await;
    }
}

/// Adds the record of this moment; returns false without a mempool or an answer of the node.
pub(crate) fn add(service: &Service) -> bool {
    let Some((history, record)) = service.settings.history.as_ref().zip(record(service)) else { return false };
    write(history, &record);
    true
}

fn write(history: &History, record: &Record) {
    if let Err(error) = history.add(record) {
        tracing::warn!(%error, "failed to write the history of the mempool");
    }
}

fn record(service: &Service) -> Option<Record> {
    let at = service.index.snapshot().ok()?;
    let lowest_rate = service.fees.minimum(service.node().ok()?, NodeUse::Turn).ok()?.value;
    let (mempool, projection) = (at.mempool(), service.projections.of(&at));
    let mut record = Record {
        time: u32::try_from(clock::now()).ok()?,
        transactions: u32::try_from(mempool.len()).unwrap_or(u32::MAX),
        weight: 0,
        fees: mempool.fees(),
        lowest_rate,
        next_rate: projection.blocks.first().map_or(0.0, ProjectedBlock::median),
        vbytes: [0; _],
    };
    for found in mempool.transactions() {
        record.weight += found.weight;
        // The projection may be some seconds older than the mempool.
        if let Some(place) = projection.place(&found.txid) {
            record.add(place.rate, found.adjusted_vsize());
        }
    }
    Some(record)
}
