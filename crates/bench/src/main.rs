//! The measurements behind BENCHMARKS.md. Each runs Birdhouse and other servers on the same node in turn, in one run on
//! one machine, and makes a record of it, which is printed as Markdown.
//!
//! A chain comes from `make-chain` (in `testkit`): the data folder of a stopped node.

#![forbid(unsafe_code)]

mod all;
mod attack;
mod builds;
mod campaign;
mod machine;
mod mempool;
mod notices;
mod relays;
mod report;
mod virtual_node;
mod wallets;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tikv_jemallocator::Jemalloc;

use crate::builds::{build, catch_up, follow, growth, silent_payments, virtual_chain};
use crate::machine::server::Setup;
use crate::relays::{nostream, relay};
use crate::report::record::{Record, exit_code};
use crate::wallets::samples::SamplesFile;
use crate::wallets::{electrum, idle, latency, rest, throughput, tip, wallet};

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Measure Birdhouse beside other servers.
#[derive(Debug, Parser)]
struct CommandLine {
    /// File to write the record of the run to, as JSON.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the first index build: wall time, CPU, memory, bytes on disk by table.
    Build {
        #[command(flatten)]
        setup: Setup,
    },
    /// Measure Sparrow's two tests: 3000 used addresses subscribed in batches of 50, then their refresh.
    Wallet {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        samples: SamplesFile,
    },
    /// Measure balance, history and unspent outputs, one request at a time, by length of the history.
    Latency {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: latency::Plan,
    },
    /// Measure histories pipelined over many connections.
    Throughput {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: throughput::Plan,
    },
    /// Measure Birdhouse's REST API beside the Electrum protocol: charts, pages of addresses, small requests.
    Rest {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: rest::Plan,
    },
    /// Measure the delay from a change of the node to a client's notification. Mines blocks: run it last.
    Tip {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        samples: SamplesFile,
        #[command(flatten)]
        plan: tip::Plan,
    },
    /// Measure servers that were off while the chain grew by many blocks: CPU time and wall time a block.
    CatchUp {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        plan: catch_up::Plan,
    },
    /// Measure the first build of chains of several sizes: CPU time, memory, disk. Needs no node.
    Growth {
        #[command(flatten)]
        plan: growth::Plan,
    },
    /// Measure the first build of a made-up chain of any size, and compare answers with the chain's. Needs no node.
    Virtual {
        #[command(flatten)]
        plan: virtual_chain::Plan,
    },
    /// Compare an index that has followed half of a chain with one that was built with all of it. Needs no node.
    Follow {
        #[command(flatten)]
        plan: follow::Plan,
    },
    /// Measure the index of silent payments beside libsecp256k1: bytes, CPU time of computing and scanning it, and a
    /// wallet's latencies beside scans.
    SilentPayments {
        #[command(flatten)]
        plan: silent_payments::Plan,
    },
    /// Measure the CPU time of projecting the blocks of a large mempool. Needs no node.
    Mempool {
        #[command(flatten)]
        plan: mempool::Plan,
    },
    /// Measure Electrum servers that run already, each at its address.
    Electrum {
        #[command(flatten)]
        plan: electrum::Plan,
    },
    /// Measure the server's memory with idle subscribed connections on every transport. Needs no chain.
    Idle {
        #[command(flatten)]
        plan: idle::Plan,
    },
    /// Measure other clients' latencies and the server's memory during attacks. Makes a small chain.
    Attack {
        #[command(flatten)]
        plan: attack::Plan,
    },
    /// Measure notices of payments beside sentrum: delay, restarts, cost of many watched scripts. Makes a chain.
    Notices {
        #[command(flatten)]
        plan: notices::Plan,
    },
    /// Pass a notice on to `notices`.
    #[command(hide = true)]
    Tell {
        #[command(flatten)]
        plan: notices::TellPlan,
    },
    /// Measure queries of Nostr relays by shape, and compare the answers.
    Relay {
        #[command(flatten)]
        plan: relay::QueriesPlan,
    },
    /// Measure publishing of events to Nostr relays.
    RelayIngest {
        #[command(flatten)]
        plan: relay::IngestPlan,
    },
    /// Measure delivery of events from one publisher to many subscribers of Nostr relays.
    RelayFanOut {
        #[command(flatten)]
        plan: relay::FanOutPlan,
    },
    /// Measure honest clients' latencies and a relay's memory during attacks.
    RelayAttack {
        #[command(flatten)]
        plan: relay::RelayAttackPlan,
    },
    /// Run the attackers of `relay-attack`.
    #[command(hide = true)]
    RelayAttackers {
        #[command(flatten)]
        plan: relay::RelayAttackersPlan,
    },
    /// Compare the disk space of events of which half are gone with that of the others alone. Needs no relay.
    RelaySpace {
        #[command(flatten)]
        plan: relay::SpacePlan,
    },
    /// Measure a query with 76 values of a tag on PostgreSQL and on Birdhouse, as a Nostream operator reported it.
    Nostream {
        #[command(flatten)]
        plan: nostream::Plan,
    },
    /// Render records as a page with plots, and as Markdown.
    Report {
        #[command(flatten)]
        plan: report::Plan,
    },
    /// Run all measurements on a generated chain and events, and render the report.
    All {
        #[command(flatten)]
        plan: all::Plan,
    },
    /// Break the server in every way, in pieces, and report what was reached.
    Campaign {
        #[command(flatten)]
        plan: campaign::Plan,
    },
    /// Run the writer that `campaign` kills.
    #[command(hide = true)]
    RelayWriter {
        #[command(flatten)]
        plan: campaign::WriterPlan,
    },
    /// Run the attackers of `attack`.
    #[command(hide = true)]
    Attackers {
        #[command(flatten)]
        plan: attack::AttackersPlan,
    },
}

