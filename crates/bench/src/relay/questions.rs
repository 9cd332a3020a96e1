//! Questions that clients ask, shape by shape, and what one who is asked gave for those of a shape.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::socket::Socket;
use super::{Id, field};
use crate::durations::{Durations, of_each};
use crate::record::Cell;

/// Names of events, in the order in which they came.
pub(crate) type Answer = Vec<Id>;

/// What one who is asked gave for the questions of a shape. Those of the first pass are not timed.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) durations: Durations,
    /// Of its process, if that is known, for the questions that were timed.
    pub(crate) cpu: Option<Duration>,
    /// In all passes.
    pub(crate) spent: Duration,
    /// Of the first pass, by question.
    pub(crate) answers: Vec<Answer>,
    /// Why there are no figures.
    pub(crate) refusal: Option<Cell>,
}

/// Filters of a file of `make-events --queries`, by shape, of the shapes that are wanted.
pub(crate) fn by_shape(file: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Vec<Value>)>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let mut shapes: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines() {
        let mut query: Value = serde_json::from_str(line).context("a query of make-events")?;
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
    ensure!(!shapes.is_empty(), "no such queries in {}", file.display());
    Ok(shapes)
}

/// Hands over every EVENT up to EOSE; `Err` is what the relay said instead.
pub(crate) fn up_to_eose(
    socket: &mut Socket,
    mut event: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Result<(), String>> {
    loop {
        let message = socket.hear()?;
        if message.starts_with(b"[\"EVENT\"") {
            event(message)?;
        } else if message.starts_with(b"[\"EOSE\"") {
            return Ok(Ok(()));
        } else if message.starts_with(b"[\"CLOSED\"") || message.starts_with(b"[\"NOTICE\"") {
            return Ok(Err(String::from_utf8_lossy(message).into_owned()));
        }
    }
}

/// The events of an answer.
pub(crate) fn set(answer: &Answer) -> BTreeSet<&Id> {
    answer.iter().collect()
}

/// How many answers have the same events, and how many of these in the same order.
pub(crate) fn alike(ours: &[Answer], theirs: &[Answer]) -> (usize, usize) {
    let pairs = || ours.iter().zip(theirs);
    let same = pairs().filter(|(one, other)| set(one) == set(other)).count();
    (same, pairs().filter(|(one, other)| one == other).count())
}

impl Figures {
    /// Whether it is asked in this pass: who took longer than the budget is not, after the second one.
    pub(crate) fn is_asked(&self, pass: usize, budget: Duration) -> bool {
        self.refusal.is_none() && (pass < 2 || self.spent <= budget)
    }

    /// Counts what a process used of the processors in a pass, if that is known.
    pub(crate) fn add_cpu(&mut self, before: Option<Duration>, after: Option<Duration>) {
        if let Some((before, after)) = before.zip(after) {
            *self.cpu.get_or_insert_default() += after.saturating_sub(before);
        }
    }

    /// Time from question to answer.
    pub(crate) fn latency(&self) -> Cell {
        self.refusal.clone().unwrap_or_else(|| self.durations.with_p99())
    }

    /// CPU time for one question.
    pub(crate) fn cpu_of_one(&self) -> Cell {
        self.refusal.clone().unwrap_or_else(|| of_each(self.cpu, self.durations.len()))
    }
}
