//! The measurements behind BENCHMARKS.md. Every one runs Birdhouse and its peers on the same node, one after the other,
//! in one run of one machine, and makes a record of it, which is printed as Markdown.
//!
//! A chain comes from `make-chain` (in `testkit`): a stopped node's data folder.

mod all;
mod attack;
mod build;
mod durations;
mod electrum;
mod folder;
mod idle;
mod latency;
mod node;
mod nostream;
mod process;
mod purse;
mod record;
mod relay;
mod report;
mod samples;
mod server;
mod server_at;
mod throughput;
mod tip;
mod wallet;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand};

use crate::record::Record;
use crate::samples::Samples;
use crate::server::Server;

/// Measures Birdhouse beside its peers.
#[derive(Debug, Parser)]
struct CommandLine {
    /// Writes the record of the run to this file, as JSON.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The first index build: wall time, CPU, memory, bytes on disk, table by table.
    Build {
        #[command(flatten)]
        common: Common,
    },
    /// Sparrow's two tests: 3000 used addresses subscribed in batches of 50, then their refresh.
    Wallet {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        samples: SamplesFile,
    },
    /// Balance, history and unspent outputs, one request at a time, by length of the history.
    Latency {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: latency::Plan,
    },
    /// Many connections that pipeline histories.
    Throughput {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: throughput::Plan,
    },
    /// From the node's news to a client's notification. Makes the chain longer: run it last.
    Tip {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: tip::Plan,
    },
    /// All of these that can be measured at servers that somebody else started, each at its address.
    Electrum {
        #[command(flatten)]
        plan: electrum::Plan,
    },
    /// Idle subscribed connections on every transport: the server's memory. Needs no chain.
    Idle {
        #[command(flatten)]
        plan: idle::Plan,
    },
    /// Clients that mean harm: what they cost others, and the server's memory. Makes a small chain of its own.
    Attack {
        #[command(flatten)]
        plan: attack::Plan,
    },
    /// Nostr relays: what clients ask, by the shape of the question, and whether the relays agree.
    Relay {
        #[command(flatten)]
        plan: relay::QueriesPlan,
    },
    /// Nostr relays: events published, each acknowledged.
    RelayIngest {
        #[command(flatten)]
        plan: relay::IngestPlan,
    },
    /// Nostr relays: one publishes, many hear.
    RelayFanOut {
        #[command(flatten)]
        plan: relay::FanOutPlan,
    },
    /// The experiment of a Nostream's operator: a question with 76 values of a tag, asked of PostgreSQL and of Birdhouse.
    Nostream {
        #[command(flatten)]
        plan: nostream::Plan,
    },
    /// Puts records together to a page with plots, and to Markdown.
    Report {
        #[command(flatten)]
        plan: report::Plan,
    },
    /// All of these, on a chain and events that are made for it, and their report.
    All {
        #[command(flatten)]
        plan: all::Plan,
    },
    /// The attackers of `attack`.
    #[command(hide = true)]
    Attacker {
        #[command(flatten)]
        orders: attack::Orders,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Data folder of a stopped node with the chain; it is started and stopped here.
    #[arg(long)]
    chain: PathBuf,
    /// A folder for indexes, which are kept and used again.
    #[arg(long)]
    work: PathBuf,
    /// The binary to measure: by default the one beside this program.
    #[arg(long, default_value_os_t = birdhouse_beside())]
    birdhouse: PathBuf,
    /// Who is measured, in this order.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Server::ALL)]
    servers: Vec<Server>,
}

#[derive(Debug, clap::Args)]
struct SamplesFile {
    /// What `make-chain --samples` wrote.
    #[arg(long)]
    samples: PathBuf,
}

fn main() -> Result<ExitCode> {
    let CommandLine { json, command } = CommandLine::parse();
    let record = match &command {
        Command::Attacker { orders } => return attack::obey(orders).map(|()| ExitCode::SUCCESS),
        Command::Report { plan } => return report::run(plan).map(|()| ExitCode::SUCCESS),
        Command::All { plan } => return all::run(plan),
        measured => measure(measured)?,
    };
    println!("{}", record.to_markdown());
    if let Some(json) = &json {
        record.write(json)?;
    }
    Ok(exit_code(&[record]))
}

/// Numbers of which one is the least with which anything is measured.
fn at_least_one<T: TryFrom<u64> + Clone + Send + Sync>() -> RangedU64ValueParser<T>
where
    T::Error: std::error::Error + Send + Sync,
{
    RangedU64ValueParser::new().range(1..)
}

/// The server that was built or installed with this program.
fn birdhouse_beside() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name("birdhouse")
}

/// A failed run is told in its table; that there is one is told here too.
fn exit_code(records: &[Record]) -> ExitCode {
    let failures: Vec<String> = records.iter().flat_map(Record::failures).collect();
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(command: &Command) -> Result<Record> {
    match command {
        Command::Build { common } => build::run(common),
        Command::Wallet { common, samples } => wallet::run(common, &samples.read()?),
        Command::Latency { common, samples, plan } => latency::run(common, &samples.read()?, plan),
        Command::Throughput { common, samples, plan } => throughput::run(common, &samples.read()?, plan),
        Command::Tip { common, samples, plan } => tip::run(common, &samples.read()?, plan),
        Command::Electrum { plan } => electrum::run(plan),
        Command::Idle { plan } => idle::run(plan),
        Command::Attack { plan } => attack::run(plan),
        Command::Relay { plan } => relay::queries(plan),
        Command::RelayIngest { plan } => relay::ingest(plan),
        Command::RelayFanOut { plan } => relay::fan_out(plan),
        Command::Nostream { plan } => nostream::run(plan),
        Command::All { .. } | Command::Attacker { .. } | Command::Report { .. } => unreachable!("they measure nothing"),
    }
}

impl SamplesFile {
    fn read(&self) -> Result<Samples> {
        Samples::read(&self.samples)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    /// What a subcommand is told by these words.
    pub(crate) fn plan<P: clap::Args>(words: &[&str]) -> P {
        let command = P::augment_args(clap::Command::new("plan").no_binary_name(true));
        P::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }
}
