//! Requests of wallets about scripts with the answers of the model, sent to a server until all answers are right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bitcoin::ScriptBuf;
use serde_json::{Value, json};

use crate::chains::ledger::ScriptFacts;
use crate::clients::client::{Client, scripthash};
use crate::error::{Error, Result};
use crate::measure::usage::Usage;
use crate::peers::{Kind, Peer};

/// Requests in one batch.
const BATCH: usize = 200;
/// Number of differences in an error message.
const SHOWN: usize = 5;
const LOG_LINES: usize = 15;
const PAUSE: Duration = Duration::from_millis(10);

/// A request with its only right answer.
#[derive(Debug)]
pub struct Asked {
    method: &'static str,
    params: Value,
    answer: Value,
}

impl Asked {
    /// Sends the request to a Birdhouse.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a wrong answer.
    pub fn ask(&self, client: &mut Client) -> Result<()> {
        let answer = Ok(client.call(self.method, self.params.clone())?);
        if is_right(Kind::Birdhouse, self, &answer) {
            return Ok(());
        }
        let Self { method, params, answer: right } = self;
        Err(Error::Protocol(format!("{method} {params}: {answer:?} instead of {right}")))
    }
}

/// Scripts with the model's facts about each.
pub type Scripts = BTreeMap<ScriptBuf, ScriptFacts>;

/// Returns every request that can be made about these scripts.
pub fn about<'a>(scripts: impl IntoIterator<Item = (&'a ScriptBuf, &'a ScriptFacts)>) -> Vec<Asked> {
    let each = scripts.into_iter().flat_map(|(script, facts)| {
        let params = json!([scripthash(script.as_bytes())]);
        [
            ("blockchain.scripthash.get_history", facts.history()),
            ("blockchain.scripthash.get_mempool", facts.mempool()),
            ("blockchain.scripthash.get_balance", facts.balance()),
            ("blockchain.scripthash.listunspent", facts.unspent()),
            ("blockchain.scripthash.subscribe", facts.status()),
        ]
        .map(|(method, answer)| Asked { method, params: params.clone(), answer })
    });
    each.collect()
}

/// Returns the scripts whose facts differ between two moments, with the facts of the later one. A script that is only
/// in `before` has no history any more.
pub fn changed(before: &Scripts, now: &Scripts) -> Scripts {
    let mut changed: Scripts =
        now.iter().filter(|(script, facts)| before.get(*script) != Some(facts)).map(owned).collect();
    let gone = before.keys().filter(|script| !now.contains_key(*script));
    changed.extend(gone.map(|script| (script.clone(), ScriptFacts::default())));
    changed
}

fn owned((script, facts): (&ScriptBuf, &ScriptFacts)) -> (ScriptBuf, ScriptFacts) {
    (script.clone(), facts.clone())
}

/// Sends the requests until every answer is right in one round; returns the time that took.
///
/// # Errors
/// [`Error::Protocol`] with the first differences when answers are still wrong after `patience`.
pub fn agrees(server: &Peer, asked: &[Asked], patience: Duration) -> Result<Duration> {
    let start = Instant::now();
    let mut client = server.client()?;
    let mut open: Vec<&Asked> = asked.iter().collect();
    loop {
        let mut differences = still_wrong(server.kind(), &mut client, &mut open)?;
        if open.is_empty() {
            // Answers that were right some rounds ago must still be right.
            open = asked.iter().collect();
            differences = still_wrong(server.kind(), &mut client, &mut open)?;
            if open.is_empty() {
                return Ok(start.elapsed());
            }
        }
        if start.elapsed() > patience {
            let shown = differences[..differences.len().min(SHOWN)].join("\n");
            let counts = format!("{} of {} answers are wrong", open.len(), asked.len());
            return Err(Error::Protocol(format!("{counts} after {patience:?}:\n{shown}\n{}", log_tail(server))));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The cost of one request.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU time of the server.
    pub cpu: Duration,
    /// Mean time of a request in a batch.
    pub wall: Duration,
}

/// Sends the requests again and again, some number of them at least; every answer must be right.
///
/// # Errors
/// Those of [`agrees`], and failures of reading the server's CPU time.
///
/// # Panics
/// When there are no requests.
pub fn cost(server: &Peer, asked: &[Asked], requests_min: usize, patience: Duration) -> Result<Cost> {
    // `agrees` asks everything twice.
    let rounds = requests_min.div_ceil(2 * asked.len());
    let (start, before) = (Instant::now(), Usage::of(server.pid())?.cpu);
    for _ in 0..rounds {
        agrees(server, asked, patience)?;
    }
    let requests = u32::try_from(2 * asked.len() * rounds).expect("fewer than 2^32 requests");
    let cpu = Usage::of(server.pid())?.cpu.saturating_sub(before);
    Ok(Cost { cpu: cpu / requests, wall: start.elapsed() / requests })
}

/// Sends the open requests and keeps those with a wrong answer; returns a line for each of them.
fn still_wrong(kind: Kind, client: &mut Client, open: &mut Vec<&Asked>) -> Result<Vec<String>> {
    let mut differences = Vec::new();
    let mut wrong = Vec::new();
    for some in open.chunks(BATCH) {
        let requests: Vec<_> = some.iter().map(|asked| (asked.method, asked.params.clone())).collect();
        for (asked, answer) in some.iter().zip(client.batch(&requests)?) {
            if !is_right(kind, asked, &answer) {
                let Asked { method, params, answer: right } = asked;
                differences.push(format!("{method} {params}: {answer:?} instead of {right}"));
                wrong.push(*asked);
            }
        }
    }
    *open = wrong;
    Ok(differences)
}

fn log_tail(server: &Peer) -> String {
    let log = server.log().unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Returns true for a right answer, apart from what the protocol leaves open and servers do differently.
fn is_right(kind: Kind, asked: &Asked, answer: &std::result::Result<Value, Value>) -> bool {
    let Ok(answer) = answer else {
        return kind == Kind::Electrs && asked.method == "blockchain.scripthash.get_mempool";
    };
    match (kind, asked.method) {
        // electrs hashes its own order of unconfirmed transactions.
        (Kind::Electrs, "blockchain.scripthash.subscribe") => answer.is_null() == asked.answer.is_null(),
        (Kind::Electrs, "blockchain.scripthash.get_history") | (_, "blockchain.scripthash.listunspent") => {
            sorted(answer.clone()) == sorted(asked.answer.clone())
        }
        _ => *answer == asked.answer,
    }
}

/// Sorts a list, because the protocol leaves the order of `listunspent` open. Another value stays.
pub fn sorted(mut list: Value) -> Value {
    if let Value::Array(entries) = &mut list {
        entries.sort_by_key(ToString::to_string);
    }
    list
}
