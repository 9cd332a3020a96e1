//! Publishing of events over a `WebSocket`: events a second until OK, and the relay's CPU time for one.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::event::events;
use super::relay_at::RelayAt;
use super::servers::{Entry, Keep, RelayInUse, Servers};
use super::socket::{NAGLE, Socket, frame};
use crate::machine::args::at_least_one;
use crate::report::durations::{of_each, per_second};
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    // Relays to start get the events beside a copy of those that `relay` loaded.
    #[command(flatten)]
    servers: Servers,
    /// File of events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Number of events to skip at the beginning of the file.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Number of events to publish for each window.
    #[arg(long, default_value_t = 20_000, value_parser = at_least_one::<usize>())]
    count: usize,
    /// Number of connections, each with a thread of its own.
    #[arg(long, default_value_t = 8, value_parser = at_least_one::<usize>())]
    connections: usize,
    /// Number of events that a connection sends before it waits for the answers; each number gives a table.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 1], value_parser = at_least_one::<usize>())]
    window: Vec<usize>,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = plan.servers.begin("Events published to relays");
    let events = events(&plan.events, plan.skip, plan.count * plan.window.len())?;
    let messages: Vec<Vec<u8>> = events.iter().map(|event| frame(&format!("[\"EVENT\",{event}]"))).collect();
    let mut tables: Vec<Table> = plan.window.iter().map(|window| table(plan, *window)).collect();
    for entry in plan.servers.entries() {
        let measured = measure(plan, &entry, &messages);
        for (index, table) in tables.iter_mut().enumerate() {
            match &measured {
                Ok(windows) => table.push_result(entry.name(), &windows[index], Clone::clone),
                Err(error) => table.push(entry.name(), [Cell::failed(error)]),
            }
        }
    }
    record.tables = tables;
    record.note(
        "The meaning of OK differs. Birdhouse and strfry send it when the event is on the disk. rnostr 0.4.8 sends it \
         while the transaction of the event is still open; transactions are written every 100 ms. nostr-rs-relay \
         writes a log that survives a crash of the relay, not one of the machine (SQLite's synchronous=NORMAL).",
    );
    record.note(
        "Birdhouse stores events on one thread, its writer, which bounds the events a second. Signatures are checked on \
         other threads.",
    );
    record.note(NAGLE);
    Ok(record)
}

fn table(plan: &Plan, window: usize) -> Table {
    let meaning = format!("{} events over {} connections, {window} in flight on each.", plan.count, plan.connections);
    let columns = [
        ("events", Unit::PerSecond),
        ("relay's CPU for one", Unit::Seconds),
        ("its writer's", Unit::Seconds),
        ("OK true", Unit::Count),
        ("resident", Unit::Bytes),
        ("most memory", Unit::Bytes),
    ];
    let title = format!("Events published, {window} in flight");
    Table::new(title, meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

/// Measures each window with events of its own.
fn measure(plan: &Plan, entry: &Entry, messages: &[Vec<u8>]) -> Result<Vec<Result<[Cell; 6]>>> {
    let relay = plan.servers.start(entry, Keep::Copy)?;
    let windows = plan.window.iter().zip(messages.chunks(plan.count));
    Ok(windows.map(|(window, messages)| measure_window(plan, &relay, *window, messages)).collect())
}

fn measure_window(plan: &Plan, relay: &RelayInUse, window: usize, messages: &[Vec<u8>]) -> Result<[Cell; 6]> {
    let (before, writer_before) = (relay.at.cpu()?, relay.at.cpu_of_writer()?);
    let started = Instant::now();
    let taken = publish(&relay.at, messages, plan.connections, window)?;
    let wall = started.elapsed();
    let between = |(now, before): (Duration, Duration)| now.saturating_sub(before);
    let cpu = relay.at.cpu()?.zip(before).map(between);
    let of_writer = relay.at.cpu_of_writer()?.zip(writer_before).map(between);
    let usage = relay.usage()?;
    let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Nothing, Cell::count);
    Ok([
        per_second(messages.len(), wall),
        of_each(cpu, messages.len()),
        of_each(of_writer, messages.len()),
        Cell::count(taken as u64),
        bytes(usage.map(|usage| usage.resident_bytes)),
        bytes(usage.map(|usage| usage.resident_bytes_max)),
    ])
}

/// Publishes a share of the events on every connection; returns the number of accepted events.
fn publish(relay: &RelayAt, messages: &[Vec<u8>], connections: usize, window: usize) -> Result<usize> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|index| {
                let share: Vec<&[u8]> = messages.iter().skip(index).step_by(connections).map(Vec::as_slice).collect();
                scope.spawn(move || publish_share(relay, &share, window))
            })
            .collect();
        let taken = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a connection panicked"))?);
        taken.sum()
    })
}

fn publish_share(relay: &RelayAt, share: &[&[u8]], window: usize) -> Result<usize> {
    let mut socket = Socket::connect(relay)?;
    let mut taken = 0;
    for some in share.chunks(window) {
        socket.send(&some.concat())?;
        let mut answers = 0;
        while answers < some.len() {
            let message = socket.receive().context("failed to read OK")?;
            if message.starts_with(b"[\"OK\"") {
                answers += 1;
                taken += usize::from(memchr::memmem::find(message, b",true").is_some());
            }
        }
    }
    Ok(taken)
}
