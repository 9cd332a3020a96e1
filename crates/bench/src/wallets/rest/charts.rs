//! Casa's four charts: balance by transactions and by unspent outputs, history by transactions, unspent outputs by
//! their number. REST stands beside the Electrum protocol.
//!
//! The two do not ask the same of a history: the Electrum protocol lists all txids, REST shows the newest 25
//! transactions with everything in them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::http_client::{HttpClient, get, rest_path};
use serde_json::Value;

use super::Plan;
use super::subject::Subject;
use crate::machine::server_at::{ServerAt, Turns, effort_table, indexes_by_turns};
use crate::machine::wire::{Wire, quoted, request};
use crate::report::record::{Layout, Plot, Record, Table, Unit};
use crate::wallets::latency::{Answers, Class, Script};

const ELECTRUM: [&str; 3] = ["get_balance", "get_history", "listunspent"];
const REST: [&str; 3] = ["", "/txs", "/utxo"];

/// Transactions of REST's first page, while the mempool has none.
const PAGE: u64 = 25;
/// Most differences that are noted one by one.
const DIFFERENCES_MAX: usize = 20;

/// A chart: its title, its question (an index of [`ELECTRUM`] and [`REST`]), and its horizontal axis.
const CHARTS: [(&str, usize, By); 4] = [
    ("Balance", 0, By::Transactions),
    ("Balance", 0, By::Unspent),
    ("History", 1, By::Transactions),
    ("Unspent outputs", 2, By::Unspent),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Transactions,
    Unspent,
}

/// One curve.
struct Column<'a> {
    server: &'a ServerAt,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Electrum,
    Rest,
}

/// Facts that both protocols tell about a script.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    balance: i64,
    txs: u64,
    /// Txids shown: all of them, or REST's first page.
    shown: BTreeSet<String>,
    unspent: BTreeSet<(String, u32, u64)>,
}

/// Facts and times of one column, in the order of the scripts.
#[derive(Debug, Default)]
struct Figures {
    facts: Vec<Facts>,
    times: Vec<[Vec<Duration>; 3]>,
}

pub(super) fn measure(record: &mut Record, subjects: &[Subject], scripts: &[Script], plan: &Plan) {
    let columns: Vec<Column<'_>> = subjects.iter().flat_map(columns).collect();
    let all = indexes_by_turns(columns.len(), plan.passes.max(2), |index, pass, figures: &mut Figures, effort| {
        let column = &columns[index];
        eprintln!("charts: pass {pass}, {}", column.server.name);
        effort.add(column.server, || column.turn(scripts, pass, plan, figures))
    });
    record.tables.extend(CHARTS.map(|(title, question, by)| chart(title, question, by, scripts, &columns, &all)));
    record.notes.extend(differences(scripts, &columns, &all));
    let servers: Vec<ServerAt> = columns.iter().map(|column| column.server.clone()).collect();
    record.tables.push(effort_table(&servers, &all));
}

fn columns(subject: &Subject) -> Vec<Column<'_>> {
    let rest = subject.rest.as_ref().map(|server| Column { server, protocol: Protocol::Rest });
    rest.into_iter().chain([Column { server: &subject.electrum, protocol: Protocol::Electrum }]).collect()
}

