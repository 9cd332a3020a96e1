//! The numbers and hashes that name transactions, blocks and scripts, and the keys of rows made of them.
//!
//! Every folder may use it; it uses nothing of this crate.

mod address;
mod prefix;
mod profile;
mod scripthash;
mod sha;
mod touched;
mod txnum;

pub use self::address::read_address;
pub use self::prefix::Secret;
pub(crate) use self::prefix::{KeyLength, Keyer, ScriptKey};
pub use self::profile::Profile;
pub use self::scripthash::{InvalidScriptHash, ScriptHash};
pub(crate) use self::sha::sha256_many;
pub use self::sha::{Hash256, sha256d, sha256d_many};
pub use self::touched::Touched;
pub(crate) use self::touched::TouchedScripts;
pub use self::txnum::{Height, TxNum};
