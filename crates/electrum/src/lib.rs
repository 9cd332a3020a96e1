//! The Electrum protocol for wallets: JSON messages over TCP, TLS and WebSocket, answered from one snapshot of the
//! index.
//!
//! A message passes through these folders:
//!
//! | folder | what lives there |
//! |---|---|
//! | `connection` | everything before the first message, both directions of the socket, and notifications |
//! | `protocol`, `request` | JSON to a `Request`; JSON ends there |
//! | `silentpayments` | subscriptions by scan key: state, and scanning of rows |
//! | `tweaks` | tweaks for wallets that scan by themselves: coding, and the streams of a connection |
//! | `client` | the state of one connection, which admits the request, and its subscriptions |
//! | `job` | runs it, off the async threads unless it is short |
//! | `methods` | one function each, from a snapshot or the node to an `Answer` |
//! | `response` | an `Answer` as a line of JSON, which the outbox of `birdhouse-net` carries to the socket |
//! | `service` | what all connections share |
//! | `peers` | finds other servers |
//!
//! Invariants: one request, and one batch, sees one snapshot; no message of a client can make the server panic or grow
//! its memory past [`Limits`]; a script hash is never logged.
//!
//! # Example
//!
//! A server without a node, on an index that is not built yet:
//!
//! ```
//! use std::sync::Arc;
//!
//! use birdhouse_chain::{Index, Profile, Secret};
//! use birdhouse_electrum::{Limits, Listener, Proxy, Server, Settings, Transport};
//! use birdhouse_node::BlockFiles;
//! use birdhouse_store::MemoryStore;
//! use bitcoin::{Network, constants::genesis_block};
//! use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
//! use tokio::net::{TcpListener, TcpStream};
//! use tokio::sync::oneshot;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let blocks = tempfile::tempdir()?;
//! # // A folder with the genesis block.
//! # let block = bitcoin::consensus::serialize(&genesis_block(Network::Regtest));
//! # let head = [Network::Regtest.magic().to_bytes(), u32::try_from(block.len())?.to_le_bytes()].concat();
//! # std::fs::write(blocks.path().join("blk00000.dat"), [head, block].concat())?;
//! let source = Arc::new(BlockFiles::open(blocks.path(), Network::Regtest)?);
//! let genesis = genesis_block(Network::Regtest).block_hash();
//! let index = Index::open(Arc::new(MemoryStore::new()), source, genesis, Profile::Full, Secret([7; 16]))?;
//!
//! let socket = TcpListener::bind("127.0.0.1:0").await?;
//! let address = socket.local_addr()?;
//! let limits = Limits::private();
//! let listener = Listener { name: "tcp".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits };
//! let server = Server::new(Arc::new(index), None, Settings::default());
//! let (stop, stopped) = oneshot::channel::<()>();
//! let serving = tokio::spawn(server.serve(vec![(socket, listener)], async { drop(stopped.await) }));
//!
//! let mut client = BufReader::new(TcpStream::connect(address).await?);
//! client.write_all(b"{\"id\":0,\"method\":\"server.banner\"}\n").await?;
//! let mut reply = String::new();
//! client.read_line(&mut reply).await?;
//! assert!(reply.contains("Welcome to Birdhouse"));
//!
//! drop(client);
//! drop(stop);
//! serving.await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod error;
mod limits;
mod settings;

mod protocol;
mod request;
mod response;
mod silentpayments;
mod tweaks;

mod client;
mod peers;
mod service;

mod connection;
mod job;
mod methods;
mod server;

/// Entry points for the fuzz targets. Not for use.
#[doc(hidden)]
pub mod fuzzing {
    use crate::limits::Limits;
    use crate::protocol::{Line, Version};
    use crate::request::Request;

    /// Parses a line in each of several protocol versions.
    pub fn line(bytes: &[u8]) {
        for version in [Version::MIN, Version::V1_6, Version::MAX] {
            let items = match Line::parse(bytes, &Limits::default()) {
                Ok(Line::Single(item)) => vec![item],
                Ok(Line::Batch(items)) => items,
                Err(_) => return,
            };
            for envelope in items.into_iter().flatten() {
                let _ = Request::parse(&envelope.method, envelope.args, version);
            }
        }
    }
}

pub use birdhouse_clients::{ClientKey, ClientKeying, Waiting};
pub use birdhouse_net::{Certificate, CertificateError, ConnectionInfo, Connections, Proxy, Transport};
pub use limits::{Limits, LimitsGiven, ScanKeys, ServerLimits, ServerLimitsGiven};
pub use server::{Overview, Server};
pub use service::{Counted, Histogram, Outcome};
pub use settings::{Discovery, Host, Listener, PeerScope, Prefetch, Settings, TweakDialect};
