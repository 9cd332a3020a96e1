//! The REST API: Casa's charts beside the Electrum protocol, the cost of an address's pages, and small requests over
//! many connections.

mod charts;
mod cold;
mod load;
mod pages;
mod paths;
mod subject;

use anyhow::{Context as _, Result};
use birdhouse_testkit::http_client::HttpClient;

use self::paths::Paths;
use self::subject::Subject;
use crate::machine::args::at_least_one;
use crate::machine::node;
use crate::machine::server::{Server, Setup, measured};
use crate::report::record::Record;
use crate::wallets::latency;
use crate::wallets::samples::Samples;

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Number of passes over the scripts of the charts; the first is not timed.
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<usize>())]
    passes: usize,
    /// Number of scripts in each class of lengths.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<usize>())]
    scripts: usize,
    /// Milliseconds of a server's answers after which a script is no longer requested (from the third pass on).
    #[arg(long, default_value_t = 2000, value_parser = at_least_one::<u64>())]
    budget_ms: u64,
    /// Number of requests for each page of each class of lengths, for its CPU time.
    #[arg(long, default_value_t = 400, value_parser = at_least_one::<usize>())]
    requests: usize,
    /// Number of connections, each with a thread of its own and one request at a time.
    #[arg(long, default_value_t = 50, value_parser = at_least_one::<usize>())]
    connections: usize,
    /// Seconds for each kind of small request.
    #[arg(long, default_value_t = 5, value_parser = at_least_one::<u64>())]
    seconds: u64,
    /// Also count the reads of the disk with an empty file cache, which needs root and a disk that nobody else uses.
    #[arg(long)]
    cold: bool,
}

pub(crate) fn run(setup: &Setup, samples: &Samples, plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("REST", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let scripts = latency::chosen(latency::of_samples(samples), plan.scripts);
    let subjects = Subject::start_all(setup, &node);
    charts::measure(&mut record, &subjects, &scripts, plan);
    if let Some(birdhouse) = subjects.iter().find(|subject| subject.server == Server::Full) {
        let mut http = HttpClient::connect(birdhouse.rest_addr()?)?;
        let paths = Paths::collect(&mut http, &scripts, samples).context("failed to collect paths")?;
        pages::measure(&mut record, birdhouse, &paths, plan)?;
        load::measure(&mut record, birdhouse, &paths, plan);
        drop(subjects);
        if plan.cold {
            cold::measure(&mut record, setup, &node, &paths)?;
        }
    }
    Ok(record)
}
