//! Bitcoin Core behind the traits that `chain` defines: its files, REST and RPC.
//!
//! The steps of a start: [`NodeConf::find`] locates the node, [`check_node`] checks that it is the right one and ready,
//! and [`open_source`] opens its blocks. A running node is a [`CoreNode`].
//!
//! Deliberately absent: any need for txindex, ZMQ or a wallet. ZMQ is used where it is configured.
//!
//! # Files
//!
//! | file | what lives there |
//! |---|---|
//! | `conf`, `check`, `pruning`, `checkpoints`, `open`, `awaited` | the start: where the node is, whether it is the right one, has the blocks and is of the right chain, where its blocks come from, now or once they are there |
//! | `prune` | deletion of the old blocks of a node that leaves it to us |
//! | `blk`, `xor`, `record` | its block and undo files |
//! | `rest`, `rpc_source`, `remote` | blocks by REST or RPC, where the files are elsewhere |
//! | `fetch` | blocks that a pruned node has removed, brought back from its peers |
//! | `core_node`, `node_view`, `gaps` | the running node: tip, mempool, fees, broadcast, blocks that it lacks |
//! | `http`, `rpc`, `zmq`, `prevout` | the ways to it |
//!
//! # Example
//!
//! Parsing is pure, so a configuration file can be read without a node:
//!
//! ```
//! use birdhouse_node::Conf;
//! use bitcoin::Network;
//!
//! let conf = Conf::parse("chain=regtest\nrpcuser=alice\n[regtest]\nrpcport=18500\n");
//! assert_eq!(conf.network(), Ok(Some(Network::Regtest)));
//! assert_eq!(conf.get(Network::Regtest, "rpcport"), Some("18500"));
//! assert_eq!(conf.get(Network::Regtest, "rpcuser"), Some("alice"));
//! assert_eq!(conf.get(Network::Bitcoin, "rpcport"), None);
//! ```

#![forbid(unsafe_code)]

mod awaited;
mod blk;
mod calls;
mod check;
mod checkpoints;
mod conf;
mod core_node;
mod error;
mod fetch;
mod gaps;
mod header_json;
mod http;
mod node_view;
mod open;
mod prevout;
mod prune;
mod pruning;
pub mod record;
mod remote;
mod rest;
mod rpc;
mod rpc_source;
mod text;
mod xor;
mod zmq;

pub use awaited::AwaitedSource;
pub use blk::{BlockFiles, BlockHead};
pub use calls::CallCounts;
pub use check::{NodeFacts, announced_ports, check_node};
pub use checkpoints::forked_chain;
pub use conf::{Auth, Conf, NodeConf, NodeOptions};
pub use core_node::CoreNode;
pub use fetch::{FETCH_FLOOR_BYTES, FetchCounters, FetchCounts, Fetching, full_peers};
pub use open::{Chosen, open_source};
pub use prune::{NodeDisk, PruneBounds, PrunePlan, prune_blocks};
pub use pruning::{KeptBlocks, PruneMode};
pub use rest::RestSource;
pub use rpc::Rpc;
pub use rpc_source::RpcSource;
pub use xor::XorKey;
pub use zmq::ZmqSequence;

/// Entry points for the fuzz targets of block files and ZMQ messages; no part of the interface.
#[doc(hidden)]
pub mod fuzzing {
    /// Parses bytes as a ZMQ message of the node.
    pub fn zmq(bytes: &[u8]) {
        crate::zmq::fuzz(bytes);
    }

    use crate::BlockHead;
    use crate::XorKey;
    use crate::record::{RecordKind, Records, Window, Zeros};

    /// A magic that a fuzzer finds quickly.
    const MAGIC: [u8; 4] = *b"magi";
    /// A small window, so that it moves often.
    const WINDOW_BYTES: usize = 32;

    /// Scans bytes as a block file and as an undo file, plain and obfuscated. Asserts that every record lies behind the
    /// previous one and inside the file.
    pub fn records(file: &[u8]) {
        let _ = BlockHead::parse(file);
        for key in [XorKey::default(), XorKey::new([1, 0, 2, 0xff, 0, 0, 7, 9])] {
            for kind in [RecordKind::block(MAGIC), RecordKind::undo(MAGIC)] {
                for zeros in [Zeros::End, Zeros::Skip] {
                    scan(file, key, kind, zeros);
                }
            }
        }
    }

    fn scan(file: &[u8], key: XorKey, kind: RecordKind, zeros: Zeros) {
        let window = Window::new(file, key, WINDOW_BYTES);
        let mut records = Records::new(window, kind, zeros, 0).expect("a slice can be read");
        let mut end = 0;
        while let Some(record) = records.advance().expect("a slice can be read") {
            assert!(record.offset >= end, "records overlap");
            end = record.offset + u64::from(record.size) + u64::from(kind.trailer);
            assert!(end <= file.len() as u64, "a record goes beyond its file");
        }
        assert!(records.resume() <= file.len() as u64);
    }
}
