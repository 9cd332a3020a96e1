//! REQs of the shapes that clients ask, one at a time over one connection: how long until EOSE, and whether relays agree.
//!
//! Every query of a shape is asked in turn; relays take turns from pass to pass. The first pass is dropped, and its answers
//! are compared instead; where they differ as sets, the reasons are looked for when all is measured.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::differences::{Counts, Pair};
use super::questions::{Answer, Figures, alike, by_shape, set, up_to_eose};
use super::servers::{Keep, Servers, Standing, memory};
use super::socket::{Silent, Socket, frame};
use super::{NAGLE, id};
use crate::at_least_one;
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::server_at::turns;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    servers: Servers,
    /// Events, one a line, that relays which are started here take in first.
    #[arg(long, required_unless_present = "relays")]
    events: Option<PathBuf>,
    /// What `make-events --queries` wrote with them.
    #[arg(long)]
    queries: PathBuf,
    /// Passes over the queries of a shape; the first does not count.
    #[arg(long, default_value_t = 11, value_parser = at_least_one::<usize>())]
    passes: usize,
    /// A relay that took so many seconds for a shape is asked no more of it (after the second pass).
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<u64>())]
    budget_s: u64,
    /// Only shapes that contain this.
    #[arg(long)]
    only: Option<String>,
}

/// Queries of a shape.
struct Shape {
    name: String,
    queries: Vec<Asked>,
}

/// One query.
struct Asked {
    filter: Value,
    /// Its REQ.
    frame: Vec<u8>,
}

/// One who is asked.
struct Seat {
    relay: Standing,
    socket: Socket,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = plan.servers.begin("What clients ask of relays");
    let shapes = shapes(plan)?;
    if let Some(events) = &plan.events {
        record.tables.extend(plan.servers.fill(events)?);
    }
    let mut seats = Vec::new();
    for entry in plan.servers.entries() {
        match plan.servers.stand(&entry, Keep::Events).and_then(Seat::of) {
            Ok(seat) => seats.push(seat),
            Err(error) => record.note(format!("{} is left out: {error:#}", entry.name())),
        }
    }
    ensure!(!seats.is_empty(), "no relay can be asked: {}", record.notes.join("; "));
    let mut tables = Tables::of(&seats);
    let mut all = Vec::new();
    for shape in &shapes {
        let figures = measure(plan, shape, &mut seats);
        tables.push(shape, &figures);
        all.push(figures);
    }
    let held = memory(seats.iter().map(|seat| &seat.relay));
    let differences = differences(&shapes, &all, &mut seats);
    record.tables.extend([tables.latency, tables.cpu, tables.answers]);
    record.tables.extend(differences);
    record.tables.push(held);
    record.note(NAGLE);
    Ok(record)
}

/// All passes over a shape.
fn measure(plan: &Plan, shape: &Shape, seats: &mut [Seat]) -> Vec<Figures> {
    let mut figures: Vec<Figures> = seats.iter().map(|_| Figures::default()).collect();
    let budget = Duration::from_secs(plan.budget_s);
    for (pass, place) in turns(seats.len(), plan.passes) {
        let (seat, one) = (&mut seats[place], &mut figures[place]);
        if !one.is_asked(pass, budget) {
            continue;
        }
        if let Err(error) = seat.ask(shape, pass == 0, one) {
            one.refusal = Some(match error.downcast_ref::<Silent>() {
                Some(silent) => Cell::text(silent.to_string()),
                None => Cell::failed(&error),
            });
            // The others' connections were silent for as long. Who went away keeps the old one, and fails again.
            for seat in &mut *seats {
                if let Ok(socket) = Socket::connect(&seat.relay.at) {
                    seat.socket = socket;
                }
            }
        }
    }
    figures
}

fn shapes(plan: &Plan) -> Result<Vec<Shape>> {
    let shapes = by_shape(&plan.queries, |name| plan.only.as_ref().is_none_or(|only| name.contains(only)))?;
    let asked = |filter| Asked { frame: frame(&format!("[\"REQ\",\"q\",{filter}]")), filter };
    let shape =
        |(name, filters): (String, Vec<Value>)| Shape { name, queries: filters.into_iter().map(asked).collect() };
    Ok(shapes.into_iter().map(shape).collect())
}

impl Seat {
    fn of(relay: Standing) -> Result<Self> {
        Ok(Self { socket: Socket::connect(&relay.at)?, relay })
    }

    /// Every query of a shape once.
    fn ask(&mut self, shape: &Shape, is_first: bool, figures: &mut Figures) -> Result<()> {
        let close = frame("[\"CLOSE\",\"q\"]");
        let (began, before) = (Instant::now(), self.relay.at.cpu()?);
        for query in &shape.queries {
            let mut answer = Answer::new();
            let started = Instant::now();
            self.socket.send(&query.frame)?;
            let answered = up_to_eose(&mut self.socket, |event| {
                if is_first {
                    answer.push(id(event).context("an event without an id")?);
                }
                Ok(())
            })?;
            let taken = started.elapsed();
            self.socket.send(&close)?;
            match answered {
                Ok(()) if is_first => figures.answers.push(answer),
                Ok(()) => figures.durations.add(taken),
                Err(said) => {
                    figures.refusal = Some(Cell::Refused { reason: format!("{said:.80}") });
                    return Ok(());
                }
            }
        }
        if !is_first {
            figures.add_cpu(before, self.relay.at.cpu()?);
        }
        figures.spent += began.elapsed();
        Ok(())
    }
}

/// What is told of all shapes.
struct Tables {
    latency: Table,
    cpu: Table,
    answers: Table,
}

