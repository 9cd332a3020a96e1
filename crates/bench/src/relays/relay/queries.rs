//! Latency of REQs in the shapes of real clients, one at a time over one connection, and the agreement of relays.
//!
//! Every query of a shape is sent in turn; relays take turns from pass to pass. The first pass is not timed: its
//! answers are compared instead. Where they differ as sets, the reasons are determined after all measurements.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::answers::{Answer, Figures, alike, by_shape, set, up_to_eose};
use super::differences::{Counts, Pair};
use super::event::id;
use super::servers::{Keep, RelayInUse, Servers, memory};
use super::socket::{NAGLE, Silent, Socket, frame};
use crate::machine::args::at_least_one;
use crate::machine::server_at::turns;
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    servers: Servers,
    /// File of events, one a line, loaded first into relays that are started.
    #[arg(long, required_unless_present = "relays")]
    events: Option<PathBuf>,
    /// File that `make-events --queries` wrote with the events.
    #[arg(long)]
    queries: PathBuf,
    /// Number of passes over the queries of a shape; the first is not timed.
    #[arg(long, default_value_t = 11, value_parser = at_least_one::<usize>())]
    passes: usize,
    /// Seconds of a shape after which a relay gets no more of its queries (from the third pass on).
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<u64>())]
    budget_s: u64,
    /// Measure only shapes whose names contain this.
    #[arg(long)]
    only: Option<String>,
}

/// The queries of a shape.
struct Shape {
    name: String,
    queries: Vec<Prepared>,
}

/// One query with its message.
struct Prepared {
    filter: Value,
    /// The frame of its REQ.
    frame: Vec<u8>,
}

/// A relay with a connection.
struct Contender {
    relay: RelayInUse,
    socket: Socket,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = plan.servers.begin("Queries of relays");
    let shapes = shapes(plan)?;
    if let Some(events) = &plan.events {
        record.tables.extend(plan.servers.fill(events)?);
    }
    let mut contenders = Vec::new();
    for entry in plan.servers.entries() {
        match plan.servers.start(&entry, Keep::Events).and_then(Contender::of) {
            Ok(contender) => contenders.push(contender),
            Err(error) => record.note(format!("{} is left out: {error:#}", entry.name())),
        }
    }
    ensure!(!contenders.is_empty(), "no relay can be measured: {}", record.notes.join("; "));
    let mut tables = Tables::of(&contenders);
    let mut all = Vec::new();
    for shape in &shapes {
        let figures = measure(plan, shape, &mut contenders);
        tables.push(shape, &figures);
        all.push(figures);
    }
    let held = memory(contenders.iter().map(|contender| &contender.relay));
    let differences = differences(&shapes, &all, &mut contenders);
    record.tables.extend([tables.latency, tables.cpu, tables.answers]);
    record.tables.extend(differences);
    record.tables.push(held);
    record.note(NAGLE);
    Ok(record)
}

/// Measures all passes over a shape.
fn measure(plan: &Plan, shape: &Shape, contenders: &mut [Contender]) -> Vec<Figures> {
    let mut figures: Vec<Figures> = contenders.iter().map(|_| Figures::default()).collect();
    let budget = Duration::from_secs(plan.budget_s);
    for (pass, index) in turns(contenders.len(), plan.passes) {
        let (contender, one) = (&mut contenders[index], &mut figures[index]);
        if !one.is_asked(pass, budget) {
            continue;
        }
        if let Err(error) = contender.ask(shape, pass, one) {
            one.refusal = Some(match error.downcast_ref::<Silent>() {
                Some(silent) => Cell::text(silent.to_string()),
                None => Cell::failed(&error),
            });
            // The other connections were silent meanwhile and may be closed. A relay that is gone keeps its old one and
            // fails again.
            for contender in &mut *contenders {
                if let Ok(socket) = Socket::connect(&contender.relay.at) {
                    contender.socket = socket;
                }
            }
        }
    }
    figures
}

fn shapes(plan: &Plan) -> Result<Vec<Shape>> {
    let shapes = by_shape(&plan.queries, |name| plan.only.as_ref().is_none_or(|only| name.contains(only)))?;
    let prepared = |filter| Prepared { frame: frame(&format!("[\"REQ\",\"q\",{filter}]")), filter };
    let shape =
        |(name, filters): (String, Vec<Value>)| Shape { name, queries: filters.into_iter().map(prepared).collect() };
    Ok(shapes.into_iter().map(shape).collect())
}

