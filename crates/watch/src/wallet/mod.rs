//! Scripts of a watch: branches of its descriptor and the window of the gap. Reads nothing.

use birdhouse_chain::ScriptHash;
use birdhouse_descriptors::{Branch, Derivation, Named, Steps, parse};
use bitcoin::hex::FromHex as _;
use bitcoin::{Network, OutPoint, ScriptBuf};

use crate::file::{Source, WatchSettings};
use crate::limits::SCRIPTS_MAX;

/// The scripts of one watch.
#[derive(Debug)]
pub(crate) struct Wallet {
    branches: Vec<WalletBranch>,
    /// The output that is watched, whose script is not known yet.
    pub(crate) outpoint: Option<OutPoint>,
}

#[derive(Debug)]
struct WalletBranch {
    source: BranchSource,
    /// Scripts derived, from number 0 on.
    derived: u32,
    /// The number after the last used script.
    used: u32,
}

#[derive(Debug)]
enum BranchSource {
    /// Numbered scripts.
    Ranged(Box<Branch>),
    /// Scripts that were added one by one.
    Listed(Vec<Listed>),
}

/// A script that was added.
#[derive(Debug)]
struct Listed {
    hash: ScriptHash,
    /// `None` for that of an output, of which the chain has the hash alone.
    script: Option<ScriptBuf>,
}

impl From<ScriptBuf> for Listed {
    fn from(script: ScriptBuf) -> Self {
        Self { hash: ScriptHash::of(script.as_bytes()), script: Some(script) }
    }
}

/// A script's number in its wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) branch: u32,
    pub(crate) index: u32,
}

impl Wallet {
    /// Returns the wallet of a watch, before any script of it is derived.
    ///
    /// # Errors
    /// The source names no scripts of the network, in words.
    pub(crate) fn of(settings: &WatchSettings, network: Network) -> Result<Self, String> {
        let mut wallet = Self::empty();
        match &settings.source {
            Source::Descriptor(text) => {
                match parse(text.trim(), network, &mut Steps::default()).map_err(|reason| reason.to_string())? {
                    Named::One(script) => wallet.list(vec![script.into()]),
                    Named::Many(described) => {
                        let step = || Ok(());
                        let mut derivation = Derivation::new(&step);
                        for described in &described {
                            let branch = Branch::new(described, &mut derivation).map_err(|_| no_script())?;
                            if branch.is_ranged() {
                                wallet.push(BranchSource::Ranged(Box::new(branch)));
                            } else {
                                let script = branch.script(0, &derivation).map_err(|_| no_script())?;
                                wallet.list(vec![script.into()]);
                            }
                        }
                    }
                }
            }
            Source::Script(hex) => {
                let script = Vec::<u8>::from_hex(hex).map_err(|error| error.to_string())?;
                wallet.list(vec![ScriptBuf::from(script).into()]);
            }
            Source::Outpoint(text) => {
                wallet.outpoint = Some(text.parse().map_err(|_| no_script())?);
                wallet.list(Vec::new());
            }
            Source::SilentPayment(_) => wallet.list(Vec::new()),
        }
        Ok(wallet)
    }

    /// A wallet without scripts.
    pub(crate) fn empty() -> Self {
        Self { branches: Vec::new(), outpoint: None }
    }

    fn push(&mut self, source: BranchSource) {
        self.branches.push(WalletBranch { source, derived: 0, used: 0 });
    }

    fn list(&mut self, scripts: Vec<Listed>) {
        self.push(BranchSource::Listed(scripts));
    }

    /// Adds a script to the first branch of a wallet that lists its scripts.
    pub(crate) fn add(&mut self, script: &ScriptBuf) {
        self.add_listed(script.clone().into());
    }

    /// [`Self::add`] of a script hash.
    pub(crate) fn add_hash(&mut self, hash: ScriptHash) {
        self.add_listed(Listed { hash, script: None });
    }

    fn add_listed(&mut self, script: Listed) {
        if let Some(WalletBranch { source: BranchSource::Listed(scripts), .. }) = self.branches.first_mut() {
            scripts.push(script);
        }
    }

    /// Returns the script at a position; `None` if its hash alone is known.
    pub(crate) fn script(&self, position: Position) -> Option<ScriptBuf> {
        match &self.branches.get(position.branch as usize)?.source {
            BranchSource::Ranged(branch) => branch.script(position.index, &Derivation::new(&|| Ok(()))).ok(),
            BranchSource::Listed(scripts) => scripts.get(position.index as usize)?.script.clone(),
        }
    }

    /// The number after the last used script, of each branch.
    pub(crate) fn used(&self) -> Vec<u32> {
        self.branches.iter().map(|branch| branch.used).collect()
    }

    /// Takes up the numbers that [`Self::used`] returned.
    pub(crate) fn set_used(&mut self, used: &[u32]) {
        for (branch, used) in self.branches.iter_mut().zip(used) {
            branch.used = *used;
        }
    }

