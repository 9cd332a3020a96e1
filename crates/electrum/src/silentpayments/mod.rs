//! Subscriptions to silent payments (BIP 352) by scan key, in the dialect of Frigate, without sockets and clocks.
//!
//! | file | what it has |
//! |---|---|
//! | `access` | the connections that may subscribe |
//! | `cursor` | the blocks that a subscription has scanned, and where its chain left ours |
//! | `sent` | the transactions that a client has received, so that it receives none twice |
//! | `subscription`, `subscriptions` | what is due to one client, and when |
//! | `shared_key` | a scan key that several connections use, and what was found with it |
//! | `registry` | all keys of the server, and the bounds of all subscriptions |
//! | `piece` | the rows of some blocks, scanned slice by slice |
//! | `notification` | a page of found transactions as JSON |
//!
//! A subscription passes through these states. Its request is admitted; its response is put into the outbox
//! (*settled*); the response is *written*; after [`FIRST_NOTIFICATION`] its *history* is scanned, piece by piece, in
//! turn with the other histories of the connection; then it is *live*, and the notifier of the connection scans what
//! each update brings, before it looks at scripts. During the last scan of a history it is *ending*: scripts wait, as
//! what comes meanwhile is scanned once it is live.
//!
//! Keys are in memory only, wiped when the last subscription to them ends, and have no form for a log.
//!
//! [`FIRST_NOTIFICATION`]: subscription::FIRST_NOTIFICATION

mod access;
mod cursor;
mod notification;
mod piece;
mod registry;
mod sent;
mod shared_key;
mod subscription;
mod subscriptions;

pub(crate) use self::access::Access;
pub(crate) use self::cursor::Cursor;
pub(crate) use self::notification::object;
pub(crate) use self::piece::{Piece, find_unconfirmed};
pub(crate) use self::registry::{ClientQuotas, Permits, SilentRegistry};
pub(crate) use self::shared_key::Part;
pub(crate) use self::subscription::{CaughtUp, Entry, Extent, Job, Progress, Shares};
pub(crate) use self::subscriptions::{SilentSubscriptions, Step};
