//! Facts that the checks decide on. Plain values: a test plants any fault.

use std::net::SocketAddr;
use std::path::PathBuf;

use birdhouse_node::KeptBlocks;

use crate::process::users::OtherUser;
use crate::sockets::Validity;

/// Depth of the examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Seconds, however large the index is.
    Quick,
    /// Also reads every block of the index and compares its checksum.
    Checksums,
}

/// Everything that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// The first error of the settings; then nothing else could be looked at.
    pub(super) settings: Result<(), String>,
    /// The configuration file that was read.
    pub(super) file: Option<PathBuf>,
    /// Settings that do nothing or harm.
    pub(crate) warnings: Vec<String>,
    /// The user of the data folder, where that is another one: what it may read and write is not known then.
    pub(super) other_user: Option<OtherUser>,
    /// State of the wallets' half; `None` if it is off.
    pub(crate) bitcoin: Option<Bitcoin>,
    /// State of the derived indexes that are on the disk or in use, by name.
    pub(super) derived: Vec<(&'static str, Store)>,
    /// State of the relay's store; `None` if the relay is off.
    pub(crate) relay: Option<Store>,
    /// The program of the relay's plugin; `None` if there is none, or a shell has to say which one.
    pub(super) plugin: Option<Plugin>,
    /// The watch file, in words, or its mistake; `None` if there is none.
    pub(super) watches: Option<Result<String, String>>,
    /// The media store; `None` if it is off.
    pub(super) media: Option<Media>,
    pub(crate) data_dir: Option<Folder>,
    pub(super) machine: Machine,
    pub(super) ports: Vec<Port>,
    /// Certificates of the listeners with TLS.
    pub(super) certificates: Vec<Certificate>,
}

/// The node and the index.
#[derive(Debug, Clone)]
pub(crate) struct Bitcoin {
    /// `None` where a copy of a node's blocks is served.
    pub(crate) node: Option<Node>,
    /// The source of blocks that would be used, or why there is none.
    pub(super) source: Result<String, String>,
    /// Reasons why cheaper sources would not be used.
    pub(super) skipped: Vec<String>,
    /// Bytes of the index, and those that pruning would free, as a running server knows them.
    pub(super) index_bytes: Option<u64>,
    pub(super) prunable_bytes: Option<u64>,
    /// Bytes of the node's block files, where they can be read.
    pub(super) blocks_bytes: Option<u64>,
    pub(crate) index: Store,
    /// Other networks of which the data folder holds an index.
    pub(super) other_indexes: Option<String>,
    /// Folder of the index; `None` if the network is unknown.
    pub(super) index_dir: Option<PathBuf>,
    /// Height of the index.
    pub(super) height: Option<u32>,
    /// The node has the index's tip in its chain; `None` if unknown.
    pub(super) tip_is_known: Option<bool>,
}

/// The node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(crate) answer: Answer,
    /// Message that the data folder holds another network only.
    pub(super) other_network: Option<String>,
    /// Methods that this login may not call.
    pub(super) forbidden: Vec<&'static str>,
    /// Peers that have all blocks, where it has deleted some; `None` where it has not, or the call is forbidden.
    pub(super) full_peers: Option<usize>,
    /// Where it should publish ZMQ messages, and whether something listens there.
    pub(super) zmq: Option<(String, bool)>,
    /// Message that its chain is not that of its network.
    pub(super) fork: Option<String>,
    /// Warning that RPC crosses a network in the clear.
    pub(super) clear_rpc: Option<String>,
    /// Time of its tip and offset to its peers' clocks, both in seconds.
    pub(super) clock: Option<(u64, i64)>,
}

/// The node's answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Ready {
        user_agent: String,
        height: u32,
        kept: KeptBlocks,
    },
    /// It answers, and is not ready yet.
    Waiting(String),
    /// It answers, and cannot be used as it is.
    Unfit(String),
    /// It does not answer.
    Silent(String),
}

/// A store of the index, of a derived index or of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Store {
    /// Not made yet.
    Absent,
    /// In use by a running server.
    InUse,
    /// Cannot be opened, or a running server reports a failure; the message has the remedy.
    Failing(String),
    /// Opened without an error.
    Whole { bytes: u64 },
    /// Bytes on disk are damaged.
    Damaged { folder: PathBuf, error: String },
}

/// The program of the relay's plugin.
#[derive(Debug, Clone)]
pub(super) struct Plugin {
    pub(super) program: String,
    /// This user can run it.
    pub(super) can_run: bool,
}

/// A folder and the access to it.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Permission bits; `None` if it does not exist.
    pub(super) mode: Option<u32>,
    /// This user can write to it, or create it.
    pub(super) is_writable: bool,
}

/// The folder of the media store, and its disk.
#[derive(Debug, Clone)]
pub(super) struct Media {
    pub(super) folder: Folder,
    pub(super) disk_free_bytes: Option<u64>,
    /// Free bytes below which uploads are refused.
    pub(super) floor_bytes: Option<u64>,
}

/// The machine.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) memory_free_bytes: Option<u64>,
    /// Memory that the first build and the cache take by the settings, bytes.
    pub(super) memory_wanted_bytes: u64,
    /// Bytes of the index for one byte of blocks, in percent, for the chosen profile.
    pub(super) index_percent: u64,
    /// Bound on the temporary files of the build, bytes.
    pub(super) build_temp_bytes: u64,
    pub(super) files_max: u64,
    /// Sum of the bounds on connections.
    pub(super) connections_max: u64,
    /// Seconds since 1970.
    pub(super) now: u64,
}

/// An address to listen on.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(crate) name: String,
    pub(super) addr: SocketAddr,
    pub(super) state: PortState,
}

/// The state of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortState {
    Free,
    /// Something accepts connections there while our server runs.
    Ours,
    Taken,
    Refused(String),
}

/// A certificate.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) listener: String,
    /// `None` for a self-signed one that is not made yet.
    pub(super) validity: Result<Option<Validity>, String>,
}
