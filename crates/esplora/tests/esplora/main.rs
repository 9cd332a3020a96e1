//! The REST API over real sockets, on the chain and mempool of a real node: every endpoint against values that a model
//! and Core compute from the blocks, and against clients of other people.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod client;
mod compare;
mod damaged;
mod eligible;
mod events;
mod filters;
mod genesis;
mod history;
mod http;
mod internal;
mod mining;
mod model;
mod npm;
mod openapi;
mod remote;
mod replacements;
mod room;
mod silent_node;
mod tweaks;
mod v1;
mod websocket;
mod work;
mod world;
mod wrong;

#[path = "../../../silentpayments/tests/silentpayments/model.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod bip352;

/// No pages beside the API.
const PAGES: Option<&birdhouse_esplora::Pages> = None;
