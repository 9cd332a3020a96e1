//! Events published over sockets: how many a second are answered OK, and the relay's CPU time for one.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::servers::{Entry, Keep, Servers, Standing};
use super::socket::{Socket, frame};
use super::{NAGLE, RelayAt, events};
use crate::at_least_one;
use crate::durations::{of_each, per_second};
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Those that are started here get the events beside a copy of what `relay` left in the folder.
    #[command(flatten)]
    servers: Servers,
    /// Events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Events of the file to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Events to publish, for each window.
    #[arg(long, default_value_t = 20_000, value_parser = at_least_one::<usize>())]
    count: usize,
    /// Connections, each with a thread of its own.
    #[arg(long, default_value_t = 8, value_parser = at_least_one::<usize>())]
    connections: usize,
    /// Events that a connection sends before it waits for their answers; several give a table each.
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
        for (place, table) in tables.iter_mut().enumerate() {
            match &measured {
                Ok(windows) => table.push_result(entry.name(), &windows[place], Clone::clone),
                Err(error) => table.push(entry.name(), [Cell::failed(error)]),
            }
        }
    }
    record.tables = tables;
    record.note(
        "What OK means differs. Birdhouse and strfry say it when the event is on the disk. rnostr 0.4.8 says it while the \
         transaction of the event is still open, which is written every 100 ms. nostr-rs-relay writes a log that survives its own \
         end, and not that of the machine (SQLite's synchronous=NORMAL).",
    );
    record.note(NAGLE);
    Ok(record)
}

fn table(plan: &Plan, window: usize) -> Table {
    let meaning = format!("{} events over {} connections, {window} under way on each.", plan.count, plan.connections);
    let columns = [
        ("events", Unit::PerSecond),
        ("relay's CPU for one", Unit::Seconds),
        ("OK true", Unit::Count),
        ("resident", Unit::Bytes),
        ("most memory", Unit::Bytes),
    ];
    let title = format!("Events published, {window} under way");
    Table::new(title, meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

/// Each window has events of its own.
fn measure(plan: &Plan, entry: &Entry, messages: &[Vec<u8>]) -> Result<Vec<Result<[Cell; 5]>>> {
    let relay = plan.servers.stand(entry, Keep::Copy)?;
    let windows = plan.window.iter().zip(messages.chunks(plan.count));
    Ok(windows.map(|(window, messages)| measure_window(plan, &relay, *window, messages)).collect())
}

fn measure_window(plan: &Plan, relay: &Standing, window: usize, messages: &[Vec<u8>]) -> Result<[Cell; 5]> {
    let before = relay.at.cpu()?;
    let started = Instant::now();
    let taken = publish(&relay.at, messages, plan.connections, window)?;
    let wall = started.elapsed();
    let cpu = relay.at.cpu()?.zip(before).map(|(now, before)| now.saturating_sub(before));
    let usage = relay.usage()?;
    let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Nothing, Cell::count);
    Ok([
        per_second(messages.len(), wall),
        of_each(cpu, messages.len()),
        Cell::count(taken as u64),
        bytes(usage.map(|usage| usage.resident_bytes)),
        bytes(usage.map(|usage| usage.resident_bytes_max)),
    ])
}

/// Every connection publishes its share; how many events were taken.
fn publish(relay: &RelayAt, messages: &[Vec<u8>], connections: usize, window: usize) -> Result<usize> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|place| {
                let share: Vec<&[u8]> = messages.iter().skip(place).step_by(connections).map(Vec::as_slice).collect();
                scope.spawn(move || share_of_one(relay, &share, window))
            })
            .collect();
        let taken = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a connection panicked"))?);
        taken.sum()
    })
}

fn share_of_one(relay: &RelayAt, share: &[&[u8]], window: usize) -> Result<usize> {
    let mut socket = Socket::connect(relay)?;
    let mut taken = 0;
    for some in share.chunks(window) {
        socket.send(&some.concat())?;
        let mut answers = 0;
        while answers < some.len() {
            let message = socket.hear().context("waiting for OK")?;
            if message.starts_with(b"[\"OK\"") {
                answers += 1;
                taken += usize::from(memchr::memmem::find(message, b",true").is_some());
            }
        }
    }
    Ok(taken)
}
