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
    pub const ALL: [Self; 10] = [
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
    ];

    pub(super) fn connections(self) -> usize {
        match self {
            Self::SlowReaders | Self::TlsGarbage => 50,
            Self::SlowWriters => 300,
            Self::SubscriptionFlood | Self::EndlessLines | Self::RestFlood => 8,
            Self::GiantBatches | Self::ImpossibleBatches => 4,
            Self::ManyConnections => 3000,
            Self::ComeAndGo => 20,
        }
    }
}
