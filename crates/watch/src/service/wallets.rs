//! Questions of the API about watches.

use birdhouse_chain::ScriptHash;

use super::watches::Watches;
use crate::api::{Branch, Following, Origin, Wallets};
use crate::file::{ChannelName, InvoiceChange, WatchName};
use crate::limits::GAP_MIN;

impl Wallets for Watches {
    fn branches(&self) -> Vec<Branch> {
        let Some(running) = self.running() else { return Vec::new() };
        let Some(scripts) = running.scripts.read().clone() else { return Vec::new() };
        let views = running.views.lock();
        let mut branches = scripts.branches.clone();
        for branch in &mut branches {
            let view = views.iter().find(|view| view.name == branch.watch);
            let used = view.and_then(|view| view.used.get(branch.number as usize)).copied().unwrap_or(0);
            branch.used = used.checked_sub(1);
            if branch.is_ranged() {
                let window = used.saturating_add(branch.gap.max(GAP_MIN));
                let derived = view.and_then(|view| view.derived.get(branch.number as usize)).copied();
                branch.watched = derived.unwrap_or(window).min(window);
                branch.is_full = branch.watched < window;
            }
        }
        branches
    }

    fn origin(&self, scripthash: &ScriptHash) -> Option<Origin> {
        self.running()?.scripts.read().as_ref()?.origins.get(scripthash).cloned()
    }

    fn scripthashes(&self) -> Vec<ScriptHash> {
        let Some(running) = self.running() else { return Vec::new() };
        let scripts = running.scripts.read().clone();
        scripts.map(|scripts| scripts.origins.keys().copied().collect()).unwrap_or_default()
    }

    fn are_known(&self) -> bool {
        match self.running() {
            Some(running) => running.scripts.read().is_some(),
            // Without a watch file there is nothing to know; of one with a mistake nothing is known.
            None => self.inner.fault.lock().is_none(),
        }
    }

    fn channels_for(&self, watch: &WatchName, change: InvoiceChange) -> Vec<ChannelName> {
        let file = self.file();
        let settings = file.watches.into_iter().find(|settings| settings.name == *watch);
        settings
            .filter(|settings| settings.invoices.contains(&change))
            .map(|settings| settings.channels)
            .unwrap_or_default()
    }

    fn explorer(&self) -> Option<String> {
        self.file().explorer
    }

    fn appended(&self, seq: u64) {
        if let Some(running) = self.running() {
            running.announce(seq);
        }
    }

    fn follow(&self) -> Option<Following> {
        let of_index = || Following::of_index(&self.inner.index);
        match self.running() {
            Some(running) => running.begin_to_follow(of_index),
            None => of_index(),
        }
    }

    fn found_since(&self, known: usize) -> Vec<ScriptHash> {
        let Some(running) = self.running() else { return Vec::new() };
        let followed = running.followed.lock();
        followed.found.get(known..).unwrap_or_default().to_vec()
    }
}