impl Column<'_> {
    fn turn(&self, scripts: &[Script], pass: usize, plan: &Plan, figures: &mut Figures) -> Result<()> {
        let mut connection = Connection::open(self.protocol, self.server.addr()?)?;
        let requests: Vec<[Vec<u8>; 3]> = scripts.iter().map(|script| self.requests(script)).collect();
        if pass == 0 {
            return self.look(&mut connection, scripts, &requests, figures);
        }
        let budget = Duration::from_millis(plan.budget_ms);
        for question in 0..ELECTRUM.len() {
            for (times, requests) in figures.times.iter_mut().zip(&requests) {
                let times = &mut times[question];
                if times.iter().sum::<Duration>() > budget {
                    continue;
                }
                let started = Instant::now();
                connection.ask(&requests[question])?;
                times.push(started.elapsed());
            }
        }
        Ok(())
    }

    /// Reads the facts of every script: an error or a cut answer would be fast.
    fn look(
        &self,
        connection: &mut Connection,
        scripts: &[Script],
        requests: &[[Vec<u8>; 3]],
        figures: &mut Figures,
    ) -> Result<()> {
        for (script, requests) in scripts.iter().zip(requests) {
            let mut answers: [Vec<u8>; 3] = Default::default();
            for (answer, request) in answers.iter_mut().zip(requests) {
                *answer = connection.ask(request).with_context(|| script.scripthash.clone())?;
            }
            let facts = match self.protocol {
                Protocol::Electrum => Facts::of_electrum(&answers),
                Protocol::Rest => Facts::of_rest(&answers),
            };
            let facts = facts.with_context(|| script.scripthash.clone())?;
            ensure!(facts.txs >= script.txs, "{} of {} transactions of {}", facts.txs, script.txs, script.scripthash);
            figures.facts.push(facts);
            figures.times.push(Default::default());
        }
        Ok(())
    }

    fn requests(&self, script: &Script) -> [Vec<u8>; 3] {
        match self.protocol {
            Protocol::Electrum => {
                ELECTRUM.map(|method| request(&format!("blockchain.scripthash.{method}"), &quoted(&script.scripthash)))
            }
            Protocol::Rest => REST.map(|part| get(&format!("{}{part}", rest_path(&script.scripthash)))),
        }
    }
}

/// A connection of either protocol.
enum Connection {
    Electrum(Wire),
    Rest(HttpClient),
}

impl Connection {
    fn open(protocol: Protocol, addr: &str) -> Result<Self> {
        Ok(match protocol {
            Protocol::Electrum => Self::Electrum(Wire::connect(addr)?),
            Protocol::Rest => Self::Rest(HttpClient::connect(addr)?),
        })
    }

    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Electrum(wire) => wire.ask(request),
            Self::Rest(http) => Ok(http.body(request)?.to_vec()),
        }
    }
}

impl Facts {
    fn of_electrum(answers: &[Vec<u8>; 3]) -> Result<Self> {
        let answers = Answers::read(answers)?;
        let shown: BTreeSet<String> = answers.history.into_iter().map(|(_, txid)| txid).collect();
        let unspent = answers.unspent.into_iter().map(|(txid, vout, value, _)| (txid, vout, value)).collect();
        Ok(Self { balance: answers.balance.0 + answers.balance.1, txs: shown.len() as u64, shown, unspent })
    }

    fn of_rest(answers: &[Vec<u8>; 3]) -> Result<Self> {
        let [stats, txs, unspent] = answers.each_ref().map(|answer| serde_json::from_slice::<Value>(answer));
        let (stats, shown, unspent) = (stats?, txs?, unspent?);
        let sum = |name: &str| -> Result<i64> {
            let parts = ["chain_stats", "mempool_stats"].map(|part| stats[part][name].as_i64());
            Ok(parts.into_iter().collect::<Option<Vec<i64>>>().context("a count is missing")?.into_iter().sum())
        };
        let txids = shown.as_array().context("no list of transactions")?.iter();
        let shown: BTreeSet<String> = txids.filter_map(|tx| Some(tx["txid"].as_str()?.to_owned())).collect();
        let txs = u64::try_from(sum("tx_count")?)?;
        ensure!(shown.len() as u64 == txs.min(PAGE), "a page of {} of {txs} transactions", shown.len());
        let coins = unspent.as_array().context("no list of unspent outputs")?.iter();
        let coin = |coin: &Value| {
            let vout = u32::try_from(coin["vout"].as_u64()?).ok()?;
            Some((coin["txid"].as_str()?.to_owned(), vout, coin["value"].as_u64()?))
        };
        Ok(Self {
            balance: sum("funded_txo_sum")? - sum("spent_txo_sum")?,
            txs,
            shown,
            unspent: coins.filter_map(coin).collect(),
        })
    }

    /// Names the differences from the facts of another column. A page is equal if the whole list has its entries.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("balance", self.balance == other.balance),
            ("number of transactions", self.txs == other.txs),
            ("transactions", self.shown.is_subset(&other.shown) || other.shown.is_subset(&self.shown)),
            ("unspent outputs", self.unspent == other.unspent),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect()
    }
}