    /// Notes that a script is used.
    pub(crate) fn note_used(&mut self, position: Position) {
        let branch = &mut self.branches[position.branch as usize];
        branch.used = branch.used.max(position.index + 1);
    }

    /// Derives the scripts that the window of this gap lacks, at most [`SCRIPTS_MAX`] in all.
    pub(crate) fn extend(&mut self, gap: u32) -> Vec<(ScriptHash, Position)> {
        let step = || Ok(());
        let derivation = Derivation::new(&step);
        let mut fresh = Vec::new();
        for number in 0..self.branches.len() {
            let room = self.room(number);
            let branch = &mut self.branches[number];
            let until = branch.window(gap).min(room);
            let number = u32::try_from(number).expect("a descriptor has few branches");
            while branch.derived < until {
                let index = branch.derived;
                let hash = match &branch.source {
                    BranchSource::Ranged(ranged) => {
                        // One number of 2^127 has no script.
                        ranged.script(index, &derivation).map(|script| ScriptHash::of(script.as_bytes())).ok()
                    }
                    BranchSource::Listed(scripts) => scripts.get(index as usize).map(|listed| listed.hash),
                };
                branch.derived += 1;
                fresh.extend(hash.map(|hash| (hash, Position { branch: number, index })));
            }
        }
        fresh
    }

    /// Scripts that a branch may have: what the others leave, each of which keeps a share.
    fn room(&self, number: usize) -> u32 {
        let share = SCRIPTS_MAX / (2 * self.branches.len());
        let others = self.branches.iter().enumerate().filter(|(other, _)| *other != number);
        let kept = others.map(|(_, branch)| match branch.source {
            BranchSource::Ranged(_) => share.max(branch.derived as usize),
            BranchSource::Listed(_) => branch.derived as usize,
        });
        u32::try_from(SCRIPTS_MAX.saturating_sub(kept.sum::<usize>())).expect("the bound is far below 2^32")
    }

    /// Returns the first script of a branch that its window needs, and that is one too many.
    pub(crate) fn first_beyond(&self, gap: u32) -> Option<Position> {
        let is_short = |branch: &WalletBranch| branch.derived < branch.window(gap);
        let number = self.branches.iter().position(is_short)?;
        let branch = u32::try_from(number).expect("a descriptor has few branches");
        Some(Position { branch, index: self.branches[number].derived })
    }

    /// The scripts of each branch that are derived.
    pub(crate) fn derived(&self) -> Vec<u32> {
        self.branches.iter().map(|branch| branch.derived).collect()
    }
}

impl WalletBranch {
    /// The number after the last script that is watched with this gap.
    fn window(&self, gap: u32) -> u32 {
        match &self.source {
            BranchSource::Ranged(_) => self.used.saturating_add(gap).min(1 << 31),
            BranchSource::Listed(scripts) => u32::try_from(scripts.len()).unwrap_or(u32::MAX),
        }
    }
}

fn no_script() -> String {
    "this names no script".to_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const TPUB: &str = "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB\
                        9jusQ46QzG87VKp";

    /// A wallet of two branches, of which both were used before.
    fn wallet(used: [u32; 2]) -> Wallet {
        let text = format!("[[watch]]\nname = \"w\"\ndescriptor = \"wpkh({TPUB}/<0;1>/*)\"\n");
        let file = crate::file::WatchFile::parse(&text, Network::Regtest).unwrap();
        let mut wallet = Wallet::of(&file.watches[0], Network::Regtest).unwrap();
        wallet.set_used(&used);
        wallet
    }

    fn derived(scripts: &[(ScriptHash, Position)]) -> [usize; 2] {
        [0, 1].map(|branch| scripts.iter().filter(|(_, position)| position.branch == branch).count())
    }

    #[test]
    fn no_branch_takes_all_scripts_of_a_watch() {
        let mut wallet = wallet([200_000, 50]);
        let [receiving, change] = derived(&wallet.extend(100));
        assert_eq!(change, 150, "the change has its window");
        assert!(receiving >= SCRIPTS_MAX / 2 && receiving + change <= SCRIPTS_MAX);
        let first = Position { branch: 0, index: u32::try_from(receiving).unwrap() };
        assert_eq!((wallet.first_beyond(100), wallet.derived()[1]), (Some(first), 150));
        // What the change keeps is its own, up to all of it.
        wallet.set_used(&[200_000, 300_000]);
        let more = wallet.extend(100).len();
        assert_eq!(receiving + change + more, SCRIPTS_MAX);
    }

    #[test]
    fn a_window_within_the_bound_is_whole() {
        let mut wallet = wallet([30, 2]);
        assert_eq!(derived(&wallet.extend(100)), [130, 102]);
        assert_eq!((wallet.first_beyond(100), wallet.extend(100).len()), (None, 0));
    }
}
