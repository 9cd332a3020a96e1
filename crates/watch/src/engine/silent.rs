//! Silent payments: scripts that a scan key finds, block by block and in the mempool. Once found, a script is watched
//! as any other, from the block on in which it was found: the tweaks of a block may follow long after its tip.

use std::collections::BTreeSet;
use std::sync::Arc;

use birdhouse_chain::{Found, Height, ScriptHash, Snapshot, Tweaks};
use birdhouse_silentpayments::{Engine, scan_key, taproot_key};
use bitcoin::hex::{DisplayHex as _, FromHex as _};
use bitcoin::{ScriptBuf, consensus};

use super::watched::{Moment, Watched};
use crate::error::Result;
use crate::file::Source;
use crate::limits::SILENT_HISTORY_MAX;

/// Blocks that are scanned together.
const CHUNK: u32 = 500;

/// The tweaks of the chain, where they are indexed.
pub(super) struct Scans<'a> {
    pub(super) tweaks: Option<&'a Tweaks>,
}

impl Watched {
    /// Takes up scripts that were found before.
    pub(super) fn take_up_found(&mut self, found: &[String]) {
        self.silent.found = found.to_vec();
        self.silent.scanned = self.record.as_ref().map_or(0, |record| record.scanned);
        for hex in found {
            if let Ok(bytes) = Vec::<u8>::from_hex(hex) {
                self.wallet.add(&ScriptBuf::from(bytes));
            }
        }
    }

    /// Scans what is new for the watch's scan key, if it has one, and adds the scripts that it finds.
    pub(super) fn scan(
        &mut self,
        scans: &Scans<'_>,
        moment: &Moment<'_>,
        scripts: &mut BTreeSet<ScriptHash>,
    ) -> Result<()> {
        let Source::SilentPayment(text) = &self.settings.source else { return Ok(()) };
        self.silent.fault = None;
        let Some(tweaks) = scans.tweaks else {
            self.silent_fault("silent payments are found only with silent-payments = \"scan\" or \"full\"");
            return Ok(());
        };
        if self.silent.scanner.is_none() {
            let Ok(key) = scan_key(text.trim(), moment.network) else { return Ok(()) };
            self.silent.scanner = Some(Engine::new().scanner(key));
        }
        let tip = moment.at.tip().height.0;
        if self.record.is_none() {
            let from = self.settings.history_from.unwrap_or(tip + 1);
            self.silent.scanned = from.max((tip + 1).saturating_sub(SILENT_HISTORY_MAX)).min(tip + 1);
        } else if moment.is_reorg {
            let settled = self.record.as_ref().map_or(0, |record| record.settled);
            self.silent.scanned = self.silent.scanned.min(settled);
        }
        let mut found = Vec::new();
        let scanner = self.silent.scanner.as_ref().expect("made above");
        let end = tweaks.len(moment.at).min(tip + 1);
        self.silent.scanned = self.silent.scanned.max(tweaks.start().0);
        while self.silent.scanned < end {
            let next = (self.silent.scanned + CHUNK).min(end);
            match tweaks.find(moment.at, scanner, Height(self.silent.scanned)..Height(next))? {
                Some(more) => found.extend(more),
                None => break,
            }
            self.silent.scanned = next;
        }
        let mempool = moment.at.mempool();
        if mempool.next_arrival() < self.silent.arrival {
            self.silent.arrival = 0;
        }
        let arrived: Vec<&Arc<_>> = mempool.arrived_since(self.silent.arrival).collect();
        found.extend(tweaks.find_unconfirmed(scanner, arrived.into_iter())?);
        self.silent.arrival = mempool.next_arrival();
        for found in found {
            self.add_found(moment.at, &found, scripts)?;
        }
        Ok(())
    }

    /// Adds the outputs of a transaction that pay the key.
    fn add_found(&mut self, at: &Snapshot, found: &Found, scripts: &mut BTreeSet<ScriptHash>) -> Result<()> {
        let bytes = match at.transaction_bytes(found.txid) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(birdhouse_chain::Error::Removed { .. }) => {
                self.silent_fault("the node has removed the block of a silent payment: it is not announced");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let Ok(transaction) = consensus::deserialize::<bitcoin::Transaction>(&bytes) else { return Ok(()) };
        let outputs = transaction.output.iter().map(|output| &output.script_pubkey);
        let (own, keys): (Vec<&ScriptBuf>, Vec<[u8; 32]>) =
            outputs.filter_map(|script| Some((script, *taproot_key(script.as_bytes())?))).unzip();
        let scanner = self.silent.scanner.as_ref().expect("it found this");
        let Ok(payments) = scanner.key().payments(&found.tweak, &keys) else { return Ok(()) };
        for payment in payments {
            let script = own[payment.output];
            let hex = script.as_bytes().to_lower_hex_string();
            if !self.silent.found.contains(&hex) {
                self.wallet.add(script);
                self.silent.found.push(hex);
                if let Some(height) = found.height {
                    self.silent.since.insert(ScriptHash::of(script.as_bytes()), height.0);
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