impl Contender {
    fn of(relay: RelayInUse) -> Result<Self> {
        Ok(Self { socket: Socket::connect(&relay.at)?, relay })
    }

    /// Sends every query of a shape once.
    fn ask(&mut self, shape: &Shape, pass: usize, figures: &mut Figures) -> Result<()> {
        let is_first = pass == 0;
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
                Err(message) => {
                    figures.refusal = Some(Cell::Refused { reason: format!("{message:.80}") });
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

/// The tables of all shapes.
struct Tables {
    latency: Table,
    cpu: Table,
    answers: Table,
}

impl Tables {
    fn of(contenders: &[Contender]) -> Self {
        let columns = |unit| contenders.iter().map(move |contender| (contender.relay.at.name.as_str(), unit));
        let first = &contenders[0].relay.at.name;
        let answers = [("events, mean", Unit::Count)].into_iter().chain(columns(Unit::Words).skip(1));
        let layout = Layout::ServersInColumns;
        Self {
            latency: Table::new("From REQ to EOSE", "One at a time.", layout, columns(Unit::Seconds)).drawn(Plot::Dots),
            cpu: Table::new("The relay's CPU time for a query", "All of its threads.", layout, columns(Unit::Seconds)),
            answers: Table::new(
                format!("Answers, beside those of {first}"),
                "Number of queries with the same set of events, and of those also in the same order.",
                Layout::OneServer,
                answers,
            ),
        }
    }

    fn push(&mut self, shape: &Shape, figures: &[Figures]) {
        // A relay that answered only some queries cannot be compared with.
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

/// Describes the number of equal answers, and of those also in the same order.
fn agreement(ours: &[Answer], theirs: &[Answer]) -> String {
    let (same, ordered) = alike(ours, theirs);
    if ordered == ours.len() { "all".to_owned() } else { format!("{same}, ordered {ordered} of {}", ours.len()) }
}

// === differences ===

/// Makes a table of the reasons for differences from the first relay, by shape; `None` when no answer differs.
fn differences(shapes: &[Shape], all: &[Vec<Figures>], contenders: &mut [Contender]) -> Option<Table> {
    let (first, others) = contenders.split_first_mut()?;
    let columns = others.iter().map(|contender| (&contender.relay.at.name, Unit::Words));
    let mut table = Table::new(
        format!("Reasons for differences from {}", first.relay.at.name),
        "Events in only one of the two answers to a query, for all queries of a shape.",
        Layout::OneServer,
        columns,
    );
    for (shape, figures) in shapes.iter().zip(all) {
        let reasons = others.iter_mut().zip(&figures[1..]).map(|(contender, theirs)| {
            let reasons = reasons(first, contender, shape, [&figures[0], theirs]);
            reasons.map_err(|error| format!("{error:#}")).unwrap_or_else(|error| Counts::from([(error, 1)]))
        });
        let reasons: Vec<Counts> = reasons.collect();
        if reasons.iter().any(|counts| !counts.is_empty()) {
            table.push(&shape.name, reasons.iter().map(|counts| Cell::text(listed(counts))));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn reasons(first: &mut Contender, other: &mut Contender, shape: &Shape, figures: [&Figures; 2]) -> Result<Counts> {
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

#[expect(clippy::disallowed_methods, reason = "expiration depends on the time")]
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
    use crate::machine::args::parsed;

    /// Starts a relay that answers every message with the same one, or closes the connection at once.
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
        run(&parsed(&words)).unwrap()
    }

    #[test]
    fn relay_that_closes_the_connection_fails_and_the_record_is_made() {
        let record = asked(&[relay("gone", None)]);
        assert!(!record.failures().is_empty(), "{}", record.to_markdown());
        assert_eq!(record.servers[0].settings, "unknown");
    }

    #[test]
    fn relays_are_not_compared_with_one_that_refuses() {
        let refuses = relay("refuses", Some(r#"["CLOSED","q","restricted: no"]"#));
        let answers = relay("answers", Some(r#"["EOSE","q"]"#));
        let record = asked(&[refuses, answers]);
        let table = record.tables.iter().find(|table| table.title == "Answers, beside those of refuses").unwrap();
        assert_eq!(table.rows[0].cells, [Cell::Nothing, Cell::Nothing]);
    }
}
