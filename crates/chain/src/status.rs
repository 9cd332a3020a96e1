//! Electrum's status of a script: the SHA-256 of its history as text.
//!
//! Source: Electrum protocol basics, "Status": `txid:height:` of every entry, the confirmed ones in chain order, then
//! those in the mempool with height 0, or -1 where an input is unconfirmed.
//!
//! Many clients follow the same script, and one script may have a hundred thousand transactions. So statuses are
//! remembered until their script is touched, and of a long history also the hasher after its last block (the midstate):
//! the next status then costs what changed, not what there is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::answer::{HistoryEntry, UnconfirmedEntry};
use crate::index::Touched;
use crate::query::Snapshot;
use crate::scripthash::ScriptHash;
use crate::txnum::{Height, TxNum};

/// Scripts whose status is remembered. At the bound all are forgotten: about 100 bytes each.
const SCRIPTS_MAX: usize = 1 << 18;
/// Entries from which a history's midstate is worth its 200 bytes. Hashing as many takes some 20 microseconds.
const MIDSTATE_ENTRIES_MIN: u64 = 64;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `None` without history.
pub(crate) type Status = Option<[u8; 32]>;

impl Snapshot {
    /// Electrum's status of a script; `None` when it has no history.
    pub fn status(&self, scripthash: &ScriptHash) -> Result<Option<[u8; 32]>> {
        let statuses = &self.shared.statuses;
        let midstate = match statuses.find(self.serial, scripthash) {
            Known::Status(status) => return Ok(status),
            Known::Midstate(midstate) if midstate.fits(self) => midstate,
            Known::Midstate(_) | Known::Nothing => Arc::new(Midstate::empty(self)),
        };
        let news = self.history_since(scripthash, midstate.end)?;
        let midstate = midstate.extended(&news, self);
        let status = midstate.status(&self.unconfirmed(scripthash));
        statuses.remember(self.serial, *scripthash, status, midstate);
        Ok(status)
    }

    /// The status of a script that somebody has asked for and nothing has touched since: it is in memory. `None`: it must be made.
    pub fn known_status(&self, scripthash: &ScriptHash) -> Option<Option<[u8; 32]>> {
        match self.shared.statuses.find(self.serial, scripthash) {
            Known::Status(status) => Some(status),
            Known::Midstate(_) | Known::Nothing => None,
        }
    }
}

/// A confirmed history, hashed up to a block.
#[derive(Clone)]
struct Midstate {
    hasher: Sha256,
    entries: u64,
    /// Of the last block it knows.
    height: Height,
    /// The first txnum after that block.
    end: TxNum,
}

impl Midstate {
    fn empty(at: &Snapshot) -> Self {
        Self { hasher: Sha256::new(), entries: 0, height: at.tip().height, end: TxNum(0) }
    }

    /// Whether its last block is in the snapshot's chain. A block that left it and came back is not meant: its transactions
    /// have other txnums now, and would be hashed once more as news.
    fn fits(&self, at: &Snapshot) -> bool {
        at.headers.get(self.height).is_some_and(|block| block.end_txnum() == self.end)
    }

    /// With what came since, at the tip of `at`.
    fn extended(&self, news: &[HistoryEntry], at: &Snapshot) -> Self {
        let mut hasher = self.hasher.clone();
        for entry in news {
            put(&mut hasher, &entry.txid, Some(entry.height.0));
        }
        let entries = self.entries + news.len() as u64;
        Self { hasher, entries, height: at.tip().height, end: at.headers.end_txnum() }
    }

    fn status(&self, unconfirmed: &[UnconfirmedEntry]) -> Status {
        if self.entries == 0 && unconfirmed.is_empty() {
            return None;
        }
        let mut hasher = self.hasher.clone();
        for entry in unconfirmed {
            put(&mut hasher, &entry.txid, (!entry.has_unconfirmed_inputs).then_some(0));
        }
        Some(hasher.finalize().into())
    }
}

/// Hashes one entry; no height stands for -1.
fn put(hasher: &mut Sha256, txid: &Txid, height: Option<u32>) {
    let mut line = [0; 64 + 1 + 10 + 1];
    for (pair, byte) in line.chunks_exact_mut(2).zip(txid.as_byte_array().iter().rev()) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    line[64] = b':';
    let digits = put_height(&mut line[65..75], height);
    line[65 + digits] = b':';
    hasher.update(&line[..66 + digits]);
}

/// Writes a height at the front of `out`; gives its length.
fn put_height(out: &mut [u8], height: Option<u32>) -> usize {
    let Some(mut rest) = height else {
        out[..2].copy_from_slice(b"-1");
        return 2;
    };
    let digits = rest.checked_ilog10().map_or(1, |log| log as usize + 1);
    for place in out[..digits].iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    digits
}

