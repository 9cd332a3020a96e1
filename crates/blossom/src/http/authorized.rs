//! The key that a request is authorized by.

use hyper::header::{self, HeaderMap};

use super::reply::Refusal;
use crate::authorization::{Asked, Authorization, Verb};
use crate::hash::BlobHash;
use crate::service::Caller;

/// Checks the authorization of a request.
pub(super) async fn authorization(
    caller: &Caller,
    headers: &HeaderMap,
    verb: Verb,
    hash: Option<BlobHash>,
) -> Result<Authorization, Refusal> {
    // Base64, JSON and a signature take up to some hundred microseconds.
    let _turn = caller.service.settings.reads.processors.take(&caller.meter).await;
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let asked = Asked { verb, hash, address: &caller.address, now: caller.now() };
    Authorization::of(header, asked).map_err(Refusal::unauthorized)
}