fn chart(
    title: &str,
    question: usize,
    by: By,
    scripts: &[Script],
    columns: &[Column<'_>],
    all: &[Turns<Figures>],
) -> Table {
    let what = if by == By::Transactions { "transactions" } else { "unspent outputs" };
    let meaning = match question {
        1 => "From request to answer, one at a time. Electrum: all txids; REST: the newest 25 transactions.",
        _ => "From request to answer, one at a time.",
    };
    let servers = columns.iter().map(|column| (&column.server.name, Unit::Seconds));
    let mut table = Table::new(format!("{title} by {what}"), meaning, Layout::ServersInColumns, servers)
        .drawn(Plot::Curve { x: format!("{what} of the script") });
    for class in classes(by, scripts, all) {
        class.add_row(&mut table, all, |figures, index| &figures.times[index][question]);
    }
    table
}

fn classes(by: By, scripts: &[Script], all: &[Turns<Figures>]) -> Vec<Class> {
    let facts = all.iter().find_map(|one| one.figures.as_ref().ok()).map(|figures| &figures.facts);
    let unspent = |index: usize| Some(facts?.get(index)?.unspent.len() as u64);
    Class::by_count(scripts.iter().enumerate().map(|(index, script)| match by {
        By::Transactions => Some(script.txs),
        By::Unspent => unspent(index),
    }))
}

/// Notes which columns differ from the first one that answered, and in which scripts.
fn differences(scripts: &[Script], columns: &[Column<'_>], all: &[Turns<Figures>]) -> Vec<String> {
    let mut answered = columns.iter().zip(all).filter_map(|(column, one)| Some((column, one.figures.as_ref().ok()?)));
    let Some((first, ours)) = answered.next() else { return Vec::new() };
    let mut notes = Vec::new();
    for (column, theirs) in answered {
        let facts = ours.facts.iter().zip(&theirs.facts).zip(scripts);
        notes.extend(facts.flat_map(|((ours, theirs), script)| {
            let note = |what| {
                format!("{} and {} differ in {}: {what}", first.server.name, column.server.name, script.scripthash)
            };
            ours.differences(theirs).into_iter().map(note)
        }));
    }
    let more = notes.len().saturating_sub(DIFFERENCES_MAX);
    notes.truncate(DIFFERENCES_MAX);
    match (notes.is_empty(), more) {
        (true, _) => vec![format!("All columns tell the same about each of {} scripts.", scripts.len())],
        (false, 0) => notes,
        (false, more) => notes.into_iter().chain([format!("{more} more answers differ.")]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(lines: [&str; 3]) -> [Vec<u8>; 3] {
        lines.map(|line| line.as_bytes().to_vec())
    }

    fn rest(sum: i64) -> Facts {
        let stats = format!(
            r#"{{"chain_stats":{{"tx_count":2,"funded_txo_sum":{sum},"spent_txo_sum":1}},
                "mempool_stats":{{"tx_count":0,"funded_txo_sum":0,"spent_txo_sum":0}}}}"#
        );
        let coins = r#"[{"txid":"bb","vout":1,"value":5,"status":{"confirmed":true}}]"#;
        Facts::of_rest(&answers([&stats, r#"[{"txid":"aa"},{"txid":"bb"}]"#, coins])).expect("answers")
    }

    #[test]
    fn facts_of_both_protocols_are_compared() {
        let electrum = Facts::of_electrum(&answers([
            r#"{"id":0,"result":{"confirmed":5,"unconfirmed":0}}"#,
            r#"{"id":0,"result":[{"tx_hash":"aa","height":1},{"tx_hash":"bb","height":2}]}"#,
            r#"{"id":0,"result":[{"tx_hash":"bb","tx_pos":1,"value":5,"height":2}]}"#,
        ]));
        let electrum = electrum.expect("answers");
        assert_eq!(rest(6).differences(&electrum), Vec::<&str>::new());
        assert_eq!(rest(7).differences(&electrum), ["balance"]);
    }

    #[test]
    fn a_page_that_is_cut_is_an_error() {
        let stats = r#"{"chain_stats":{"tx_count":3,"funded_txo_sum":1,"spent_txo_sum":1},
            "mempool_stats":{"tx_count":0,"funded_txo_sum":0,"spent_txo_sum":0}}"#;
        assert!(Facts::of_rest(&answers([stats, r#"[{"txid":"aa"}]"#, "[]"])).is_err());
    }
}
