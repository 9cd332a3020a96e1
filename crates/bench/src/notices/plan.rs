//! The programs that are measured, and the volumes.

use std::path::PathBuf;

use birdhouse_testkit::peers::Sentrum;
use clap::ValueEnum;

use crate::machine::args::at_least_one;
use crate::report::record::listed;

/// The setting of a server that hears of the mempool by ZMQ, in words.
const ZMQ: &str = "zmq-sequence-addr of a publisher that reads the node's log every 2 ms";

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    pub(super) birdhouse: PathBuf,
    /// Programs to measure, in this order.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Program::ALL)]
    pub(super) programs: Vec<Program>,
    /// Ways by which the servers hear of the node's mempool, each with rows of its own.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Feed::Polled])]
    pub(super) feeds: Vec<Feed>,
    /// Number of watched scripts, all of which have a payment.
    #[arg(long, default_value_t = 10_000, value_parser = at_least_one::<u32>())]
    pub(super) scripts: u32,
    /// Number of payments whose delay is measured.
    #[arg(long, default_value_t = 50, value_parser = at_least_one::<u32>())]
    pub(super) payments: u32,
    /// Number of payments while the program is down.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u32>())]
    pub(super) missed: u32,
    /// Number of blocks whose cost is measured.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<u32>())]
    pub(super) blocks: u32,
    /// Number of transactions of each of these blocks, beside those that pay watched scripts.
    #[arg(long, default_value_t = 5_000, value_parser = at_least_one::<u32>())]
    pub(super) transactions: u32,
    /// Seconds without a change in which CPU time is measured.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u64>())]
    pub(super) idle_s: u64,
    /// Seconds to wait for a notice.
    #[arg(long, default_value_t = 120, value_parser = at_least_one::<u64>())]
    pub(super) patience_s: u64,
}

/// The way by which a server hears of the node's mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Feed {
    /// It lists the mempool again and again.
    Polled,
    /// By the node's ZMQ messages. The test kit publishes them, from the node's log, for a node that was built without.
    Zmq,
}

impl Plan {
    /// Returns what is measured, in the order of the rows.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let mut subjects = Vec::new();
        for &program in &self.programs {
            subjects.extend(self.feeds.iter().map(|&feed| Subject { program, feed }));
        }
        subjects
    }
}

/// A program, and the way by which its server hears of the mempool: a row of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) program: Program,
    pub(super) feed: Feed,
}

impl Subject {
    /// Returns the name of its rows.
    pub(super) fn title(self) -> String {
        match self.feed {
            Feed::Polled => self.program.title().to_owned(),
            Feed::Zmq => format!("{}, ZMQ by the test kit", self.program.title()),
        }
    }

    pub(super) fn settings(self) -> String {
        let of_program = self.program.settings();
        match self.feed {
            Feed::Polled => of_program,
            Feed::Zmq if of_program.is_empty() => ZMQ.to_owned(),
            Feed::Zmq => format!("{of_program}, {ZMQ}"),
        }
    }
}

/// A program that may tell of payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    /// Birdhouse with a watch of all scripts.
    Birdhouse,
    /// Birdhouse without a watch file: the cost of following the chain.
    Unwatched,
    /// sentrum 0.1.9, whose Electrum server is Birdhouse without a watch file.
    Sentrum,
    /// The same, which tells all transactions of the past at each start.
    SentrumPast,
}

impl Program {
    pub(super) const ALL: [Self; 4] = [Self::Birdhouse, Self::Unwatched, Self::Sentrum, Self::SentrumPast];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Birdhouse => "birdhouse",
            Self::Unwatched => "birdhouse, no watch",
            Self::Sentrum => "sentrum 0.1.9",
            Self::SentrumPast => "sentrum 0.1.9, past",
        }
    }

    /// Returns true for a program that asks an Electrum server.
    pub(super) fn asks(self) -> bool {
        matches!(self, Self::Sentrum | Self::SentrumPast)
    }

    pub(super) fn settings(self) -> String {
        match self {
            Self::Birdhouse => "confirmations = [0]".to_owned(),
            Self::Unwatched => String::new(),
            Self::Sentrum => listed(&Sentrum::SETTINGS),
            Self::SentrumPast => listed(&Sentrum::SETTINGS) + ", --notify-past-txs",
        }
    }
}
