//! The explorer over real sockets, on the chain and mempool of a real node: every page against the figures of a model,
//! and in a real browser.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../../silentpayments/tests/silentpayments/model.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod bip352;
mod browser;
#[path = "../../../esplora/tests/esplora/eligible.rs"]
#[expect(dead_code, reason = "the tests of the REST API use all of it")]
mod eligible;
mod fates;
mod http;
mod last_values;
mod lists;
mod pages;
mod scan;
mod silent_payments;
#[path = "../../../electrum/tests/electrum/silent_sender.rs"]
mod silent_sender;
mod wallet;
#[path = "../../../esplora/tests/esplora/world.rs"]
#[expect(dead_code, reason = "the tests of the REST API use all of it")]
mod world;

/// The pages that the world serves.
const PAGES: Option<&birdhouse_esplora::Pages> = Some(&birdhouse_explorer::PAGES);
