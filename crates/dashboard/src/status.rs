//! The state of the server at one moment. Its JSON is the answer of `birdhouse ctl --json status`.

use serde::{Deserialize, Serialize};

/// The state of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the server.
    pub version: String,
    /// The state of the server in a line.
    pub health: String,
    /// The state in one word or a few, as `/health` has it.
    pub state: String,
    /// `/health` answers 200.
    pub is_good: bool,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Resident memory of the process.
    pub memory_bytes: Option<u64>,
    /// The largest resident memory so far.
    pub memory_peak_bytes: Option<u64>,
    /// Open files and sockets.
    pub open_files: Option<u64>,
    /// The limit of open files and sockets.
    pub open_files_max: Option<u64>,
    /// Bytes that can still be written to the disk of the data folder.
    pub disk_free_bytes: Option<u64>,
    /// Turns of processor, disk and node that clients of all protocols wait for.
    pub waiting_clients: u64,
    /// The half that serves wallets, if it is on.
    #[serde(flatten)]
    pub bitcoin: Option<Bitcoin>,
    /// The relay, if it is on.
    #[serde(flatten)]
    pub relay: Option<Relay>,
    /// The watched wallets, if there is a watch file.
    #[serde(flatten)]
    pub watched: Option<Watched>,
    /// Streams from and to other relays, a line for each URL.
    #[serde(default)]
    pub streams: Vec<Stream>,
    /// Own events that streams have given up, because the other relays do not answer them.
    #[serde(default)]
    pub set_aside: Vec<SetAside>,
    /// Clients by protocol.
    pub protocols: Vec<Protocol>,
    /// Kinds of questions that took longest in the last hour, the slowest first.
    pub slowest: Vec<SlowKind>,
    /// Bytes on disk by table.
    pub disk: Vec<TableSize>,
    /// Addresses for wallets.
    pub endpoints: Vec<Endpoint>,
    /// Addresses of REST, explorer and relay.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Whatever needs a person.
    pub warnings: Vec<Warning>,
}

/// The half that serves wallets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bitcoin {
    /// Name of the network.
    pub network: String,
    /// Height of the index; `None` until it is built.
    pub tip_height: Option<u32>,
    /// Hash of the block at this height.
    pub tip_hash: Option<String>,
    /// Progress of the first build, 0 to 100.
    pub sync_percent: u8,
    /// Height of the node at its last answer.
    pub node_height: Option<u32>,
    /// Seconds since the node's last answer; `None` without a node.
    pub node_silent_s: Option<u64>,
    /// Calls to the node since the start.
    pub node_calls: Option<u64>,
    /// Calls without an answer.
    pub node_failed_calls: Option<u64>,
    /// Bytes of the index on disk.
    #[serde(default)]
    pub index_bytes: u64,
    /// Bytes of the node's blocks on disk.
    #[serde(default)]
    pub node_bytes: Option<u64>,
    /// The lowest height from which the node has all blocks.
    #[serde(default)]
    pub node_first_block: Option<u32>,
    /// Bytes that `birdhouse prune` can free.
    #[serde(default)]
    pub node_prunable_bytes: Option<u64>,
    /// Blocks that the node had deleted and its peers have sent, since the start.
    #[serde(default)]
    pub fetched_blocks: Option<u64>,
    /// Blocks that none of them has sent.
    #[serde(default)]
    pub failed_fetches: Option<u64>,
    /// Bytes of old transactions that are kept of them.
    #[serde(default)]
    pub fetched_bytes: Option<u64>,
    /// Transactions in the mempool.
    pub mempool_transactions: Option<u64>,
    /// Virtual bytes of the mempool.
    pub mempool_vbytes: Option<u64>,
    /// Memory of cached index blocks.
    pub cache_bytes: u64,
    /// Open connections of wallets.
    pub connections: u64,
    /// Clients that are connected or whose use is remembered.
    pub clients: u64,
    /// Scripts and outpoints that connections subscribe to.
    pub subscriptions: u64,
    /// Derived indexes that are on.
    pub derived: Vec<Derived>,
    /// The first build, while it runs.
    pub build: Option<Build>,
}

/// An index that is computed from blocks beside that of the chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derived {
    /// Its name.
    pub name: String,
    /// Blocks that it covers.
    pub blocks: u32,
    /// Blocks of the chain.
    pub of_blocks: u32,
    /// The failure of its last attempt to go on.
    pub failure: Option<String>,
}

