//! Latency and CPU time of an address's pages, by its number of transactions.

use std::time::Instant;

use anyhow::{Context as _, Result};
use birdhouse_testkit::http_client::{HttpClient, get};

use super::Plan;
use super::paths::{Address, Paths};
use super::subject::Subject;
use crate::machine::server_at::ServerAt;
use crate::report::durations::Durations;
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::wallets::latency::span;

/// A page: its title and its path.
type AddressPage = (&'static str, fn(&Address) -> &str);

const PAGES: [AddressPage; 4] = [
    ("counts and sums", |address| &address.stats),
    ("newest 25", |address| &address.first),
    ("oldest 25", |address| &address.last),
    ("summary of 5000", |address| &address.summary),
];

/// Adds a table of latencies and one of CPU times.
pub(super) fn measure(record: &mut Record, birdhouse: &Subject, paths: &Paths, plan: &Plan) -> Result<()> {
    let server = birdhouse.rest.as_ref().context("the server has no REST API")?;
    let mut http = HttpClient::connect(birdhouse.rest_addr()?)?;
    let meaning = "One request at a time over one connection, all pages of the class in turn.";
    let columns = || PAGES.map(|(title, _)| (title, Unit::Seconds));
    let mut latency = Table::new("Pages of an address", meaning, Layout::OneServer, columns())
        .drawn(Plot::Curve { x: "transactions of the script".to_owned() });
    let mut cpu = Table::new("CPU time of a page", meaning, Layout::OneServer, columns())
        .drawn(Plot::Curve { x: "transactions of the script".to_owned() });
    for addresses in paths.addresses.values() {
        let middle = addresses[addresses.len() / 2].txs;
        eprintln!("pages: scripts of about {middle} transactions");
        let measured = PAGES
            .iter()
            .map(|(_, path)| requested(&mut http, server, addresses, *path, plan.requests))
            .collect::<Result<Vec<_>>>()?;
        let row = title(addresses);
        latency.push_at(middle, row.clone(), measured.iter().map(|(times, _)| times.with_p99()));
        cpu.push_at(middle, row, measured.iter().map(|(_, cpu)| cpu.map_or(Cell::Nothing, Cell::number)));
    }
    record.tables.extend([latency, cpu]);
    Ok(())
}

/// Requests a page of each address in turn, after one turn that is not measured; returns latencies and CPU seconds.
fn requested(
    http: &mut HttpClient,
    server: &ServerAt,
    addresses: &[Address],
    path: fn(&Address) -> &str,
    count: usize,
) -> Result<(Durations, Option<f64>)> {
    let requests: Vec<Vec<u8>> = addresses.iter().map(|address| get(path(address))).collect();
    for request in &requests {
        http.body(request)?;
    }
    let (mut times, before) = (Durations::default(), server.fine_cpu_s()?);
    for request in requests.iter().cycle().take(count) {
        let started = Instant::now();
        http.body(request)?;
        times.add(started.elapsed());
    }
    let cpu_s = before.zip(server.fine_cpu_s()?).map(|(before, after)| after - before);
    #[expect(clippy::cast_precision_loss, reason = "a count that was reached")]
    let each = cpu_s.map(|cpu_s| cpu_s / count as f64);
    Ok((times, each))
}

fn title(addresses: &[Address]) -> String {
    let (least, most) = (addresses[0].txs, addresses[addresses.len() - 1].txs);
    span(least, most)
}
