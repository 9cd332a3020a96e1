//! REQs of the shapes that clients ask, one at a time over one connection: how long until EOSE, and whether relays agree.
//!
//! Every query of a shape is asked in turn; relays take turns from pass to pass. The first pass is dropped, and its answers
//! are compared instead.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::socket::{Socket, frame};
use super::{RelayAt, begin, field, id};
use crate::durations::{Durations, of_each};
use crate::process::cpu_time;
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Who is asked: NAME=ws://HOST:PORT, and #PID for its CPU time. The first one is compared with the others.
    #[arg(long = "relay", required = true)]
    relays: Vec<RelayAt>,
    /// What `make-events --queries` wrote.
    #[arg(long)]
    queries: PathBuf,
    /// Passes over the queries of a shape; the first does not count.
    #[arg(long, default_value_t = 11)]
    passes: usize,
    /// A relay that took so many seconds for a shape is asked no more of it (after the second pass).
    #[arg(long, default_value_t = 10)]
    budget_s: u64,
    /// Only shapes that contain this.
    #[arg(long)]
    only: Option<String>,
}

/// Queries of a shape.
struct Shape {
    name: String,
    /// REQ and CLOSE, as frames.
    queries: Vec<Vec<u8>>,
}

/// What a relay did for a shape.
#[derive(Default)]
struct Figures {
    durations: Durations,
    cpu: Option<Duration>,
    spent: Duration,
    /// Ids by query, in the order they came; `None` if it was refused.
    answers: Vec<Option<Vec<[u8; 64]>>>,
    refusal: Option<String>,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = begin("What clients ask of relays", &plan.relays);
    let mut sockets = plan.relays.iter().map(Socket::connect).collect::<Result<Vec<_>>>()?;
    let mut tables = Tables::of(&plan.relays);
    for shape in shapes(plan)? {
        let mut figures: Vec<Figures> = plan.relays.iter().map(|_| Figures::default()).collect();
        for pass in 0..plan.passes {
            for turn in 0..plan.relays.len() {
                let place = (turn + pass) % plan.relays.len();
                let (relay, one) = (&plan.relays[place], &mut figures[place]);
                if pass > 1 && one.spent > Duration::from_secs(plan.budget_s) || one.refusal.is_some() {
                    continue;
                }
                let asked = ask(&mut sockets[place], relay, &shape, pass == 0, one);
                if let Err(error) = asked {
                    one.refusal = Some(format!("{error:#}"));
                    sockets[place] = Socket::connect(relay)?;
                }
            }
        }
        tables.push(&shape, &figures);
    }
    record.tables = vec![tables.latency, tables.cpu, tables.answers];
    Ok(record)
}

fn shapes(plan: &Plan) -> Result<Vec<Shape>> {
    let text = std::fs::read_to_string(&plan.queries).with_context(|| format!("read {}", plan.queries.display()))?;
    let mut shapes: Vec<Shape> = Vec::new();
    for line in text.lines() {
        let query: Value = serde_json::from_str(line).context("a query of make-events")?;
        let name = field(&query, "shape")?;
        if plan.only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        if shapes.last().is_none_or(|shape| shape.name != name) {
            shapes.push(Shape { name: name.to_owned(), queries: Vec::new() });
        }
        let shape = shapes.last_mut().context("a shape was pushed")?;
        shape.queries.push(frame(&format!("[\"REQ\",\"q\",{}]", query["filter"])));
    }
    ensure!(!shapes.is_empty(), "no such queries in {}", plan.queries.display());
    Ok(shapes)
}

fn ask(socket: &mut Socket, relay: &RelayAt, shape: &Shape, is_first: bool, figures: &mut Figures) -> Result<()> {
    let close = frame("[\"CLOSE\",\"q\"]");
    let (began, before) = (Instant::now(), relay.pid.map(cpu_time).transpose()?);
    for query in &shape.queries {
        let started = Instant::now();
        socket.send(query)?;
        let mut ids = Vec::new();
        let is_refused = loop {
            let message = socket.hear()?;
            if message.starts_with(b"[\"EVENT\"") {
                if is_first {
                    ids.push(id(message).context("an event without an id")?);
                }
            } else if message.starts_with(b"[\"EOSE\"") {
                break false;
            } else if message.starts_with(b"[\"CLOSED\"") || message.starts_with(b"[\"NOTICE\"") {
                figures.refusal = Some(String::from_utf8_lossy(message).into_owned());
                break true;
            }
        };
        if is_first {
            figures.answers.push((!is_refused).then_some(ids));
        } else {
            figures.durations.add(started.elapsed());
        }
        socket.send(&close)?;
    }
    if let Some((pid, before)) = relay.pid.zip(before).filter(|_| !is_first) {
        *figures.cpu.get_or_insert_default() += cpu_time(pid)?.saturating_sub(before);
    }
    figures.spent += began.elapsed();
    Ok(())
}

/// What is told of all shapes.
struct Tables {
    latency: Table,
    cpu: Table,
    answers: Table,
}

impl Tables {
    fn of(relays: &[RelayAt]) -> Self {
        let columns = |unit| relays.iter().map(move |relay| Column::new(&relay.name, unit));
        let first = relays.first().map_or("the first", |relay| &relay.name);
        let answers = [Column::new("events, mean", Unit::Count)].into_iter().chain(columns(Unit::Words).skip(1));
        Self {
            latency: Table::new("From REQ to EOSE", "One at a time.", Layout::ServersInColumns, columns(Unit::Seconds))
                .drawn(Plot::Dots),
            cpu: Table::new(
                "The relay's CPU time for a query",
                "All of its threads.",
                Layout::ServersInColumns,
                columns(Unit::Seconds),
            ),
            answers: Table::new(
                format!("Answers, beside those of {first}"),
                "How many queries have the same set of events, and how many of these in the same order.",
                Layout::OneServer,
                answers,
            ),
        }
    }

    fn push(&mut self, shape: &Shape, figures: &[Figures]) {
        let ours = &figures[0].answers;
        let rows: Vec<usize> = ours.iter().flatten().map(Vec::len).collect();
        let mean = rows.iter().sum::<usize>() / rows.len().max(1);
        let of_durations = |one: &Figures| one.refusal().unwrap_or_else(|| one.durations.with_p99());
        let of_cpu = |one: &Figures| one.refusal().unwrap_or_else(|| of_each(one.cpu, one.durations.len()));
        let of_answers = |one: &Figures| Cell::text(agreement(ours, &one.answers));
        self.latency.push(&shape.name, figures.iter().map(of_durations));
        self.cpu.push(&shape.name, figures.iter().map(of_cpu));
        let means = [Cell::count(mean as u64)].into_iter();
        self.answers.push(&shape.name, means.chain(figures.iter().skip(1).map(of_answers)));
    }
}

impl Figures {
    fn refusal(&self) -> Option<Cell> {
        Some(Cell::Refused { reason: format!("{:.80}", self.refusal.as_ref()?) })
    }
}

/// How many answers are the same, and how many of these in the same order.
fn agreement(ours: &[Option<Vec<[u8; 64]>>], theirs: &[Option<Vec<[u8; 64]>>]) -> String {
    let set = |ids: &Option<Vec<[u8; 64]>>| ids.as_ref().map(|ids| ids.iter().copied().collect::<BTreeSet<_>>());
    let pairs = || ours.iter().zip(theirs);
    let same = pairs().filter(|(one, other)| set(one) == set(other)).count();
    let ordered = pairs().filter(|(one, other)| one == other).count();
    if ordered == ours.len() { "all".to_owned() } else { format!("{same}, ordered {ordered} of {}", ours.len()) }
}
