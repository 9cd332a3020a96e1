//! A media store over real sockets: its answers against the rules of the specification, and against clients that stop,
//! lie and flood.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod client;
mod clients_of_npm;
mod owned;
mod ranges;
mod reports;
mod running;
mod stopped;
mod uploads;