// === the memory of statuses ===

/// Statuses at the snapshot that is shown, shared by all who ask.
#[derive(Default)]
pub(crate) struct Statuses {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the snapshot that all remembered statuses belong to.
    serial: u64,
    scripts: HashMap<ScriptHash, Remembered>,
}

struct Remembered {
    /// Forgotten when the script is touched.
    status: Option<Status>,
    midstate: Option<Arc<Midstate>>,
}

enum Known {
    Status(Status),
    Midstate(Arc<Midstate>),
    Nothing,
}

impl Statuses {
    /// Another snapshot is shown from now on; these scripts' answers may differ in it.
    pub(crate) fn advance(&self, serial: u64, touched: &Touched) {
        let mut state = self.state();
        state.serial = serial;
        match touched {
            Touched::Scripts(touched) => touched.iter().for_each(|scripthash| state.forget(scripthash)),
            Touched::Any => state.scripts.retain(|_, known| {
                known.status = None;
                known.midstate.is_some()
            }),
        }
    }

    /// A snapshot that is no longer shown may still use a midstate; its caller looks whether it fits.
    fn find(&self, serial: u64, scripthash: &ScriptHash) -> Known {
        let state = self.state();
        match state.scripts.get(scripthash) {
            Some(Remembered { status: Some(status), .. }) if state.serial == serial => Known::Status(*status),
            Some(Remembered { midstate: Some(midstate), .. }) => Known::Midstate(Arc::clone(midstate)),
            _ => Known::Nothing,
        }
    }

    fn remember(&self, serial: u64, scripthash: ScriptHash, status: Status, midstate: Midstate) {
        let midstate = (midstate.entries >= MIDSTATE_ENTRIES_MIN).then(|| Arc::new(midstate));
        let mut state = self.state();
        if state.serial != serial {
            return;
        }
        if state.scripts.len() >= SCRIPTS_MAX {
            state.scripts.clear();
        }
        state.scripts.insert(scripthash, Remembered { status: Some(status), midstate });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the map is one step: a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, scripthash: &ScriptHash) {
        match self.scripts.get_mut(scripthash) {
            Some(known) if known.midstate.is_some() => known.status = None,
            Some(_) => drop(self.scripts.remove(scripthash)),
            None => {}
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn txid(byte: u8) -> Txid {
        Txid::from_byte_array([byte; 32])
    }

    fn hashed(entries: &[(u8, Option<u32>)]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for (byte, height) in entries {
            put(&mut hasher, &txid(*byte), *height);
        }
        hasher.finalize().into()
    }

    #[test]
    fn status_is_the_hash_of_the_history_as_text() {
        let entries = [(1, Some(1)), (0xab, Some(9)), (3, Some(1_234_567_890)), (4, Some(0)), (5, None)];
        let shown = |height: Option<u32>| height.map_or("-1".to_owned(), |height| height.to_string());
        let lines: Vec<String> =
            entries.iter().map(|(byte, height)| format!("{}:{}:", txid(*byte), shown(*height))).collect();
        let text = lines.concat();
        let expected: [u8; 32] = Sha256::digest(text).into();
        assert_eq!(hashed(&entries), expected);
    }

    #[test]
    fn a_status_is_known_until_its_script_is_touched() {
        let statuses = Statuses::default();
        let midstate = |entries| Midstate { hasher: Sha256::new(), entries, height: Height(0), end: TxNum(0) };
        let (short, long) = (ScriptHash([1; 32]), ScriptHash([2; 32]));
        statuses.advance(1, &Touched::Any);
        statuses.remember(1, short, None, midstate(0));
        statuses.remember(1, long, Some([7; 32]), midstate(MIDSTATE_ENTRIES_MIN));
        statuses.remember(0, ScriptHash([3; 32]), None, midstate(0));
        assert!(matches!(statuses.find(1, &short), Known::Status(None)));
        assert!(matches!(statuses.find(1, &ScriptHash([3; 32])), Known::Nothing), "an older snapshot's is not taken");
        assert!(matches!(statuses.find(0, &short), Known::Nothing), "an older snapshot does not see it");
        statuses.advance(2, &Touched::Scripts(vec![long]));
        assert!(matches!(statuses.find(2, &short), Known::Status(None)));
        assert!(matches!(statuses.find(2, &long), Known::Midstate(_)));
        statuses.advance(3, &Touched::Any);
        assert!(matches!(statuses.find(3, &short), Known::Nothing));
        assert!(statuses.state.lock().unwrap().scripts.contains_key(&long));
    }
}
