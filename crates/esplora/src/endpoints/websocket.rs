//! `/v1/ws`: the WebSocket of mempool's server.

use super::{Media, Route};
use crate::wire::{Answer, Cache, Content, Reply};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] =
    &[Route::get("/v1/ws", Lane::Memory, websocket, "A WebSocket for changes of blocks, addresses and transactions.")
        .with(Media::WebSocket)];

#[expect(clippy::unnecessary_wraps, reason = "as the other endpoints")]
fn websocket(_: &Question<'_>) -> Answer {
    Ok(Reply::new(Content::WebSocket, Cache::NoStore))
}
