//! The watched scripts, as the API knows them.

use std::collections::HashMap;

use birdhouse_chain::ScriptHash;
use birdhouse_descriptors::{Named, Steps, parse};
use bitcoin::{Network, ScriptBuf};

use crate::api::{Branch, BranchScripts, Origin};
use crate::file::{Source, WatchFile, WatchSettings};

/// The watched scripts.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) origins: HashMap<ScriptHash, Origin>,
    /// Scripts of all watches; those of two watches count twice.
    pub(super) watched: usize,
    pub(super) branches: Vec<Branch>,
    pub(super) file: WatchFile,
}

/// Returns the branches of a watch that have a descriptor, or one script, of which none is used yet.
pub(super) fn branches_of(settings: &WatchSettings, network: Network) -> Vec<Branch> {
    let named = match &settings.source {
        Source::Descriptor(text) => parse(text.trim(), network, &mut Steps::default()).ok(),
        Source::Script(hex) => ScriptBuf::from_hex(hex).ok().map(Named::One),
        // Their scripts are found on the chain.
        Source::Outpoint(_) | Source::SilentPayment(_) => None,
    };
    let scripts: Vec<BranchScripts> = match named {
        Some(Named::One(script)) => vec![BranchScripts::Script(script)],
        Some(Named::Many(described)) => {
            described.into_iter().map(|described| BranchScripts::Descriptor(Box::new(described))).collect()
        }
        None => Vec::new(),
    };
    let branch = |(number, scripts): (u32, BranchScripts)| Branch {
        watch: settings.name.clone(),
        number,
        scripts,
        gap: settings.gap,
        watched: 1,
        is_full: false,
        used: None,
    };
    (0..).zip(scripts).map(branch).collect()
}
