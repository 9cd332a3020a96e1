//! The state of the server for its operator: one value, [`Status`], that `birdhouse ctl status`, the dashboard and
//! `birdhouse top` show.
//!
//! Invariants: nothing here reads a clock, a file or a socket; a status holds counts, and neither addresses of clients
//! nor what they ask for. Of events, only those that others have reported are shown; of wallets, only the operator's
//! own, on a page of their own.
#![forbid(unsafe_code)]

mod advice;
mod status;

// Web pages.
mod audit_page;
mod control_page;
mod reports_page;
mod site;
mod status_page;
mod watches_page;

// The terminal.
#[cfg(any(feature = "top", test))]
mod top;

pub use advice::warnings;
pub use audit_page::{Audit, AuditLine, audit_page};
pub use control_page::{
    Commands, ConnectionLine, Control, FormPage, Outcome, control_page, outcome_page, refusal_page,
};
pub use reports_page::{DecidedLine, Decision, Named, ReportedLine, Reports, reports_page};
pub use site::SCRIPT;
pub use status::{
    Bitcoin, Build, Derived, Endpoint, Link, Phase, Protocol, Rate, Refusals, Relay, SetAside, SlowKind, Status,
    Stream, Subject, TableSize, Warning, Watched,
};
pub use status_page::status_page;
#[cfg(feature = "top")]
pub use top::{Top, frame_text};
pub use watches_page::{ChannelLine, WatchLine, Watches, watches_page};
