//! The watched wallets as the API shows them: branches by the checksum of their descriptor, as BWT names them, or by
//! the name of their watch.

use std::sync::Arc;

use birdhouse_chain::{Index, ScriptHash, Snapshot, Update};
use birdhouse_descriptors::{Described, with_checksum};
use bitcoin::{Address, Network, ScriptBuf};
use miniscript::DescriptorPublicKey;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::api::failure::Failure;
use crate::file::{ChannelName, InvoiceChange, WatchName};
use crate::invoice::Reserve;

/// The watched wallets at any time.
pub trait Wallets: Send + Sync {
    /// Returns all branches of all watches, those of a watch in a row, by their numbers.
    fn branches(&self) -> Vec<Branch>;

    /// Returns the branch and number of a watched script.
    fn origin(&self, scripthash: &ScriptHash) -> Option<Origin>;

    /// Returns the hashes of all watched scripts.
    fn scripthashes(&self) -> Vec<ScriptHash>;

    /// Returns false until the scripts of the watches are known.
    fn are_known(&self) -> bool {
        true
    }

    /// Returns the channels of a watch for a change of an invoice; none where the watch does not ask for it.
    fn channels_for(&self, watch: &WatchName, change: InvoiceChange) -> Vec<ChannelName> {
        let _ = (watch, change);
        Vec::new()
    }

    /// Makes a notice known that was appended to the log at this position.
    fn appended(&self, seq: u64) {
        let _ = seq;
    }

    /// Returns the URL of an explorer, below which the page of a transaction is `/tx/<txid>`.
    fn explorer(&self) -> Option<String> {
        None
    }

    /// Begins to follow the chain as the watches know it; `None` without an index.
    fn follow(&self) -> Option<Following>;

    /// Returns the scripts that were found while the watches were at work, but for the first `known` of them: those of
    /// silent payments, and those that a window gained. Their transactions may be older than their discovery.
    fn found_since(&self, known: usize) -> Vec<ScriptHash> {
        let _ = known;
        Vec::new()
    }
}

/// The chain as the watches know it, from one moment on.
pub struct Following {
    /// The snapshot of that moment.
    pub at: Arc<Snapshot>,
    /// The updates after it. Scripts that an update makes known are watched once it comes.
    pub updates: broadcast::Receiver<Arc<Update>>,
    /// Number of the scripts that were found before.
    pub found: usize,
}

impl Following {
    /// Follows an index itself; `None` without a snapshot.
    pub fn of_index(index: &Index) -> Option<Self> {
        loop {
            let updates = index.updates();
            let at = index.snapshot().ok()?;
            // One that came in between may be older than the snapshot.
            if updates.is_empty() {
                return Some(Self { at, updates, found: 0 });
            }
        }
    }
}

/// The scripts of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum BranchScripts {
    /// A descriptor of one branch, with or without a range.
    Descriptor(Box<Described>),
    /// One script.
    Script(ScriptBuf),
}

/// A branch of a watched wallet.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Name of its watch.
    pub watch: WatchName,
    /// Its number: 0 receives, 1 is change, where the watch has two.
    pub number: u32,
    /// Its scripts.
    pub scripts: BranchScripts,
    /// Gap of the watch.
    pub gap: u32,
    /// Scripts from 0 on that are watched now.
    pub watched: u32,
    /// True if its window needs more, and the watch may have no more.
    pub is_full: bool,
    /// The highest number that chain or mempool shows as used.
    pub used: Option<u32>,
}

/// The branch of a script, and its number in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the watch.
    pub watch: WatchName,
    /// Number of the branch.
    pub branch: u32,
    /// Number of the script in the branch.
    pub index: u32,
}

impl Branch {
    /// Returns true if it has more than one script.
    pub fn is_ranged(&self) -> bool {
        matches!(&self.scripts, BranchScripts::Descriptor(descriptor) if descriptor.is_ranged())
    }

    /// Returns the descriptor with its checksum.
    pub(super) fn text(&self) -> String {
        match &self.scripts {
            BranchScripts::Descriptor(descriptor) => descriptor.text(),
            BranchScripts::Script(script) => with_checksum(&format!("raw({})", script.to_hex_string())),
        }
    }

    /// Returns the checksum of the descriptor, which is its name.
    pub(super) fn checksum(&self) -> String {
        self.text().rsplit('#').next().unwrap_or_default().to_owned()
    }

    /// Returns the script of a number; `None` for a number that the branch does not have.
    pub(super) fn script(&self, index: u32) -> Option<ScriptBuf> {
        match &self.scripts {
            BranchScripts::Descriptor(descriptor) => descriptor.script(index),
            BranchScripts::Script(script) => (index == 0).then(|| script.clone()),
        }
    }

    /// Returns the next number: beyond all that are used, and all that invoices have.
    pub(super) fn next(&self, reserve: Option<Reserve>) -> u32 {
        if !self.is_ranged() {
            return 0;
        }
        let after_used = self.used.map_or(0, |used| used + 1);
        after_used.max(reserve.map_or(0, |reserve| reserve.next))
    }

