//! Blobs on the local disk, and the index of who owns them.
//!
//! A folder has `blobs.redb` (the index), `files/ab/abcd..` (one file a blob, by its hash) and `incoming` (uploads
//! under way). An upload is written to `incoming`, synced, and renamed; then a transaction of the index adds its row.
//! Only then it counts. A deletion commits first and removes the file after it.
//!
//! Invariants: a row has its file, whatever moment the process is killed at. A file without a row counts nowhere, is
//! never served, and is removed by [`Store::sweep`]. What is in `incoming` when the folder is opened is removed.
//!
//! | file | what is in it |
//! |---|---|
//! | `blob` | blobs, and what a key owns, as values |
//! | `rows` | the tables of the index |
//! | `incoming` | an upload under way |
//! | `reserved` | room for uploads under way |
//! | `disk_store` | the store |
//! | `copies` | a copy of it for a backup |

mod blob;
mod copies;
mod disk_store;
mod incoming;
mod reserved;
mod rows;

pub use self::blob::{Blob, Removed, Swept, Usage};
pub(crate) use self::blob::{ListPage, Stored};
pub use self::copies::Copied;
pub(crate) use self::disk_store::Settling;
pub use self::disk_store::Store;
pub(crate) use self::incoming::Incoming;
pub(crate) use self::reserved::{NoRoom, Quotas, Reservation, Unreserved, Wanted};
