//! The chain and the events of all measurements. Those of an earlier run are used again.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use birdhouse_testkit::bench_chain::LoadBlock;
use birdhouse_testkit::{bench_chain, corpus, loadblock};
use serde_json::{Value, json};

use super::size::Size;
use crate::machine::folder;
use crate::report::record::{Cell, Layout, Record, Table, Unit};

// Names in the folder.
pub(super) const CHAIN: &str = "chain";
pub(super) const SAMPLES: &str = "samples.json";
pub(super) const EVENTS: &str = "events.jsonl";
pub(super) const QUERIES: &str = "queries.jsonl";
pub(super) const NEW_EVENTS: &str = "new-events.jsonl";
/// Written last, with the size of the inputs: a folder without it is incomplete and made again.
const MADE: &str = "made.json";

const SEED: u64 = 1;
const SEED_OF_NEW_EVENTS: u64 = 2;

impl Size {
    fn chain(self) -> bench_chain::Plan {
        let (blocks, txs) = match self {
            Self::Small => (500, 600_000),
            Self::Full => (2200, 8_000_000),
        };
        bench_chain::Plan { seed: SEED, blocks, txs }
    }

    fn events(self) -> u64 {
        if self == Self::Small { 100_000 } else { 1_000_000 }
    }

    /// Returns the number of events that a measurement publishes.
    fn new_events(self) -> u64 {
        if self == Self::Small { 15_000 } else { 40_000 }
    }
}

/// Makes missing inputs; returns a record that describes them.
pub(super) fn make(out: &Path, size: Size) -> Result<Record> {
    let mut record = Record::begin("Chain and events of all measurements", out);
    let wanted = json!({"seed": SEED, "txs": size.chain().txs, "events": size.events(), "new": size.new_events()});
    let kept = fs::read(out.join(MADE)).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let made = match kept {
        Some(made) if made["wanted"] == wanted => made,
        _ => {
            if kept.is_some() {
                fs::remove_file(out.join(MADE))?;
            }
            let made = json!({"wanted": wanted, "chain": chain(out, size)?, "events": events(out, size)?});
            fs::write(out.join(MADE), made.to_string())?;
            made
        }
    };
    record.tables.push(table(
        "Chain",
        "Regtest, in the sizes and shapes of real blocks; a function of its seed.",
        &made["chain"],
    ));
    record.tables.push(table(
        "Events",
        "Signed, in the sizes and shapes of a busy relay's; a function of their seed.",
        &made["events"],
    ));
    Ok(record)
}

fn chain(out: &Path, size: Size) -> Result<Value> {
    eprintln!("a chain of {} transactions ..", size.chain().txs);
    // Indexes and nodes of another chain are useless.
    for folder in [CHAIN, "indexes"] {
        folder::remove(&out.join(folder))?;
    }
    let (file, started) = (out.join("chain.dat"), Instant::now());
    let mut chain = LoadBlock(BufWriter::with_capacity(1 << 20, create(&file)?));
    let stats = bench_chain::generate(size.chain(), &mut chain)?;
    chain.0.flush()?;
    fs::write(out.join(SAMPLES), stats.samples.to_json().to_string())?;
    let made_s = started.elapsed().as_secs_f64();
    loadblock::import(&file, &out.join(CHAIN), stats.tip.context("a chain has a tip")?)?;
    fs::remove_file(&file)?;
    let longest = stats.samples.largest.iter().map(|sample| sample.txs).max();
    Ok(json!([
        ["blocks", stats.blocks],
        ["transactions", stats.txs],
        ["inputs", stats.inputs],
        ["outputs", stats.outputs],
        ["scripts", stats.scripts],
        ["transactions of the busiest script", longest],
        ["bytes", stats.bytes],
        ["seconds to make", made_s],
    ]))
}

fn events(out: &Path, size: Size) -> Result<Value> {
    eprintln!("{} events ..", size.events());
    for folder in ["relays", "nostream"] {
        folder::remove(&out.join(folder))?;
    }
    let started = Instant::now();
    let made = write_events(&out.join(EVENTS), corpus::Plan { seed: SEED, events: size.events() })?;
    let made_s = started.elapsed().as_secs_f64();
    made.write_queries(&mut BufWriter::new(create(&out.join(QUERIES))?))?;
    write_events(&out.join(NEW_EVENTS), corpus::Plan { seed: SEED_OF_NEW_EVENTS, events: size.new_events() })?;
    Ok(json!([
        ["events", size.events()],
        ["authors", made.authors],
        ["tags of one letter", made.indexed_tags],
        ["queries", made.queries.len()],
        ["bytes", made.bytes],
        ["seconds to make", made_s],
        ["events published later", size.new_events()],
    ]))
}

fn write_events(file: &Path, plan: corpus::Plan) -> Result<corpus::Corpus> {
    let mut lines = BufWriter::with_capacity(1 << 20, create(file)?);
    let made = corpus::generate(plan, &mut lines)?;
    lines.flush()?;
    Ok(made)
}

fn create(file: &Path) -> Result<File> {
    File::create(file).with_context(|| format!("failed to write {}", file.display()))
}

fn table(title: &str, meaning: &str, counts: &Value) -> Table {
    let mut table = Table::new(title, meaning, Layout::OneServer, [("", Unit::Count)]);
    for count in counts.as_array().into_iter().flatten() {
        let name = count[0].as_str().unwrap_or_default();
        table.push(name, [count[1].as_f64().map_or(Cell::Nothing, Cell::number)]);
    }
    table
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn incomplete_inputs_are_not_used_again() {
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join(MADE), r#"{"wanted": "another size", "chain": [], "events": []}"#).unwrap();
        // A folder where the file of blocks would be written.
        fs::create_dir(out.path().join("chain.dat")).unwrap();
        assert!(make(out.path(), Size::Small).is_err());
        assert!(!out.path().join(MADE).exists());
    }
}
