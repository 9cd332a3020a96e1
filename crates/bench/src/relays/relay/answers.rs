//! Queries of a file by shape, and the answers and times of one server for a shape.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::event::{Id, field};
use super::socket::Socket;
use crate::report::durations::{Durations, of_each};
use crate::report::record::Cell;

/// Ids of events, in the order received.
pub(crate) type Answer = Vec<Id>;

/// Answers and times of one server for the queries of a shape. The first pass is not timed.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) durations: Durations,
    /// CPU time of its process for the timed queries, if the process is known.
    pub(crate) cpu: Option<Duration>,
    /// Wall time of all passes.
    pub(crate) spent: Duration,
    /// Answers of the first pass, by query.
    pub(crate) answers: Vec<Answer>,
    /// Reason for missing figures.
    pub(crate) refusal: Option<Cell>,
}

/// Reads the filters of the wanted shapes from a file of `make-events --queries`, by shape.
pub(crate) fn by_shape(file: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Vec<Value>)>> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let mut shapes: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines() {
        let mut query: Value = serde_json::from_str(line).context("failed to parse a query of make-events")?;
        let filter = query["filter"].take();
        let name = field(&query, "shape")?;
        if !is_wanted(name) {
            continue;
        }
        match shapes.last_mut().filter(|(shape, _)| shape == name) {
            Some((_, filters)) => filters.push(filter),
            None => shapes.push((name.to_owned(), vec![filter])),
        }
    }
    ensure!(!shapes.is_empty(), "{} has no query of these shapes", file.display());
    Ok(shapes)
}

/// Calls `event` with every EVENT up to EOSE; the inner error is a CLOSED or NOTICE of the relay.
pub(crate) fn up_to_eose(
    socket: &mut Socket,
    mut event: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Result<(), String>> {
    loop {
        let message = socket.receive()?;
        if message.starts_with(b"[\"EVENT\"") {
            event(message)?;
        } else if message.starts_with(b"[\"EOSE\"") {
            return Ok(Ok(()));
        } else if message.starts_with(b"[\"CLOSED\"") || message.starts_with(b"[\"NOTICE\"") {
            return Ok(Err(String::from_utf8_lossy(message).into_owned()));
        }
    }
}

/// Returns the set of an answer's events.
pub(crate) fn set(answer: &Answer) -> BTreeSet<&Id> {
    answer.iter().collect()
}

/// Returns the number of answers with the same events, and of those also in the same order.
pub(crate) fn alike(ours: &[Answer], theirs: &[Answer]) -> (usize, usize) {
    let pairs = || ours.iter().zip(theirs);
    let same = pairs().filter(|(one, other)| set(one) == set(other)).count();
    (same, pairs().filter(|(one, other)| one == other).count())
}

impl Figures {
    /// Returns true when the server is measured in this pass: after the second one, only within its budget.
    pub(crate) fn is_asked(&self, pass: usize, budget: Duration) -> bool {
        self.refusal.is_none() && (pass < 2 || self.spent <= budget)
    }

    /// Adds the CPU time of a pass, if the process is known.
    pub(crate) fn add_cpu(&mut self, before: Option<Duration>, after: Option<Duration>) {
        if let Some((before, after)) = before.zip(after) {
            *self.cpu.get_or_insert_default() += after.saturating_sub(before);
        }
    }

    /// Returns the cell of the time from query to answer.
    pub(crate) fn latency(&self) -> Cell {
        self.refusal.clone().unwrap_or_else(|| self.durations.with_p99())
    }

    /// Returns the cell of the CPU time for one query.
    pub(crate) fn cpu_of_one(&self) -> Cell {
        self.refusal.clone().unwrap_or_else(|| of_each(self.cpu, self.durations.len()))
    }
}
