//! One publishes, many hear: from the moment an event is sent until each subscriber has it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::socket::{Socket, frame};
use super::{RelayAt, begin, events, id};
use crate::durations::{Durations, of_each, per_second};
use crate::process::cpu_time;
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Who is measured: NAME=ws://HOST:PORT, and #PID for its CPU time.
    #[arg(long = "relay", required = true)]
    relays: Vec<RelayAt>,
    /// Events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Events of the file to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Events published one by one.
    #[arg(long, default_value_t = 200)]
    paced: usize,
    /// How many of those a second.
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// Events published at once.
    #[arg(long, default_value_t = 1000)]
    burst: usize,
    /// Connections that hear everything.
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
}

type Id = [u8; 64];

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = begin("Events told by relays", &plan.relays);
    let mut all = told(&plan.events, plan.skip, plan.paced + plan.burst)?;
    let burst = all.split_off(plan.paced);
    let paced = all;
    let meaning = format!(
        "{} subscribers; {} events at {} a second, then {} at once. Delay: from sending an event until a subscriber has it, at that rate.",
        plan.subscribers, plan.paced, plan.rate, plan.burst
    );
    let columns = [
        ("delay", Unit::Seconds),
        ("deliveries at once", Unit::PerSecond),
        ("relay's CPU for one", Unit::Seconds),
        ("delivered", Unit::Count),
    ];
    let columns = columns.map(|(title, unit)| Column::new(title, unit));
    let mut table = Table::new("Fan-out", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for relay in &plan.relays {
        table.push_result(&relay.name, &both(relay, &paced, &burst, plan), Clone::clone);
    }
    record.tables.push(table);
    Ok(record)
}

fn both(relay: &RelayAt, paced: &[String], burst: &[String], plan: &Plan) -> Result<[Cell; 4]> {
    let slow = measure(relay, paced, plan.subscribers, Duration::from_secs(1) / plan.rate)?;
    let fast = measure(relay, burst, plan.subscribers, Duration::ZERO)?;
    let delivered = slow.delays.len() + fast.delays.len();
    Ok([
        slow.delays.with_p99(),
        per_second(fast.delays.len(), fast.wall),
        of_each(fast.cpu, fast.delays.len()),
        Cell::count(delivered as u64),
    ])
}

/// Events that every relay tells everybody: notes and reactions.
fn told(file: &Path, skip: usize, count: usize) -> Result<Vec<String>> {
    let mut told = events(file, skip, 3 * count)?;
    told.retain(|event| event.contains("\"kind\":1,") || event.contains("\"kind\":7,"));
    told.truncate(count);
    ensure!(told.len() == count, "there are only {} notes and reactions", told.len());
    Ok(told)
}

struct Figures {
    delays: Durations,
    wall: Duration,
    cpu: Option<Duration>,
}

fn measure(relay: &RelayAt, events: &[String], subscribers: usize, pause: Duration) -> Result<Figures> {
    let mut sockets = (0..subscribers).map(|_| subscribe(relay)).collect::<Result<Vec<_>>>()?;
    let mut publisher = Socket::connect(relay)?;
    let before = relay.pid.map(cpu_time).transpose()?;
    let started = Instant::now();
    let (sent, heard) = thread::scope(|scope| {
        let threads: Vec<_> = sockets.iter_mut().map(|socket| scope.spawn(|| hear(socket, events.len()))).collect();
        let sent = publish(&mut publisher, events, pause);
        let heard = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a subscriber panicked"))?);
        let heard = heard.collect::<Result<Vec<_>>>();
        anyhow::Ok((sent?, heard?))
    })?;
    let mut figures = Figures { delays: Durations::default(), wall: Duration::ZERO, cpu: None };
    for (id, at) in heard.into_iter().flatten() {
        figures.delays.add(at.saturating_duration_since(*sent.get(&id).context("nobody sent this event")?));
        figures.wall = figures.wall.max(at.saturating_duration_since(started));
    }
    if let Some((pid, before)) = relay.pid.zip(before) {
        figures.cpu = Some(cpu_time(pid)?.saturating_sub(before));
    }
    Ok(figures)
}

/// Hears of everything that is new.
fn subscribe(relay: &RelayAt) -> Result<Socket> {
    let mut socket = Socket::connect(relay)?;
    socket.send(&frame("[\"REQ\",\"live\",{\"limit\":0}]"))?;
    while !socket.hear()?.starts_with(b"[\"EOSE\"") {}
    Ok(socket)
}

fn publish(socket: &mut Socket, events: &[String], pause: Duration) -> Result<HashMap<Id, Instant>> {
    let messages: Vec<(Id, Vec<u8>)> = events
        .iter()
        .map(|event| Ok((id(event.as_bytes()).context("an id")?, frame(&format!("[\"EVENT\",{event}]")))))
        .collect::<Result<_>>()?;
    let mut sent = HashMap::new();
    for (id, message) in &messages {
        sent.insert(*id, Instant::now());
        socket.send(message)?;
        thread::sleep(pause);
    }
    for _ in &messages {
        while !socket.hear()?.starts_with(b"[\"OK\"") {}
    }
    Ok(sent)
}

fn hear(socket: &mut Socket, count: usize) -> Result<Vec<(Id, Instant)>> {
    let mut heard = Vec::with_capacity(count);
    while heard.len() < count {
        let message = socket.hear()?;
        if message.starts_with(b"[\"EVENT\"") {
            heard.push((id(message).context("an id")?, Instant::now()));
        } else {
            ensure!(!message.starts_with(b"[\"CLOSED\""), "the relay ends the subscription");
        }
    }
    Ok(heard)
}
