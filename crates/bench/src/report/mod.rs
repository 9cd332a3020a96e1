//! Rendering of records as one page for a browser, and as Markdown.

pub(crate) mod durations;
pub(crate) mod record;

mod page;
mod plot;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::report::record::Record;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Files of records, in the order of the report.
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// File to write one self-contained page of HTML to.
    #[arg(long)]
    html: Option<PathBuf>,
    /// File to write the same tables to, as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    ensure!(plan.html.is_some() || plan.markdown.is_some(), "nothing to write; set --html or --markdown");
    let records: Vec<Record> = plan.records.iter().map(|file| Record::read(file)).collect::<Result<_>>()?;
    write(&records, plan.html.as_deref(), plan.markdown.as_deref())
}

/// Writes the page and the Markdown.
pub(crate) fn write(records: &[Record], html: Option<&Path>, as_markdown: Option<&Path>) -> Result<()> {
    if let Some(file) = html {
        put(file, &page::html(records))?;
    }
    if let Some(file) = as_markdown {
        put(file, &markdown(records))?;
    }
    Ok(())
}

fn markdown(records: &[Record]) -> String {
    let sections = records.iter().map(Record::to_markdown);
    format!("# Benchmark report\n\n{}", sections.collect::<Vec<_>>().join("\n"))
}

fn put(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

#[cfg(test)]
mod sample {
    use crate::report::record::Record;

    /// Returns records of earlier versions of this program, which must still be readable.
    pub(super) fn records() -> Vec<Record> {
        let files = [include_str!("../../tests/records/electrum.json"), include_str!("../../tests/records/relay.json")];
        files.map(|json| serde_json::from_str(json).expect("a record")).into()
    }
}
