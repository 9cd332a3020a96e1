//! One publishes, many hear: from the moment an event is sent until each subscriber has it, and whether it has it once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::servers::{Entry, Keep, Servers, Standing};
use super::socket::{Offer, Socket, frame};
use super::{Id, NAGLE, RelayAt, events, id};
use crate::at_least_one;
use crate::durations::{Durations, of_each, per_second};
use crate::process::cpu_of_this;
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Those that are started here have a copy of what `relay` left in the folder.
    #[command(flatten)]
    servers: Servers,
    /// Events that the relays do not have yet, one a line.
    #[arg(long)]
    events: PathBuf,
    /// Events of the file to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Events published one by one.
    #[arg(long, default_value_t = 400, value_parser = at_least_one::<usize>())]
    paced: usize,
    /// How many of those a second.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u32>())]
    rate: u32,
    /// Events published at once.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one::<usize>())]
    burst: usize,
    /// Connections that hear everything.
    #[arg(long, default_value_t = 100, value_parser = at_least_one::<usize>())]
    subscribers: usize,
    /// Subscribers take compressed messages (permessage-deflate), as browsers do; a relay that sends none fails.
    #[arg(long)]
    deflate: bool,
}

/// What follows the last event on each connection.
const END: &str =
    "[\"REQ\",\"end\",{\"ids\":[\"0000000000000000000000000000000000000000000000000000000000000000\"],\"limit\":1}]";

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = plan.servers.begin("Events told by relays");
    let mut all = told(&plan.events, plan.skip, plan.paced + plan.burst)?;
    let burst = all.split_off(plan.paced);
    let paced = all;
    let meaning = format!(
        "{} subscribers{}; {} events at {} a second, then {} at once. Delay: from sending an event until a subscriber has it.",
        plan.subscribers,
        if plan.deflate { " that take compressed messages" } else { "" },
        plan.paced,
        plan.rate,
        plan.burst
    );
    let columns = [
        ("delay, steady", Unit::Seconds),
        ("delay, at once", Unit::Seconds),
        ("deliveries, at once", Unit::PerSecond),
        ("relay's CPU for one", Unit::Seconds),
        ("CPU of the subscribers meanwhile", Unit::Cpus),
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
    let relay = plan.servers.stand(entry, Keep::Copy)?;
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

/// Events that every relay tells everybody: notes and reactions.
fn told(file: &Path, skip: usize, count: usize) -> Result<Vec<String>> {
    let mut told = events(file, skip, 3 * count)?;
    told.retain(|event| event.contains("\"kind\":1,") || event.contains("\"kind\":7,"));
    told.truncate(count);
    ensure!(told.len() == count, "there are only {} notes and reactions", told.len());
    Ok(told)
}

#[derive(Default)]
struct Figures {
    /// Of each event and subscriber, the first time.
    delays: Durations,
    wall: Duration,
    cpu: Option<Duration>,
    /// CPU time of this process.
    own_cpu_s: f64,
    repeated: usize,
    missing: usize,
}

/// What one subscriber heard, in the order in which it came.
type Heard = Vec<(Id, Instant)>;

fn measure(relay: &Standing, plan: &Plan, events: &[String], pause: Duration) -> Result<Figures> {
    let offer = if plan.deflate { Offer::Deflate } else { Offer::Nothing };
    let sockets = (0..plan.subscribers).map(|_| subscribe(&relay.at, offer));
    let mut sockets = sockets.collect::<Result<Vec<_>>>()?;
    let mut publisher = Socket::connect(&relay.at)?;
    let (before, own) = (relay.at.cpu()?, cpu_of_this()?);
    let started = Instant::now();
    let (sent, heard) = thread::scope(|scope| {
        let threads: Vec<_> = sockets.iter_mut().map(|socket| scope.spawn(|| hear(socket, events.len()))).collect();
        let sent = publish(&mut publisher, events, pause);
        let heard = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a subscriber panicked")));
        let heard = heard.collect::<Result<Vec<_>>>();
        anyhow::Ok((sent?, heard?))
    })?;
    let own_cpu_s = cpu_of_this()? - own;
    let cpu = relay.at.cpu()?.zip(before).map(|(now, before)| now.saturating_sub(before));
    let mut figures = Figures { cpu, own_cpu_s, ..Figures::default() };
    for one in heard {
        figures.add(&one?, &sent, started)?;
    }
    Ok(figures)
}

impl Figures {
    fn add(&mut self, heard: &[(Id, Instant)], sent: &HashMap<Id, Instant>, started: Instant) -> Result<()> {
        let mut there = HashSet::new();
        for (id, at) in heard {
            let sent = sent.get(id).context("nobody sent this event")?;
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

/// Hears of everything that is new, after one stored event: nostr-rs-relay says no EOSE if none is asked for.
fn subscribe(relay: &RelayAt, offer: Offer) -> Result<Socket> {
    let mut socket = Socket::connect_with(relay, offer)?;
    socket.send(&frame("[\"REQ\",\"live\",{\"limit\":1}]"))?;
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

/// Listens until so many different events came, or nothing for long; then whether more of them come before a question that is asked
/// last is answered.
fn hear(socket: &mut Socket, count: usize) -> Result<Heard> {
    let (mut events, mut there) = (Vec::with_capacity(count), HashSet::new());
    while there.len() < count {
        let Ok(message) = socket.hear() else { return Ok(events) };
        if message.starts_with(b"[\"EVENT\"") {
            let id = id(message).context("an id")?;
            events.push((id, Instant::now()));
            there.insert(id);
        } else {
            ensure!(!message.starts_with(b"[\"CLOSED\""), "the relay ends the subscription");
        }
    }
    socket.send(&frame(END))?;
    loop {
        let message = socket.hear()?;
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
    fn an_event_that_comes_twice_or_never_is_counted_so() {
        let now = Instant::now();
        let sent = HashMap::from([([b'a'; 64], now), ([b'b'; 64], now)]);
        let mut figures = Figures::default();
        figures.add(&[([b'a'; 64], now), ([b'a'; 64], now)], &sent, now).unwrap();
        assert_eq!((figures.delays.len(), figures.repeated, figures.missing), (1, 1, 1));
        assert!(figures.add(&[([b'c'; 64], now)], &sent, now).is_err());
    }
}
