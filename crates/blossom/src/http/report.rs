//! `PUT /report`: a report of blobs (BUD-09), which the store's owner gets.

use std::time::Instant;

use birdhouse_events::{Event, Kind};
use birdhouse_net::{BodyError, read_body};
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::reply::{Answer, Refusal, empty};
use crate::access::{Denied, Report};
use crate::hash::BlobHash;
use crate::limits::{REPORT_BYTES, REPORT_TIMEOUT};
use crate::service::Caller;
use crate::store::Store;

/// Kind of a report (NIP-56).
const REPORT: Kind = Kind(1984);

/// Takes a report of a blob that is stored.
pub(super) async fn report(caller: &Caller, body: &mut Incoming) -> Answer {
    check_rate(caller)?;
    let body = read(body).await?;
    caller.meter.received(body.len(), 0);
    let turn = caller.service.settings.reads.processors.take(&caller.meter).await;
    let event = parse(&body)?;
    let hashes: Vec<_> = event.values("x").filter_map(BlobHash::parse).collect();
    if hashes.is_empty() {
        return Err(Refusal::bad_request("the report has no x tag with the hash of a blob"));
    }
    drop(turn);
    if !caller.on_disk(|store| is_any_stored(store, &hashes)).await? {
        return Err(Refusal::not_found());
    }
    let turn = caller.service.settings.reads.processors.take(&caller.meter).await;
    let event = event.verify().map_err(|rejection| Refusal::bad_request(rejection.to_string()))?;
    drop(turn);
    let report = Report { event, from: caller.meter.address };
    let denied = |Denied(reason)| Refusal::new(StatusCode::FORBIDDEN, reason);
    caller.service.operator.report(report).await.map_err(denied)?;
    Ok(empty(StatusCode::OK))
}

async fn read(body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    match timeout(REPORT_TIMEOUT, read_body(body, REPORT_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BodyError::TooLong)) => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a report may have {REPORT_BYTES} bytes")))
        }
        Ok(Err(BodyError::Broken)) => Err(Refusal::bad_request("the body is broken")),
        Err(_) => Err(Refusal::too_slow()),
    }
}

fn parse(body: &[u8]) -> Result<Event, Refusal> {
    let text = str::from_utf8(body).map_err(|_| Refusal::bad_request("the body is no event"))?;
    let event = Event::from_json(text).map_err(|malformed| Refusal::bad_request(malformed.rejection.to_string()))?;
    if event.kind == REPORT { Ok(event) } else { Err(Refusal::bad_request("the event is not of kind 1984")) }
}

fn check_rate(caller: &Caller) -> Result<(), Refusal> {
    let Some(reporters) = &caller.service.reporters else { return Ok(()) };
    let taken = reporters.lock().take(caller.meter.client(), Instant::now());
    taken.map_err(|wait| Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many reports").retry_after(wait))
}

fn is_any_stored(store: &Store, hashes: &[BlobHash]) -> crate::Result<bool> {
    for hash in hashes {
        if store.blob(*hash)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