    /// Returns what BWT says of a wallet, with the name of the watch and the number of the branch.
    pub(super) fn to_json(&self, network: Network) -> Value {
        let weight = match &self.scripts {
            BranchScripts::Descriptor(descriptor) => descriptor.max_weight_to_satisfy().map(bitcoin::Weight::to_wu),
            BranchScripts::Script(_) => None,
        };
        json!({
            "name": self.watch,
            "branch": self.number,
            "desc": self.text(),
            "network": network.to_string(),
            "is_wildcard": self.is_ranged(),
            "bip32_origins": self.key_origins(None),
            "rescan_policy": 0,
            "max_funded_index": self.used,
            "max_imported_index": self.watched.checked_sub(1),
            "gap_limit": self.gap,
            "initial_import_size": self.gap.max(crate::limits::GAP_MIN),
            "satisfaction_weight": weight,
        })
    }

    /// Returns fingerprint and path of each key, with the number of a script behind those that have a range.
    fn key_origins(&self, index: Option<u32>) -> Vec<String> {
        let BranchScripts::Descriptor(descriptor) = &self.scripts else { return Vec::new() };
        let origin = |key: DescriptorPublicKey| {
            let path = key.full_derivation_path().unwrap_or_default();
            let steps = path.into_iter().map(ToString::to_string);
            let index = index.filter(|_| key.has_wildcard()).map(|index| index.to_string());
            let steps: Vec<String> =
                [key.master_fingerprint().to_string()].into_iter().chain(steps).chain(index).collect();
            steps.join("/")
        };
        descriptor.keys().map(origin).collect()
    }

    /// Returns what BWT says of a script.
    pub(super) fn script_json(&self, index: u32, network: Network) -> Result<Map<String, Value>, Failure> {
        let script = self.script(index).ok_or_else(|| Failure::not_found("The wallet has no such address"))?;
        let desc = match &self.scripts {
            BranchScripts::Descriptor(descriptor) => descriptor.text_at(index),
            BranchScripts::Script(_) => None,
        };
        let mut shape = Map::new();
        shape.insert(
            "address".into(),
            json!(Address::from_script(&script, network).ok().map(|address| address.to_string())),
        );
        shape.insert("scripthash".into(), json!(ScriptHash::of(script.as_bytes()).to_string()));
        shape.insert("origin".into(), json!(format!("{}/{index}", self.checksum())));
        shape.insert("desc".into(), json!(desc.unwrap_or_else(|| self.text())));
        shape.insert("bip32_origins".into(), json!(self.key_origins(Some(index))));
        Ok(shape)
    }
}

/// Branches of one form of addresses: those that receive, and those of change.
pub(super) const BRANCHES_OF_A_FORM: usize = 2;

/// All branches at one moment.
pub(super) struct Book<'a> {
    wallets: &'a dyn Wallets,
    pub(super) branches: Vec<Branch>,
    pub(super) network: Network,
}

impl<'a> Book<'a> {
    pub(super) fn new(wallets: &'a dyn Wallets, network: Network) -> Self {
        Self { wallets, branches: wallets.branches(), network }
    }

    /// Returns the branch of this checksum, or the first one of the watch with this name.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn branch(&self, name: &str) -> Result<&Branch, Failure> {
        let by_name = || self.branches.iter().find(|branch| branch.watch.as_str() == name);
        let found = self.branches.iter().find(|branch| branch.checksum() == name).or_else(by_name);
        found.ok_or_else(|| Failure::not_found("There is no such wallet"))
    }

    /// Returns the branch whose addresses customers pay to.
    ///
    /// # Errors
    /// There is none, or the key of the watch may be for several forms of addresses, of which the wallet has one.
    pub(super) fn branch_to_pay(&self, name: &str) -> Result<&Branch, Failure> {
        let branch = self.branch(name)?;
        let of_watch = self.branches.iter().filter(|other| other.watch == branch.watch).count();
        if of_watch > BRANCHES_OF_A_FORM && branch.checksum() != name {
            return Err(Failure::conflict(
                "this key may be for several forms of addresses; name the branch by its checksum, from /wallets",
            ));
        }
        Ok(branch)
    }

    /// Returns what BWT says of a script; `None` for one that is not watched.
    pub(super) fn script_json(&self, scripthash: &ScriptHash) -> Result<Option<Map<String, Value>>, Failure> {
        let Some(origin) = self.wallets.origin(scripthash) else { return Ok(None) };
        let of_origin = |branch: &&Branch| branch.watch == origin.watch && branch.number == origin.branch;
        let Some(branch) = self.branches.iter().find(of_origin) else { return Ok(None) };
        branch.script_json(origin.index, self.network).map(Some)
    }

    /// Returns true for a script that is watched.
    pub(super) fn has(&self, scripthash: &ScriptHash) -> bool {
        self.wallets.origin(scripthash).is_some()
    }

    /// Returns true for a script of this watch.
    pub(super) fn is_of(&self, scripthash: &ScriptHash, watch: &str) -> bool {
        self.wallets.origin(scripthash).is_some_and(|origin| origin.watch.as_str() == watch)
    }

    /// Returns the branch and number of a watched script.
    pub(super) fn origin(&self, scripthash: &ScriptHash) -> Option<Origin> {
        self.wallets.origin(scripthash)
    }

    pub(super) fn scripthashes(&self) -> Vec<ScriptHash> {
        self.wallets.scripthashes()
    }
}
