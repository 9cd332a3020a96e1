//! The endpoints, one file per subject.

mod blindbit;
mod block_dn;
mod blocks;
mod broadcast;
mod events;
mod internal;
mod mempool;
mod openapi;
mod replacements;
mod schemas;
mod scripts;
mod statistics;
mod transactions;
mod tweak_files;
pub(crate) mod v1;
mod websocket;

use axum::http::Method;
use birdhouse_chain::{PageList, ResolvedTransaction};

use crate::wire::{Answer, Cache, Content, Json, Reply, TransactionJson};
use crate::work::{Endpoint, Lane, Question};

/// One endpoint.
#[derive(Debug)]
pub struct Route {
    pub(crate) method: Method,
    /// Its path, with the names of parts in braces.
    pub(crate) path: &'static str,
    pub(crate) lane: Lane,
    pub(crate) endpoint: Endpoint,
    pub(crate) media: Media,
    /// Its answer in a sentence.
    pub(crate) summary: &'static str,
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// Plain text.
    Text,
    /// Bytes.
    Bytes,
    /// Server-Sent Events.
    Events,
    /// Messages of a WebSocket.
    WebSocket,
}

impl Route {
    /// An endpoint for GET.
    pub const fn get(path: &'static str, lane: Lane, endpoint: Endpoint, summary: &'static str) -> Self {
        Self { method: Method::GET, path, lane, endpoint, media: Media::Json, summary }
    }

    /// An endpoint for POST.
    pub const fn post(path: &'static str, lane: Lane, endpoint: Endpoint, summary: &'static str) -> Self {
        Self { method: Method::POST, path, lane, endpoint, media: Media::Json, summary }
    }
}

impl Route {
    /// Returns its method, such as `GET`.
    pub fn method(&self) -> &str {
        self.method.as_str()
    }

    /// Returns its path, with the names of parts in braces.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Returns its answer in a sentence.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Sets the form of its answer.
    const fn with(mut self, media: Media) -> Self {
        self.media = media;
        self
    }
}

/// Returns the endpoints of compact block filters.
pub(crate) fn of_filters() -> impl Iterator<Item = &'static Route> {
    block_dn::ROUTES.iter()
}

/// Returns the endpoints of silent payments.
pub(crate) fn of_silent_payments() -> impl Iterator<Item = &'static Route> {
    [tweak_files::ROUTES, blindbit::ROUTES].into_iter().flatten()
}

/// Returns every endpoint of public listeners.
pub fn all() -> impl Iterator<Item = &'static Route> {
    [
        blocks::ROUTES,
        transactions::ROUTES,
        scripts::ROUTES,
        mempool::ROUTES,
        broadcast::ROUTES,
        events::ROUTES,
        websocket::ROUTES,
        v1::ROUTES,
        replacements::ROUTES,
        statistics::ROUTES,
        openapi::ROUTES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the endpoints that only private listeners have, too.
pub(crate) fn internal() -> impl Iterator<Item = &'static Route> {
    internal::ROUTES.iter()
}

/// A list of transactions, read in portions, and each made as it is written.
fn transactions_json(question: &Question<'_>, mut list: PageList, mut cache: Cache) -> Answer {
    let (mut json, mut separator) = (Json::new(question.room), "[");
    loop {
        let portion = question.at.next_portion(&mut list)?;
        if portion.is_empty() {
            break;
        }
        let _lent = question.room.lend(portion.iter().map(ResolvedTransaction::bytes).sum())?;
        for found in &portion {
            cache = cache.of(found);
            json.text(std::mem::replace(&mut separator, ","))?;
            json.value(&TransactionJson::of(question.at, found, question.network()))?;
        }
    }
    json.text(if separator == "[" { "[]" } else { "]" })?;
    Ok(Reply::new(Content::Json(json.into_bytes()), cache))
}
