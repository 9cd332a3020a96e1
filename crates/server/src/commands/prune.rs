//! `birdhouse prune`: shows what a deletion of the node's old blocks frees and ends, asks, and has it done, by the
//! running server or by this process if none runs.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::commands::backup::by_server;
use crate::config::{ControlCommand, DiskSize, Options};
use crate::index::{Offer, Pruned, Pruner, Setup};
use crate::process::users::OtherUser;

/// The word that the operator types.
const WORD: &str = "delete";
/// Questions that need blocks which are gone.
const ENDS: &str = "\
After that old raw transactions and whole old blocks (REST: /block/<hash>/raw) are fetched from the node's peers, and
these need blocks that only a new download of the chain brings back:
  - block filters of old blocks
  - a new index: profile lean, silent-payments that is switched on later, birdhouse verify --all
Histories, balances, unspent outputs and proofs stay complete.";

/// The operator's consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// It is a flag.
    Given,
    /// It is asked for on a terminal. Elsewhere nothing is deleted.
    Asked,
}

pub(crate) fn run(options: &Options, DiskSize(keep_bytes): DiskSize, consent: Consent) -> Result<ExitCode> {
    // Of a process that runs already, or of this one.
    let offer = by_server(options, &ControlCommand::OfferPrune { keep_bytes })?;
    let setup = if offer.is_none() { Some(opened(options)?) } else { None };
    let pruner = || -> Result<&Pruner> {
        let pruner = setup.as_ref().and_then(|setup| setup.pruner.as_deref());
        pruner.context("failed to prune: there is no node; set node-dir")
    };
    let offer = match offer {
        Some(offer) => offer,
        None => pruner()?.offer(keep_bytes)?,
    };
    println!("{}", shown(&offer, keep_bytes));
    if offer.plan.height.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if consent == Consent::Asked && !asked()? {
        println!("Nothing was deleted.");
        return Ok(ExitCode::SUCCESS);
    }
    let pruned: Option<Pruned> = match &setup {
        None => by_server(options, &ControlCommand::Prune { keep_bytes })?.flatten(),
        Some(_) => pruner()?.prune(keep_bytes)?,
    };
    match pruned {
        None => println!("Nothing was deleted."),
        Some(Pruned { freed_bytes, node_bytes, first }) => println!(
            "Freed {}. The node has its blocks from height {first} on, which take {}.",
            size(freed_bytes),
            size(node_bytes)
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the index, which no server has open.
fn opened(options: &Options) -> Result<Setup> {
    OtherUser::refuse(&options.data_dir()?)?;
    Setup::open(options)
}

fn shown(Offer { plan, held_by, index_bytes }: &Offer, keep_bytes: u64) -> String {
    let now = format!(
        "The node has its blocks from height {} to {}, which take {}; the index takes {}.",
        plan.first,
        plan.tip,
        size(plan.node_bytes),
        size(*index_bytes)
    );
    let Some(height) = plan.height else {
        let excess = plan.node_bytes.saturating_sub(keep_bytes);
        let why = if excess == 0 {
            "They take no more than that.".to_owned()
        } else if excess < plan.step_bytes {
            format!(
                "They take {} more than that, which is too little to delete: at least {} go at once (node-prune-step).",
                size(excess),
                size(plan.step_bytes)
            )
        } else {
            let holds = held_by.as_ref().map(|name| format!(" {name} has read no more yet.")).unwrap_or_default();
            format!("Up to height {}, which is as far as it may go, there is too little to delete.{holds}", plan.last)
        };
        return format!("{now}\n{why}");
    };
    let reorg = plan.tip.saturating_sub(height);
    format!(
        "{now}\nDeleting those up to height {height} frees about {} and leaves {}.\n{ENDS}\nA reorg deeper than {reorg} \
         blocks cannot be followed.",
        size(plan.freed_bytes),
        size(plan.node_bytes.saturating_sub(plan.freed_bytes)),
    )
}

/// Asks on the terminal, in words.
fn asked() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        println!("This was a dry run; with --yes they are deleted.");
        return Ok(false);
    }
    print!("Type \"{WORD}\" to delete them: ");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("failed to read the answer")?;
    Ok(line.trim().eq_ignore_ascii_case(WORD))
}

/// Formats a size in the unit that leaves one digit or more.
fn size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1_000, "kB"));
    let tenths = bytes / (unit / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use birdhouse_node::PrunePlan;

    use super::*;

    fn offer(height: Option<u32>, node_bytes: u64) -> Offer {
        let plan = PrunePlan {
            node_bytes,
            first: 0,
            tip: 927_000,
            last: 926_000,
            step_bytes: 10_000_000_000,
            height,
            freed_bytes: 682_000_000_000,
        };
        Offer { plan, held_by: None, index_bytes: 130_000_000_000 }
    }

    #[test]
    fn an_offer_says_what_goes_what_stays_and_what_ends() {
        let text = shown(&offer(Some(900_000), 712_000_000_000), 30_000_000_000);
        for part in ["712.0 GB", "130.0 GB", "height 900000", "682.0 GB", "30.0 GB", "27000 blocks", "verify --all"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_offer_of_nothing_has_the_reason() {
        let said = |node_bytes, held_by: Option<&str>| {
            let held_by = held_by.map(str::to_owned);
            shown(&Offer { held_by, ..offer(None, node_bytes) }, 30_000_000_000)
        };
        assert!(said(20_000_000_000, None).contains("no more than that"));
        let text = said(35_000_000_000, None);
        assert!(text.contains("5.0 GB more") && text.contains("10.0 GB") && text.contains("node-prune-step"), "{text}");
        assert!(!text.contains("926000"), "{text}");
        let text = said(45_000_000_000, None);
        assert!(text.contains("height 926000") && text.ends_with("to delete."), "{text}");
        assert!(said(45_000_000_000, Some("filters")).ends_with("filters has read no more yet."));
    }

    #[test]
    fn sizes_have_a_unit_of_their_order() {
        for (bytes, text) in
            [(0, "0.0 kB"), (65_536, "65.5 kB"), (29_960_000_000, "29.9 GB"), (1_250_000_000_000, "1.2 TB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
