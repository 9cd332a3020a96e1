//! Delivery from one publisher to many subscribers: the delay of each event, and the number of its deliveries.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_testkit::usage::own_cpu;

use super::event::{Id, events, id};
use super::relay_at::RelayAt;
use super::servers::{Entry, Keep, RelayInUse, Servers};
use super::socket::{NAGLE, Offer, Socket, frame};
use crate::machine::args::at_least_one;
use crate::report::durations::{Durations, of_each, per_second};
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    // Relays to start have a copy of the events that `relay` loaded.
    #[command(flatten)]
    servers: Servers,
    /// File of events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Number of events to skip at the beginning of the file.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Number of events published one by one.
    #[arg(long, default_value_t = 400, value_parser = at_least_one::<usize>())]
    paced: usize,
    /// Number of those events a second.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u32>())]
    rate: u32,
    /// Number of events published at once.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one::<usize>())]
    burst: usize,
    /// Number of connections that subscribe to all events.
    #[arg(long, default_value_t = 100, value_parser = at_least_one::<usize>())]
    subscribers: usize,
    /// Accept compressed messages (permessage-deflate), as browsers do; a relay without them fails.
    #[arg(long)]
    deflate: bool,
}

/// Message sent after the last event on each connection.
const END: &str =
    "[\"REQ\",\"end\",{\"ids\":[\"0000000000000000000000000000000000000000000000000000000000000000\"],\"limit\":1}]";

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = plan.servers.begin("Delivery of events by relays");
    let mut all = public_events(&plan.events, plan.skip, plan.paced + plan.burst)?;
    let burst = all.split_off(plan.paced);
    let paced = all;
    let meaning = format!(
        "{} subscribers{}; {} events at {} a second, then {} at once. Delay: from sending an event until a subscriber \
         has received it.",
        plan.subscribers,
        if plan.deflate { " that accept compressed messages" } else { "" },
        plan.paced,
        plan.rate,
        plan.burst
    );
    let columns = [
        ("delay, steady", Unit::Seconds),
        ("delay, at once", Unit::Seconds),
        ("deliveries, at once", Unit::PerSecond),
        ("relay's CPU for one", Unit::Seconds),
        ("CPU of the subscribers", Unit::Cpus),
        ("once", Unit::Count),
        ("more than once", Unit::Count),
        ("never", Unit::Count),
        ("most memory", Unit::Bytes),
    ];
    let mut table = Table::new("Fan-out", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for entry in plan.servers.entries() {
        table.push_result(entry.name(), &both(plan, &entry, &paced, &burst), Clone::clone);
    }
    record.tables.push(table);
    record.note(NAGLE);
    Ok(record)
}

fn both(plan: &Plan, entry: &Entry, paced: &[String], burst: &[String]) -> Result<[Cell; 9]> {
    let relay = plan.servers.start(entry, Keep::Copy)?;
    let slow = measure(&relay, plan, paced, Duration::from_secs(1) / plan.rate)?;
    let fast = measure(&relay, plan, burst, Duration::ZERO)?;
    let count = |number: usize| Cell::count(number as u64);
    Ok([
        slow.delays.with_p99(),
        fast.delays.with_p99(),
        per_second(fast.delays.len(), fast.wall),
        of_each(fast.cpu, fast.delays.len()),
        Cell::number(fast.own_cpu_s / fast.wall.as_secs_f64()),
        count(slow.delays.len() + fast.delays.len()),
        count(slow.repeated + fast.repeated),
        count(slow.missing + fast.missing),
        relay.usage()?.map_or(Cell::Nothing, |usage| Cell::count(usage.resident_bytes_max)),
    ])
}

/// Reads events that every relay delivers to every subscriber: notes and reactions.
fn public_events(file: &Path, skip: usize, count: usize) -> Result<Vec<String>> {
    let mut chosen = events(file, skip, 3 * count)?;
    chosen.retain(|event| event.contains("\"kind\":1,") || event.contains("\"kind\":7,"));
    chosen.truncate(count);
    ensure!(chosen.len() == count, "there are only {} notes and reactions", chosen.len());
    Ok(chosen)
}