impl Tables {
    fn of(seats: &[Seat]) -> Self {
        let columns = |unit| seats.iter().map(move |seat| (seat.relay.at.name.as_str(), unit));
        let first = &seats[0].relay.at.name;
        let answers = [("events, mean", Unit::Count)].into_iter().chain(columns(Unit::Words).skip(1));
        let layout = Layout::ServersInColumns;
        Self {
            latency: Table::new("From REQ to EOSE", "One at a time.", layout, columns(Unit::Seconds)).drawn(Plot::Dots),
            cpu: Table::new("The relay's CPU time for a query", "All of its threads.", layout, columns(Unit::Seconds)),
            answers: Table::new(
                format!("Answers, beside those of {first}"),
                "How many queries have the same set of events, and how many of these in the same order.",
                Layout::OneServer,
                answers,
            ),
        }
    }

    fn push(&mut self, shape: &Shape, figures: &[Figures]) {
        // With one who answered some queries alone, nobody can be compared.
        let ours = Some(&figures[0].answers).filter(|answers| answers.len() == shape.queries.len());
        let mean = ours
            .map_or(Cell::Nothing, |ours| Cell::count((ours.iter().map(Vec::len).sum::<usize>() / ours.len()) as u64));
        let of_answers = |one: &Figures| match (&one.refusal, ours) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(ours)) => Cell::text(agreement(ours, &one.answers)),
            (None, None) => Cell::Nothing,
        };
        self.latency.push(&shape.name, figures.iter().map(Figures::latency));
        self.cpu.push(&shape.name, figures.iter().map(Figures::cpu_of_one));
        self.answers.push(&shape.name, [mean].into_iter().chain(figures.iter().skip(1).map(of_answers)));
    }
}

/// How many answers are the same, and how many of these in the same order.
fn agreement(ours: &[Answer], theirs: &[Answer]) -> String {
    let (same, ordered) = alike(ours, theirs);
    if ordered == ours.len() { "all".to_owned() } else { format!("{same}, ordered {ordered} of {}", ours.len()) }
}

// === differences ===

/// Why answers differ from the first relay's, shape by shape; no table if none does.
fn differences(shapes: &[Shape], all: &[Vec<Figures>], seats: &mut [Seat]) -> Option<Table> {
    let (first, others) = seats.split_first_mut()?;
    let columns = others.iter().map(|seat| (&seat.relay.at.name, Unit::Words));
    let mut table = Table::new(
        format!("Why answers differ from those of {}", first.relay.at.name),
        "Events that are in one of the two answers to a query, for all queries of a shape.",
        Layout::OneServer,
        columns,
    );
    for (shape, figures) in shapes.iter().zip(all) {
        let reasons = others.iter_mut().zip(&figures[1..]).map(|(seat, theirs)| {
            let reasons = why(first, seat, shape, [&figures[0], theirs]);
            reasons.map_err(|error| format!("{error:#}")).unwrap_or_else(|error| Counts::from([(error, 1)]))
        });
        let reasons: Vec<Counts> = reasons.collect();
        if reasons.iter().any(|counts| !counts.is_empty()) {
            table.push(&shape.name, reasons.iter().map(|counts| Cell::text(listed(counts))));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn why(first: &mut Seat, other: &mut Seat, shape: &Shape, figures: [&Figures; 2]) -> Result<Counts> {
    let mut counts = Counts::new();
    if figures.iter().any(|figures| figures.refusal.is_some()) {
        return Ok(counts);
    }
    let names = [&first.relay.at, &other.relay.at].map(|at| at.name.as_str());
    let mut pair = Pair { names, sockets: [&mut first.socket, &mut other.socket], now: now() };
    for (query, answers) in shape.queries.iter().zip(figures[0].answers.iter().zip(&figures[1].answers)) {
        if set(answers.0) != set(answers.1) {
            pair.compare(&query.filter, [answers.0, answers.1], &mut counts)?;
        }
    }
    Ok(counts)
}

#[expect(clippy::disallowed_methods, reason = "whether an event has expired depends on the hour")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn listed(counts: &Counts) -> String {
    counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::tests::plan;

    /// A relay that says one thing whatever it hears, or goes away at once.
    fn relay(name: &str, says: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{name}=ws://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(listener);
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
            while let Some(says) = says.filter(|_| stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0)) {
                let length = u8::try_from(says.len()).unwrap();
                stream.write_all(&[&[0x81, length], says.as_bytes()].concat()).unwrap();
            }
        });
        url
    }

    fn asked(relays: &[String]) -> Record {
        let folder = tempfile::tempdir().unwrap();
        let queries = folder.path().join("queries.jsonl");
        std::fs::write(&queries, r#"{"shape": "all", "filter": {"limit": 1}}"#).unwrap();
        let mut words = vec!["--passes", "1", "--queries", queries.to_str().unwrap()];
        words.extend(relays.iter().flat_map(|relay| ["--relay", relay]));
        run(&plan(&words)).unwrap()
    }

    #[test]
    fn a_relay_that_goes_away_fails_and_the_record_is_made() {
        let record = asked(&[relay("gone", None)]);
        assert!(!record.failures().is_empty(), "{}", record.to_markdown());
        assert_eq!(record.servers[0].settings, "not known here");
    }

    #[test]
    fn nobody_agrees_with_a_relay_that_refuses() {
        let refuses = relay("refuses", Some(r#"["CLOSED","q","restricted: no"]"#));
        let answers = relay("answers", Some(r#"["EOSE","q"]"#));
        let record = asked(&[refuses, answers]);
        let table = record.tables.iter().find(|table| table.title == "Answers, beside those of refuses").unwrap();
        assert_eq!(table.rows[0].cells, [Cell::Nothing, Cell::Nothing]);
    }
}
