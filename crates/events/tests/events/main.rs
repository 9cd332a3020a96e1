//! The event store as a whole, against a naive model, and across power cuts.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cost;
mod damaged;
mod followed;
mod model;
mod online;
mod power_cut;
mod reopened;
mod retained;
mod search;
mod space;
mod work;
mod world;