#[derive(Default)]
struct Figures {
    /// Delay of each event and subscriber, first delivery.
    delays: Durations,
    wall: Duration,
    cpu: Option<Duration>,
    /// CPU time of this process.
    own_cpu_s: f64,
    repeated: usize,
    missing: usize,
}

/// Events that one subscriber received, in their order.
type Received = Vec<(Id, Instant)>;

fn measure(relay: &RelayInUse, plan: &Plan, events: &[String], pause: Duration) -> Result<Figures> {
    let offer = if plan.deflate { Offer::Deflate } else { Offer::Nothing };
    let sockets = (0..plan.subscribers).map(|_| subscribe(&relay.at, offer));
    let mut sockets = sockets.collect::<Result<Vec<_>>>()?;
    let mut publisher = Socket::connect(&relay.at)?;
    let (before, own) = (relay.at.cpu()?, own_cpu().as_secs_f64());
    let started = Instant::now();
    let (sent, received) = thread::scope(|scope| {
        let threads: Vec<_> =
            sockets.iter_mut().map(|socket| scope.spawn(|| receive_events(socket, events.len()))).collect();
        let sent = publish(&mut publisher, events, pause);
        let received = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a subscriber panicked")));
        let received = received.collect::<Result<Vec<_>>>();
        anyhow::Ok((sent?, received?))
    })?;
    let own_cpu_s = own_cpu().as_secs_f64() - own;
    let cpu = relay.at.cpu()?.zip(before).map(|(now, before)| now.saturating_sub(before));
    let mut figures = Figures { cpu, own_cpu_s, ..Figures::default() };
    for one in received {
        figures.add(&one?, &sent, started)?;
    }
    Ok(figures)
}

impl Figures {
    fn add(&mut self, received: &[(Id, Instant)], sent: &HashMap<Id, Instant>, started: Instant) -> Result<()> {
        let mut there = HashSet::new();
        for (id, at) in received {
            let sent = sent.get(id).context("an event arrived that was not published")?;
            if there.insert(id) {
                self.delays.add(at.saturating_duration_since(*sent));
                self.wall = self.wall.max(at.saturating_duration_since(started));
            } else {
                self.repeated += 1;
            }
        }
        self.missing += sent.len() - there.len();
        Ok(())
    }
}

/// Subscribes to all new events, after one stored event: nostr-rs-relay sends no EOSE for a limit of 0.
fn subscribe(relay: &RelayAt, offer: Offer) -> Result<Socket> {
    let mut socket = Socket::connect_with(relay, offer)?;
    socket.send(&frame("[\"REQ\",\"live\",{\"limit\":1}]"))?;
    while !socket.receive()?.starts_with(b"[\"EOSE\"") {}
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
        while !socket.receive()?.starts_with(b"[\"OK\"") {}
    }
    Ok(sent)
}

/// Receives until `count` different events arrived, or none for long; then further ones until a last query is answered.
fn receive_events(socket: &mut Socket, count: usize) -> Result<Received> {
    let (mut events, mut there) = (Vec::with_capacity(count), HashSet::new());
    while there.len() < count {
        let Ok(message) = socket.receive() else { return Ok(events) };
        if message.starts_with(b"[\"EVENT\"") {
            let id = id(message).context("an id")?;
            events.push((id, Instant::now()));
            there.insert(id);
        } else {
            ensure!(!message.starts_with(b"[\"CLOSED\""), "the relay closed the subscription");
        }
    }
    socket.send(&frame(END))?;
    loop {
        let message = socket.receive()?;
        if message.starts_with(b"[\"EVENT\"") {
            events.push((id(message).context("an id")?, Instant::now()));
        } else if message.starts_with(b"[\"EOSE\"") {
            return Ok(events);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn events_received_twice_or_never_are_counted() {
        let now = Instant::now();
        let sent = HashMap::from([([b'a'; 64], now), ([b'b'; 64], now)]);
        let mut figures = Figures::default();
        figures.add(&[([b'a'; 64], now), ([b'a'; 64], now)], &sent, now).unwrap();
        assert_eq!((figures.delays.len(), figures.repeated, figures.missing), (1, 1, 1));
        assert!(figures.add(&[([b'c'; 64], now)], &sent, now).is_err());
    }
}
