//! Silent payments: scripts that a scan key finds, block by block and in the mempool. Once found, a script is watched
//! as any other, from the block on in which it was found: the tweaks of a block may follow long after its tip.
//!
//! An update scans a bounded number of blocks; the first sight of a watch waits until the past that it asks for is
//! scanned. A payment in a block that a pruned node has removed is kept until the block is fetched.

use std::collections::BTreeSet;

use birdhouse_chain::{Error as ChainError, ScriptHash, Snapshot, Tweaks};
use birdhouse_silentpayments::{Engine, TWEAK_BYTES, scan_key, taproot_key};
use bitcoin::hex::{DisplayHex as _, FromHex as _};
use bitcoin::{ScriptBuf, Transaction, consensus};

use super::moment::Moment;
use super::retry::Retry;
use super::watched::Watched;
use crate::error::Result;
use crate::file::Source;
use crate::limits::SILENT_HISTORY_MAX;
use crate::state::{Unread, WatchRecord};

/// Transactions in removed blocks that one update asks for.
const UNREAD_AT_ONCE: usize = 16;

/// The tweaks of the chain, where they are indexed.
pub(super) struct Scans<'a> {
    pub(super) tweaks: Option<&'a Tweaks>,
}

impl Watched {
    /// Takes up scripts that were found before.
    pub(super) fn take_up_found(&mut self, record: &WatchRecord) {
        self.silent.found.clone_from(&record.found);
        self.silent.unread.clone_from(&record.unread);
        self.silent.scanned = Some(record.scanned);
        for hex in &record.found {
            if let Ok(bytes) = Vec::<u8>::from_hex(hex) {
                self.wallet.add(&ScriptBuf::from(bytes));
            }
        }
    }

    /// True while the past that the first sight is about is scanned.
    pub(super) fn awaits_scan(&self) -> bool {
        self.record.is_none() && (self.silent.is_behind || self.silent.retry.is_some())
    }

    /// Scans what is new for the watch's scan key, if it has one, and adds the scripts that it finds. A failure, such
    /// as damaged tweaks, is a fault of this watch alone, which scans again after a
    /// pause, and not at each change of the mempool.
    pub(super) fn scan(&mut self, scans: &Scans<'_>, moment: &Moment<'_>, scripts: &mut BTreeSet<ScriptHash>) {
        let Source::SilentPayment(key) = &self.settings.source else { return };
        let key = key.clone();
        self.silent.scanned = Some(self.scan_from(moment));
        // The next scan begins where the one that failed did.
        if moment.is_too_early_for(self.silent.retry) {
            self.silent.wanted.clear();
            return;
        }
        let (fault, retry) = (self.silent.fault.take(), self.silent.retry.take());
        let place = self.silent.place();
        if let Err(error) = self.scan_next(&key, scans, moment, scripts) {
            self.silent.go_back(place);
            self.silent.retry = Some(Retry::after(retry, moment.now));
            self.silent_fault(&format!("failed to look for silent payments: {error}"));
            if self.silent.fault != fault {
                tracing::warn!(%error, "failed to look for the silent payments of a watch");
            }
        }
    }

    fn scan_next(
        &mut self,
        key: &str,
        scans: &Scans<'_>,
        moment: &Moment<'_>,
        scripts: &mut BTreeSet<ScriptHash>,
    ) -> Result<()> {
        let Some(tweaks) = scans.tweaks else {
            self.silent_fault("silent payments are found only with silent-payments = \"scan\" or \"full\"");
            return Ok(());
        };
        if self.silent.scanner.is_none() {
            let Ok(key) = scan_key(key.trim(), moment.network) else { return Ok(()) };
            self.silent.scanner = Some(Engine::new().scanner(key));
        }
        let found = self.silent.find(tweaks, moment.at)?;
        let unread = self.silent.unread.len().min(UNREAD_AT_ONCE);
        let unread: Vec<Unread> = self.silent.unread.drain(..unread).collect();
        self.silent.wanted.clear();
        for found in unread.into_iter().chain(found.into_iter().map(Unread::from)) {
            self.add_found(moment.at, found, scripts)?;
        }
        if !self.silent.unread.is_empty() {
            let count = self.silent.unread.len();
            self.silent_fault(&format!(
                "the node has removed the blocks of {count} silent payments: they are announced once a peer of the node \
                 has sent these"
            ));
        }
        Ok(())
    }

    /// The next block to scan.
    fn scan_from(&self, moment: &Moment<'_>) -> u32 {
        let tip = moment.at.tip().height.0;
        match (self.silent.scanned, &self.record) {
            (Some(scanned), Some(record)) if moment.is_reorg => scanned.min(record.settled),
            (Some(scanned), record) if record.is_some() || !moment.is_reorg => scanned,
            _ => {
                let from = self.settings.history_from.unwrap_or(tip + 1);
                from.max((tip + 1).saturating_sub(SILENT_HISTORY_MAX)).min(tip + 1)
            }
        }
    }

    /// Adds the outputs of a transaction that pay the key.
    fn add_found(&mut self, at: &Snapshot, found: Unread, scripts: &mut BTreeSet<ScriptHash>) -> Result<()> {
        let bytes = match at.transaction_bytes(found.txid) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(ChainError::Removed { parts }) => {
                self.silent.wanted.extend(parts);
                if self.silent.unread.iter().all(|other| other.txid != found.txid) {
                    self.silent.unread.push(found);
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let Ok(transaction) = consensus::deserialize::<Transaction>(&bytes) else { return Ok(()) };
        let outputs = transaction.output.iter().map(|output| &output.script_pubkey);
        let (own, keys): (Vec<&ScriptBuf>, Vec<[u8; 32]>) =
            outputs.filter_map(|script| Some((script, *taproot_key(script.as_bytes())?))).unzip();
        let scanner = self.silent.scanner.as_ref().expect("it found this");
        let Ok(tweak) = const_hex::decode_to_array::<_, TWEAK_BYTES>(&found.tweak) else { return Ok(()) };
        let Ok(payments) = scanner.key().payments(&tweak, &keys) else { return Ok(()) };
        for payment in payments {
            let script = own[payment.output];
            let hex = script.as_bytes().to_lower_hex_string();
            if !self.silent.found.contains(&hex) {
                self.wallet.add(script);
                self.silent.found.push(hex);
                if let Some(height) = found.height {
                    self.silent.since.insert(ScriptHash::of(script.as_bytes()), height);
                }
                scripts.extend(self.extend());
            }
        }
        Ok(())
    }

    fn silent_fault(&mut self, message: &str) {
        self.silent.fault = Some(message.to_owned());
    }
}
