//! Reads of the disk for one page, with a new server and an empty file cache.

use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::http_client::{HttpClient, get};

use super::paths::{Address, Paths};
use super::subject::Subject;
use crate::machine::process::drop_file_cache;
use crate::machine::server::{Server, Setup};
use crate::report::durations::Durations;
use crate::report::record::{Cell, Figure, Layout, Record, Spread, Table, Unit};

/// Addresses of each class.
const ADDRESSES: usize = 3;

/// Measurements of one class and page.
#[derive(Debug, Default)]
struct Figures {
    reads: Vec<f64>,
    times: Durations,
}

/// Adds a table of reads and latencies.
pub(super) fn measure(record: &mut Record, setup: &Setup, node: &Bitcoind, paths: &Paths) -> Result<()> {
    let columns = [
        ("counts and sums: reads", Unit::Count),
        ("latency", Unit::Seconds),
        ("newest 25: reads", Unit::Count),
        ("latency", Unit::Seconds),
    ];
    let meaning = "One request to a new server with an empty file cache. Reads are requests to the disk of all \
                   processes together, those of the node's block files included.";
    let mut table = Table::new("Cold pages", meaning, Layout::OneServer, columns);
    let warm = paths.wallet.first().context("the samples have no short scripts")?;
    for (class, addresses) in &paths.addresses {
        eprintln!("cold: scripts of {} transactions and more", class.0);
        let mut figures = [Figures::default(), Figures::default()];
        for address in addresses.iter().take(ADDRESSES) {
            for (figures, path) in figures.iter_mut().zip([&address.stats, &address.first]) {
                figures.add(setup, node, warm, path)?;
            }
        }
        table.push(title(addresses), figures.iter().flat_map(|figures| [figures.reads(), figures.times.with_range()]));
    }
    record.tables.push(table);
    Ok(())
}

impl Figures {
    /// Measures a page. The same page of another script has run before, so that the program itself is in memory.
    fn add(&mut self, setup: &Setup, node: &Bitcoind, warm: &str, path: &str) -> Result<()> {
        let server = Subject::start(Server::Full, setup, node);
        let mut http = HttpClient::connect(server.rest_addr()?)?;
        for part in ["", "/txs/chain"] {
            http.body(&get(&format!("{warm}{part}")))?;
        }
        drop_file_cache()?;
        let (before, started) = (reads(&setup.work)?, Instant::now());
        http.body(&get(path))?;
        self.times.add(started.elapsed());
        self.reads.push(reads(&setup.work)? - before);
        Ok(())
    }

    fn reads(&self) -> Cell {
        let mut sorted = self.reads.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else { return Cell::Nothing };
        let spread = Spread::Range { lowest: *lowest, highest: *highest };
        Cell::Figure(Figure { median: sorted[(sorted.len() - 1) / 2], spread, count: sorted.len() as u64 })
    }
}

fn title(addresses: &[Address]) -> String {
    format!("{} transactions", addresses[addresses.len() / 2].txs)
}

/// Returns the completed reads of the device of this folder, from `/sys/dev/block/MAJOR:MINOR/stat`.
fn reads(folder: &Path) -> Result<f64> {
    let device = fs::metadata(folder)?.st_dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let file = format!("/sys/dev/block/{major}:{minor}/stat");
    let stat = fs::read_to_string(&file).with_context(|| format!("failed to read {file}"))?;
    stat.split_whitespace().next().context("the device has no counts")?.parse().context("failed to parse a count")
}
