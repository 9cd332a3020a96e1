//! What wallets ask about scripts, with the model's answers, put to a server until all of them are right at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bitcoin::ScriptBuf;
use serde_json::{Value, json};

use crate::client::{Client, scripthash};
use crate::error::{Error, Result};
use crate::ledger::ScriptFacts;
use crate::peers::{Kind, Peer};

/// Requests sent together.
const BATCH: usize = 200;
/// Differences that a failure shows.
const SHOWN: usize = 5;
const LOG_LINES: usize = 15;
const PAUSE: Duration = Duration::from_millis(10);

/// A request, and the only right answer.
#[derive(Debug)]
pub struct Asked {
    method: &'static str,
    params: Value,
    answer: Value,
}

impl Asked {
    /// Asks a Birdhouse; an error when the answer is wrong.
    pub fn ask(&self, client: &mut Client) -> Result<()> {
        let answer = Ok(client.call(self.method, self.params.clone())?);
        if is_right(Kind::Birdhouse, self, &answer) {
            return Ok(());
        }
        let Self { method, params, answer: right } = self;
        Err(Error::Protocol(format!("{method} {params}: {answer:?} instead of {right}")))
    }
}

/// Scripts, and what is right about each.
pub type Scripts = BTreeMap<ScriptBuf, ScriptFacts>;

/// Everything that can be asked about these scripts.
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

/// Scripts about which something has changed, with what is right now; those that are gone have no history any more.
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

/// Asks until every answer is right in one round, and says how long that took.
///
/// Fails with the first differences when some are still wrong after `patience`.
pub fn agrees(server: &Peer, asked: &[Asked], patience: Duration) -> Result<Duration> {
    let start = Instant::now();
    let mut client = server.client()?;
    let mut open: Vec<&Asked> = asked.iter().collect();
    loop {
        let mut differences = still_wrong(server.kind(), &mut client, &mut open)?;
        if open.is_empty() {
            // What was right some rounds ago must still be.
            open = asked.iter().collect();
            differences = still_wrong(server.kind(), &mut client, &mut open)?;
            if open.is_empty() {
                return Ok(start.elapsed());
            }
        }
        if start.elapsed() > patience {
            let shown = differences[..differences.len().min(SHOWN)].join("\n");
            let counts = format!("{} of {} answers are wrong", open.len(), asked.len());
            return Err(Error::Protocol(format!("{counts} after {patience:?}:\n{shown}\n{}", last_words(server))));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks what is open, and leaves open what is wrong: for each of these a line.
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

fn last_words(server: &Peer) -> String {
    let log = server.log().unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Whether it is, apart from what the protocol leaves open and servers do differently.
fn is_right(kind: Kind, asked: &Asked, answer: &std::result::Result<Value, Value>) -> bool {
    let Ok(answer) = answer else {
        return kind == Kind::Electrs && asked.method == "blockchain.scripthash.get_mempool";
    };
    match (kind, asked.method) {
        // A hash of its own order of unconfirmed transactions.
        (Kind::Electrs, "blockchain.scripthash.subscribe") => answer.is_null() == asked.answer.is_null(),
        (Kind::Electrs, "blockchain.scripthash.get_history") | (_, "blockchain.scripthash.listunspent") => {
            sorted(answer.clone()) == sorted(asked.answer.clone())
        }
        _ => *answer == asked.answer,
    }
}

/// The protocol leaves the order of `listunspent` open.
fn sorted(mut list: Value) -> Value {
    if let Value::Array(entries) = &mut list {
        entries.sort_by_key(ToString::to_string);
    }
    list
}