fn main() -> Result<ExitCode> {
    let CommandLine { json, command } = CommandLine::parse();
    let record = match &command {
        Command::Attackers { plan } => return attack::run_attackers(plan).map(|()| ExitCode::SUCCESS),
        Command::Report { plan } => return report::run(plan).map(|()| ExitCode::SUCCESS),
        Command::All { plan } => return all::run(plan),
        Command::RelayAttackers { plan } => return relay::run_relay_attackers(plan).map(|()| ExitCode::SUCCESS),
        Command::Campaign { plan } => return campaign::run(plan).map(|()| ExitCode::SUCCESS),
        Command::RelayWriter { plan } => return campaign::run_writer(plan).map(|()| ExitCode::SUCCESS),
        Command::Tell { plan } => return notices::tell(plan).map(|()| ExitCode::SUCCESS),
        measured => measure(measured)?,
    };
    println!("{}", record.to_markdown());
    if let Some(json) = &json {
        record.write(json)?;
    }
    Ok(exit_code(&[record]))
}

fn measure(command: &Command) -> Result<Record> {
    match command {
        Command::Build { setup } => build::run(setup),
        Command::Wallet { setup, samples } => wallet::run(setup, &samples.read()?),
        Command::Latency { setup, samples, plan } => latency::run(setup, &samples.read()?, plan),
        Command::Throughput { setup, samples, plan } => throughput::run(setup, &samples.read()?, plan),
        Command::Rest { setup, samples, plan } => rest::run(setup, &samples.read()?, plan),
        Command::Tip { setup, samples, plan } => tip::run(setup, &samples.read()?, plan),
        Command::CatchUp { setup, plan } => catch_up::run(setup, plan),
        Command::Growth { plan } => growth::run(plan),
        Command::Virtual { plan } => virtual_chain::run(plan),
        Command::Follow { plan } => follow::run(plan),
        Command::SilentPayments { plan } => silent_payments::run(plan),
        Command::Mempool { plan } => Ok(mempool::run(plan)),
        Command::Electrum { plan } => electrum::run(plan),
        Command::Idle { plan } => idle::run(plan),
        Command::Attack { plan } => attack::run(plan),
        Command::Notices { plan } => notices::run(plan),
        Command::Relay { plan } => relay::queries(plan),
        Command::RelayIngest { plan } => relay::ingest(plan),
        Command::RelayFanOut { plan } => relay::fan_out(plan),
        Command::RelayAttack { plan } => relay::attack(plan),
        Command::RelaySpace { plan } => relay::space(plan),
        Command::Nostream { plan } => nostream::run(plan),
        Command::All { .. }
        | Command::Attackers { .. }
        | Command::Campaign { .. }
        | Command::RelayAttackers { .. }
        | Command::RelayWriter { .. }
        | Command::Report { .. }
        | Command::Tell { .. } => unreachable!("main handles these commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_report_is_a_command_of_this_program() {
        for words in all::command_lines() {
            let name = words[0].clone();
            CommandLine::try_parse_from(["birdhouse-bench".to_owned()].into_iter().chain(words))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
