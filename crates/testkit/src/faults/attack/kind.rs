//! The kinds of attack and their result.

/// A kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Attack {
    /// Requests large replies and reads none of them.
    SlowReaders,
    /// Sends a request byte by byte, slowly, and never ends it.
    SlowWriters,
    /// Subscribes to unused script hashes without end.
    SubscriptionFlood,
    /// Sends batches of 2000 requests, the most that are allowed, each for a large reply.
    GiantBatches,
    /// Sends lines of 900 kB, each a batch of more requests than are allowed.
    ImpossibleBatches,
    /// Sends a line that never ends.
    EndlessLines,
    /// Sends bytes that are no TLS handshake, and handshakes that stop in the middle.
    TlsGarbage,
    /// Opens thousands of connections that send nothing.
    ManyConnections,
    /// Connects, sends one request and disconnects before the reply.
    ComeAndGo,
    /// Sends requests to the REST API without end: wrong and unknown ones, and those that read most.
    RestFlood,
    /// Asks the explorer for the scripts of descriptors with as many keys and paths as a line may have.
    Derivation,
    /// Asks the explorer for descriptors with brackets just beyond the bound on nesting.
    Nesting,
    /// Asks REST for the spenders of all outputs of 50 transactions, each of them the largest.
    Outspends,
    /// Opens streams of events that each watch as much as one may, and reads none.
    Streams,
    /// Subscribes to outpoints that their transaction does not have.
    ImpossibleOutpoints,
    /// Subscribes to silent payments from the first block on, with one new scan key after the other and the most labels
    /// that are allowed, and disconnects in the middle of the scans.
    ScanKeys,
    /// The same without labels, with spend keys for which the quick formulas of a scan have no answer: in one row, or
    /// in all.
    HostileSpendKeys,
    /// Connects to the listener for replicas without its secret.
    ReplicaStrangers,
    /// Asks the dashboard for its pages and reads none.
    UnreadPages,
    /// Asks the relay for words that all of its large events have, with a condition that none fulfils, and publishes
    /// more of them.
    Searches,
}

/// A listener, by who is served there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Wallets,
    WalletsTls,
    Rest,
    Explorer,
    Replicas,
    Operations,
    Relay,
}

/// Counts of an attack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Connections made.
    pub connected: u64,
    /// Connections that the server closed.
    pub closed: u64,
    /// Requests in the messages that were sent whole.
    pub requests: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

impl Attack {
    /// All kinds.
    pub const ALL: [Self; 20] = [
        Self::SlowReaders,
        Self::SlowWriters,
        Self::SubscriptionFlood,
        Self::GiantBatches,
        Self::ImpossibleBatches,
        Self::EndlessLines,
        Self::TlsGarbage,
        Self::ManyConnections,
        Self::ComeAndGo,
        Self::RestFlood,
        Self::Derivation,
        Self::Nesting,
        Self::Outspends,
        Self::Streams,
        Self::ImpossibleOutpoints,
        Self::ScanKeys,
        Self::HostileSpendKeys,
        Self::ReplicaStrangers,
        Self::UnreadPages,
        Self::Searches,
    ];

    pub(super) fn door(self) -> Door {
        match self {
            Self::TlsGarbage => Door::WalletsTls,
            Self::RestFlood | Self::Outspends | Self::Streams => Door::Rest,
            Self::Derivation | Self::Nesting => Door::Explorer,
            Self::ReplicaStrangers => Door::Replicas,
            Self::UnreadPages => Door::Operations,
            Self::Searches => Door::Relay,
            _ => Door::Wallets,
        }
    }

    /// Returns true if connections read what the server sends.
    pub(super) fn reads(self) -> bool {
        !matches!(self, Self::SlowReaders | Self::ComeAndGo | Self::Streams | Self::UnreadPages)
    }

    pub(super) fn connections(self) -> usize {
        match self {
            Self::SlowReaders | Self::TlsGarbage | Self::UnreadPages => 50,
            Self::ReplicaStrangers => 64,
            Self::SlowWriters | Self::Streams => 300,
            Self::SubscriptionFlood
            | Self::EndlessLines
            | Self::RestFlood
            | Self::Derivation
            | Self::Nesting
            | Self::Outspends
            | Self::ImpossibleOutpoints
            | Self::ScanKeys
            | Self::HostileSpendKeys
            | Self::Searches => 8,
            Self::GiantBatches | Self::ImpossibleBatches => 4,
            Self::ManyConnections => 3000,
            Self::ComeAndGo => 20,
        }
    }
}
