//! Watches of an operator's own wallets: tells people and programs of payments.
//!
//! A *watch* is one wallet, address or script of the file `watches.toml`. The engine follows the updates of the index
//! and writes *notices* into a durable log: a payment was seen, confirmed, replaced, dropped or taken back by a reorg.
//! A *channel* is a way to a person or a program; its outbox delivers each notice at least once.
//!
//! # Folders
//!
//! Each one may use those above it; `limits` and `error` all may use.
//!
//! | folder | what lives there |
//! |---|---|
//! | `file` | `watches.toml`: parse, check, write back |
//! | `notice` | notices, their ids and their line of text |
//! | `invoice` | invoices and labels: terms, states, the reserve of addresses; pure |
//! | `state` | the file `watch-<network>.redb`: log, open transactions, windows, cursor, outbox; one transaction an update |
//! | `wallet` | scripts of a watch: branches, the window of the gap |
//! | `engine` | the difference of what a watch knew and what a snapshot says -> notices |
//! | `channel` | ways to a person: `nostr`, `ntfy`, `webhook`, `mail`, `command` |
//! | `outbox` | when to try again, and one task a channel |
//! | `api` | HTTP for programs, invoices |
//! | `service` | [`Watches`]: opens all, starts tasks, reload, status |

#![forbid(unsafe_code)]

mod error;
pub mod limits;

mod file;
mod invoice;
mod notice;

mod state;

mod wallet;

mod engine;

pub mod channel;

pub mod outbox;

pub mod api;

mod service;

pub use engine::{Engine, WatchView};
pub use error::{Error, Result};
pub use file::{
    ChannelKind, ChannelName, ChannelSettings, Directions, FileError, HealthSettings, InvoiceChange, NewWatch, Source,
    WatchFile, WatchName, WatchSettings,
};
pub use invoice::BeyondGap;
pub use notice::{
    Amounts, Health, InvoiceNotice, Notice, NoticeId, NoticeKind, WatchedInput, WatchedOutput, WatchedScript,
};
pub use service::{Paths, WatchStatus, Watches};
pub use state::State;