/// Progress of the first build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// The present phase.
    pub phase: Phase,
    /// Bytes of blocks read, or partitions sorted.
    pub done: u64,
    /// All of these.
    pub total: u64,
    /// Of these, each second of the last minute.
    pub done_per_s: f64,
    /// Blocks read.
    pub blocks: u64,
    /// All blocks.
    pub blocks_total: u64,
    /// Estimated seconds to the end, once there is an estimate.
    pub left_s: Option<u64>,
}

/// A phase of the first build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Finding blocks and their headers.
    #[default]
    Scanning,
    /// Reading blocks.
    Reading,
    /// Sorting and writing rows.
    Sorting,
}

/// The relay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// The state of storing events.
    pub relay_state: String,
    /// The reason why events are not stored.
    pub relay_reason: Option<String>,
    /// Failures of threads without which the relay serves.
    pub relay_failures: Vec<String>,
    /// Open connections.
    pub relay_connections: u64,
    /// Clients that are connected or whose use is remembered.
    pub relay_clients: u64,
    /// Open subscriptions.
    pub relay_subscriptions: u64,
    /// Stored events that are not deleted.
    pub relay_events: u64,
    /// Events of clients that were accepted.
    pub relay_accepted: Rate,
    /// Events of clients that were refused.
    pub relay_refused: Rate,
    /// Events sent to clients, stored and live.
    pub relay_sent: Rate,
    /// Refused events by the prefix of the reason, since the start.
    pub relay_refusals: Vec<Refusals>,
}

/// The watched wallets and their channels, as counts: balances are on their own page alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Watches of the watch file.
    pub watches: u64,
    /// Those that say less than they should.
    pub watch_faults: u64,
    /// Notices since the log began.
    pub watch_notices: u64,
    /// Deliveries that wait in the outboxes.
    pub watch_waiting: u64,
    /// Channels of the watch file.
    pub watch_channels: u64,
    /// Names of those that do not deliver.
    pub failing_channels: Vec<String>,
}

/// A URL of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Name of the stream.
    pub stream: String,
    /// The other relay.
    pub url: String,
    /// Direction of events: down, up or both.
    pub dir: String,
    /// State of the connection.
    pub state: String,
    /// Seconds in this state.
    pub state_s: u64,
    /// Events that came, since the start.
    pub received: u64,
    /// Those that were new here.
    pub stored: u64,
    /// Those that were refused here.
    pub refused: u64,
    /// Events that went, since the start.
    pub sent: u64,
    /// Those that the other relay has now.
    pub accepted: u64,
    /// Those that it refuses.
    pub refused_there: u64,
    /// Own events that were given up, since the start.
    #[serde(default)]
    pub set_aside: u64,
    /// Own events that wait for their turn or outcome.
    pub waiting: Option<u64>,
    /// Reason of the last refusal of the other relay.
    pub last_refusal: Option<String>,
    /// The reason why it does not work now.
    pub failure: Option<String>,
}

/// An event that a stream has given up, because the other relay does not answer it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Name of the stream.
    pub stream: String,
    /// The other relay.
    pub url: String,
    /// The event's id, in hexadecimal.
    pub event: String,
    /// The end of the last attempt.
    pub reason: String,
}

/// Events, or others, that were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Their number since the start.
    pub total: u64,
    /// Their number each second, in the last minute.
    pub per_s: f64,
}

/// Events that were refused for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The prefix of the reason.
    pub reason: String,
    /// Their number since the start.
    pub events: u64,
}

/// Clients of one protocol on one listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// The protocol: `Electrum`, `REST` or `Nostr`.
    pub protocol: String,
    /// Name of the listener.
    pub listener: String,
    /// Open connections.
    pub connections: u64,
}

/// A kind of question, without its arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowKind {
    /// The protocol of the question.
    pub protocol: String,
    /// Its name, or the number of values of each sort in it.
    pub shape: String,
    /// Questions of this shape that took longer than a tenth of a millisecond.
    pub count: u64,
    /// Their mean time in milliseconds.
    pub mean_ms: f64,
    /// The longest time in milliseconds.
    pub longest_ms: f64,
}

