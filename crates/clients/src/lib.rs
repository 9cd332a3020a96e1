//! What a client may use: whom it is counted for, who is next, and bounds as an operator writes them.
//!
//! Both halves of the house serve strangers and use this; it knows the protocol of neither. Suggested reading order: who a client
//! is (`client_key`, `forwarded`), what it has used (`ledger`, `rate`), who is next (`fair`, `turns`), whether the disk is likely to be
//! waited for (`disk_stall`), and how bounds are written (`bound`, `bounds`).

// Who a client is.
mod client_key;
mod forwarded;

// What it has used, and may use.
mod ledger;
mod rate;

// Who is next, and where.
mod disk_stall;
mod fair;
mod turns;

// Bounds by name.
mod bound;
mod bounds;

pub use bound::{Bound, Given};
pub use bounds::{fixed, row};
pub use client_key::{ClientKey, ClientKeying, PrivateAddresses, is_private};
pub use disk_stall::DiskStall;
pub use fair::ClientId;
pub use forwarded::client_address;
pub use ledger::{ACCOUNTS_KEPT, Account, Allowance, Ledger, Overdrawn};
pub use rate::{Buckets, Rate};
pub use turns::{Payer, Turn, Turns, Waiting};
