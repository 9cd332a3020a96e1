//! Events published over sockets: how many a second are answered OK, and the relay's CPU time for one.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::socket::{Socket, frame};
use super::{RelayAt, begin, events};
use crate::durations::{of_each, per_second};
use crate::process::cpu_time;
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Who is published to: NAME=ws://HOST:PORT, and #PID for its CPU time.
    #[arg(long = "relay", required = true)]
    relays: Vec<RelayAt>,
    /// Events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Events of the file to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Events to publish.
    #[arg(long, default_value_t = 20_000)]
    count: usize,
    /// Connections, each with a thread of its own.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Events that a connection sends before it waits for their answers.
    #[arg(long, default_value_t = 50)]
    window: usize,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = begin("Events published to relays", &plan.relays);
    let messages: Vec<Vec<u8>> = events(&plan.events, plan.skip, plan.count)?
        .iter()
        .map(|event| frame(&format!("[\"EVENT\",{event}]")))
        .collect();
    let meaning =
        format!("{} events over {} connections, {} under way on each.", plan.count, plan.connections, plan.window);
    let columns = [("events", Unit::PerSecond), ("relay's CPU for one", Unit::Seconds), ("OK true", Unit::Count)];
    let columns = columns.map(|(title, unit)| Column::new(title, unit));
    let mut table = Table::new("Events published", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for relay in &plan.relays {
        table.push_result(&relay.name, &measure(relay, &messages, plan), Clone::clone);
    }
    record.tables.push(table);
    Ok(record)
}

fn measure(relay: &RelayAt, messages: &[Vec<u8>], plan: &Plan) -> Result<[Cell; 3]> {
    let before = relay.pid.map(cpu_time).transpose()?;
    let started = Instant::now();
    let taken = publish(relay, messages, plan)?;
    let wall = started.elapsed();
    let cpu = match relay.pid.zip(before) {
        Some((pid, before)) => Some(cpu_time(pid)?.saturating_sub(before)),
        None => None,
    };
    Ok([per_second(plan.count, wall), of_each(cpu, plan.count), Cell::count(taken as u64)])
}

/// Every connection publishes its share; how many events were taken.
fn publish(relay: &RelayAt, messages: &[Vec<u8>], plan: &Plan) -> Result<usize> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.connections)
            .map(|place| {
                let share: Vec<&[u8]> =
                    messages.iter().skip(place).step_by(plan.connections).map(Vec::as_slice).collect();
                scope.spawn(move || share_of_one(relay, &share, plan.window))
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