/// Bytes of a table, or of all tables of one sort.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    /// `index`, `relay`, or the name of a derived index.
    pub part: String,
    /// Name of the table or array.
    pub table: String,
    /// Bytes on disk.
    pub bytes: u64,
}

/// An address for wallets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Host to type.
    pub host: String,
    /// Port to type.
    pub port: u16,
    /// The connection is encrypted.
    pub is_tls: bool,
    /// Only wallets on the server's machine reach it.
    pub is_local: bool,
    /// The host is a container's own address: other machines reach the one that publishes its ports.
    #[serde(default)]
    pub is_inner: bool,
    /// SHA-256 of the certificate.
    pub fingerprint: Option<String>,
}

/// An address of a service that wallets do not use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name of the service.
    pub serves: String,
    /// Its URL.
    pub url: String,
}

/// Something that needs a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Kind of trouble, and the name of what has it, such as `derived filters`: it stays while figures in the text
    /// change.
    pub about: String,
    /// The part of the server that has it.
    #[serde(default)]
    pub subject: Subject,
    /// The state of things.
    pub text: String,
    /// The remedy.
    pub advice: String,
}

/// A part of the server, or of its surroundings, that a warning is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The server as a whole, and its settings.
    #[default]
    Server,
    /// The node, and the chain that it follows.
    Node,
    /// The index of the chain, and those that are computed from it.
    Index,
    /// Damage of files.
    Damage,
    /// The disk of the data folder.
    Disk,
    /// Open files and sockets.
    Files,
    /// The certificate of a listener.
    Certificate,
    /// The relay.
    Relay,
    /// A stream from or to another relay.
    Stream,
    /// Watched wallets, and their channels.
    Watches,
}

// === impl Subject ===

impl Subject {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Node => "node",
            Self::Index => "index",
            Self::Damage => "damage",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::Certificate => "certificate",
            Self::Relay => "relay",
            Self::Stream => "stream",
            Self::Watches => "watches",
        }
    }
}

// === impl Build ===

impl Build {
    /// Returns the name of the phase.
    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Scanning => "Finding blocks",
            Phase::Reading => "Reading blocks",
            Phase::Sorting => "Sorting and writing",
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// Returns the form that Electrum and `BlueWallet` read: `host:port:s` with TLS, `host:port:t` without.
    pub fn server(&self) -> String {
        format!("{}:{}:{}", self.host, self.port, if self.is_tls { 's' } else { 't' })
    }

    /// Returns true for an onion service.
    pub fn is_onion(&self) -> bool {
        self.host.rsplit('.').next() == Some("onion")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_half_comes_back_from_its_json_without_it() {
        let relay = Relay { relay_state: "serving".into(), ..Relay::default() };
        let derived = vec![Derived { name: "filters".into(), failure: Some("none".into()), ..Derived::default() }];
        let bitcoin =
            Bitcoin { network: "regtest".into(), derived, build: Some(Build::default()), ..Bitcoin::default() };
        let watched = Watched { watches: 3, failing_channels: vec!["me".into()], ..Watched::default() };
        for (bitcoin, relay, watched) in
            [(Some(bitcoin.clone()), None, None), (None, Some(relay), None), (Some(bitcoin), None, Some(watched))]
        {
            let status = Status { version: "1".into(), bitcoin, relay, watched, ..Status::default() };
            let text = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status, "{text}");
        }
    }

    #[test]
    fn a_subject_has_one_name_everywhere() {
        use Subject::{Certificate, Damage, Disk, Files, Index, Node, Relay, Server, Stream, Watches};
        for subject in [Server, Node, Index, Damage, Disk, Files, Certificate, Relay, Stream, Watches] {
            assert_eq!(serde_json::to_value(subject).unwrap(), subject.name());
        }
    }

    #[test]
    fn an_address_for_a_wallet_says_its_security() {
        let endpoint = Endpoint { host: "a.onion".into(), port: 1, ..Endpoint::default() };
        assert_eq!((endpoint.server().as_str(), endpoint.is_onion()), ("a.onion:1:t", true));
        let tls = Endpoint { host: "10.0.0.1".into(), port: 2, is_tls: true, ..Endpoint::default() };
        assert_eq!((tls.server().as_str(), tls.is_onion()), ("10.0.0.1:2:s", false));
    }
}
