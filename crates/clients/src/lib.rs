//! Accounting for clients: their keys, their use of resources, fair turns, and limits as an operator writes them.
//!
//! All protocol servers use this crate; it knows none of their protocols. Suggested reading order: keys of clients
//! (`client_key`, `forwarded`), use of resources (`hold`, `ledger`, `rate`, `slowest`), fair turns (`fair`, `turns`,
//! `places`, `work_queue`), stalls of the disk (`disk_stall`), and the text forms of limits (`bound`, `bounds`).
//!
//! A *client* is an IPv4 address, an IPv6 network or a Tor circuit; it is never logged. Every message and every page is
//! a turn of its client, so a client that floods mostly delays itself. Requests are queued first, and refused only when
//! a rate or a limit of processor time is exceeded. All protocols of a process take the same turns, so nobody has more
//! of them by asking several.
//!
//! # Example
//!
//! A ledger counts the connections of each client and refuses a client that used more than its allowance:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use birdhouse_clients::{Allowance, ClientKeying, Ledger, Origin};
//!
//! let (ledger, now) = (Ledger::default(), Instant::now());
//! let allowance = Allowance { work: Duration::from_secs(10), percent: 50 };
//! let key = ClientKeying::default().key(Origin::of("203.0.113.7".parse()?));
//!
//! let account = ledger.enter(key, 2, now).expect("the first of two connections");
//! account.spend(Duration::from_secs(11), 0, allowance, now);
//! let overdrawn = account.check(allowance, now).expect_err("a second more than allowed");
//! assert_eq!(overdrawn.wait, Duration::from_secs(2));
//! assert!(account.check(allowance, now + overdrawn.wait).is_ok());
//! ledger.leave(&account, allowance, now);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

#![forbid(unsafe_code)]

// Keys of clients.
mod client_key;
mod forwarded;

// Use of resources.
mod hold;
mod ledger;
mod rate;
mod slowest;

// Fair turns.
mod disk_stall;
mod fair;
mod places;
mod turns;
mod work_queue;

// Limits as text.
mod bound;
mod bounds;
mod old_answers;

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;

pub use bound::{Bound, Given};
pub use bounds::row;
pub use client_key::{ClientKey, ClientKeying, Origin, POOL_CLIENTS, is_private};
pub use disk_stall::{BegunRead, DiskStall, ReadWatch};
pub use fair::ClientId;
pub use forwarded::{Forwarding, is_proxy};
pub use hold::{Held, Quota, UsedUp};
pub use ledger::{ACCOUNTS_KEPT, Account, Allowance, HOLDINGS, Ledger, Overdrawn};
pub use old_answers::OldAnswers;
pub use places::{PlaceBounds, Places, TooManyHalfOpen};
pub use rate::{Buckets, Rate};
pub use slowest::{SlowKind, Slowest};
pub use turns::{Payer, Queueing, Turn, Turns, Waiting};
pub use work_queue::{Reservation, WorkQueue, Worker};
