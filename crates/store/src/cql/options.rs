//! Settings of a store on a cluster.

use std::path::PathBuf;
use std::time::Duration;

use super::access::CqlAccess;
use super::address::CqlAddress;

/// Settings of a store on a cluster.
#[derive(Debug, Clone)]
pub struct CqlOptions {
    /// The cluster and the keyspace.
    pub address: CqlAddress,
    /// Encryption of the connections, and the login.
    pub access: CqlAccess,
    /// Name of the store; a keyspace can hold several.
    pub place: String,
    /// Description of this process for people.
    pub owner: String,
    /// A folder of this process for bulk runs, which are sorted on its disk before they are sent.
    pub spool: PathBuf,
    /// Silence after which another process takes over.
    pub lease: Duration,
    /// Time for which rows stay after the last manifest that names them. A reader reads with a manifest for half of it.
    pub grace: Duration,
    /// Memory for records that were read lately, in bytes.
    pub cache_bytes: u64,
}

impl CqlOptions {
    /// Default of [`Self::lease`].
    pub const LEASE: Duration = Duration::from_secs(10);
    /// Default of [`Self::grace`].
    pub const GRACE: Duration = Duration::from_mins(10);
    /// Default of [`Self::cache_bytes`].
    pub const CACHE_BYTES: u64 = 128 << 20;
}
