//! Cache of statuses, shared by all snapshots of an index.
//!
//! Many clients follow the same script, and one script may have a hundred thousand transactions. So a status is cached
//! until its script is touched. Of a long history the cache also keeps the hasher after its last block (the midstate):
//! the next status then costs the change, not the length. The midstates are in memory and not in the rows: the build
//! would have to read every txid of every long script in random order to make them.

use std::sync::Arc;

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::names::{Height, ScriptHash, Touched, TxNum};
use crate::state::aging_map::AgingMap;
use crate::state::answer::{HistoryEntry, UnconfirmedEntry};
use crate::state::headers::Headers;

/// Scripts in the cache, about 100 bytes each.
const SCRIPTS_MAX: usize = 1 << 18;
/// Entries from which a history's midstate is worth its 200 bytes. Hashing that many takes some 20 microseconds.
const MIDSTATE_ENTRIES_MIN: u64 = 64;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Electrum's status: `None` for a script without history.
pub(super) type Status = Option<[u8; 32]>;

/// A confirmed history, hashed up to a block.
#[derive(Clone)]
pub(crate) struct Midstate {
    hasher: Sha256,
    entries: u64,
    /// Height of the last block hashed.
    height: Height,
    /// The first txnum after that block.
    end: TxNum,
}

impl Midstate {
    /// The midstate of no history at all, for the chain of `headers`.
    pub(crate) fn empty(headers: &Headers) -> Self {
        Self { hasher: Sha256::new(), entries: 0, height: tip_height(headers), end: TxNum(0) }
    }

    /// The first txnum that is not hashed yet.
    pub(crate) fn end(&self) -> TxNum {
        self.end
    }

    /// True if the last block hashed is in the chain of `headers`. A block that left the chain and came back does not
    /// count: its transactions have other txnums now, and would be hashed a second time.
    pub(crate) fn fits(&self, headers: &Headers) -> bool {
        headers.get(self.height).is_some_and(|block| block.end_txnum() == self.end)
    }

    /// The midstate at the tip of `headers`, with the history since [`Self::end`].
    pub(crate) fn extended(&self, since: &[HistoryEntry], headers: &Headers) -> Self {
        let mut hasher = self.hasher.clone();
        for entry in since {
            put(&mut hasher, &entry.txid, Some(entry.height.0));
        }
        let entries = self.entries + since.len() as u64;
        Self { hasher, entries, height: tip_height(headers), end: headers.end_txnum() }
    }

    /// The status of the history with these unconfirmed entries after it.
    pub(crate) fn status(&self, unconfirmed: &[UnconfirmedEntry]) -> Status {
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

fn tip_height(headers: &Headers) -> Height {
    headers.tip().expect("a snapshot has a genesis block").height
}

/// Hashes one entry as `txid:height:`; no height stands for -1.
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

/// Writes a height in decimal digits at the front of `out`; returns their number.
fn put_height(out: &mut [u8], height: Option<u32>) -> usize {
    let Some(mut rest) = height else {
        out[..2].copy_from_slice(b"-1");
        return 2;
    };
    let digits = rest.checked_ilog10().map_or(1, |log| log as usize + 1);
    for digit in out[..digits].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    digits
}

/// Statuses of the installed snapshot, shared by all who ask.
#[derive(Default)]
pub(crate) struct StatusCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The installed version: all cached statuses are of its snapshot.
    version: u64,
    scripts: AgingMap<ScriptHash, Cached, SCRIPTS_MAX>,
}

struct Cached {
    /// `None` after the script was touched.
    status: Option<Status>,
    midstate: Option<Arc<Midstate>>,
}

/// The cached part of a status.
pub(crate) enum Known {
    Status(Status),
    Midstate(Arc<Midstate>),
    Nothing,
}

impl StatusCache {
    /// Moves the cache to the next installed version, in which the answers of `touched` scripts may differ.
    pub(crate) fn advance(&self, version: u64, touched: &Touched) {
        let mut state = self.state.lock();
        state.version = version;
        match touched {
            Touched::Scripts(touched) => touched.iter().for_each(|scripthash| state.forget(scripthash)),
            Touched::Any => state.scripts.retain(|cached| {
                cached.status = None;
                cached.midstate.is_some()
            }),
        }
    }

    /// Looks a script up for a snapshot of `version`. An older snapshot may still use a midstate, if it
    /// [fits](Midstate::fits).
    pub(crate) fn find(&self, version: u64, scripthash: &ScriptHash) -> Known {
        let mut state = self.state.lock();
        let is_current = state.version == version;
        match state.scripts.get(scripthash) {
            Some(Cached { status: Some(status), .. }) if is_current => Known::Status(*status),
            Some(Cached { midstate: Some(midstate), .. }) => Known::Midstate(Arc::clone(midstate)),
            _ => Known::Nothing,
        }
    }

    /// Caches a status of the snapshot of `version`, unless a later one is installed.
    pub(crate) fn remember(&self, version: u64, scripthash: ScriptHash, status: Status, midstate: Midstate) {
        let midstate = (midstate.entries >= MIDSTATE_ENTRIES_MIN).then(|| Arc::new(midstate));
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        state.scripts.insert(scripthash, Cached { status: Some(status), midstate });
    }
}

impl State {
    fn forget(&mut self, scripthash: &ScriptHash) {
        match self.scripts.get(scripthash) {
            Some(cached) if cached.midstate.is_some() => cached.status = None,
            Some(_) => self.scripts.remove(scripthash),
            None => {}
        }
    }
}

#[cfg(test)]
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
        let text = |height: Option<u32>| height.map_or("-1".to_owned(), |height| height.to_string());
        let lines: Vec<String> =
            entries.iter().map(|(byte, height)| format!("{}:{}:", txid(*byte), text(*height))).collect();
        let joined = lines.concat();
        let expected: [u8; 32] = Sha256::digest(joined).into();
        assert_eq!(hashed(&entries), expected);
    }

    #[test]
    fn a_status_is_known_until_its_script_is_touched() {
        let statuses = StatusCache::default();
        let midstate = |entries| Midstate { hasher: Sha256::new(), entries, height: Height(0), end: TxNum(0) };
        let (brief, long) = (ScriptHash([1; 32]), ScriptHash([2; 32]));
        statuses.advance(1, &Touched::Any);
        statuses.remember(1, brief, None, midstate(0));
        statuses.remember(1, long, Some([7; 32]), midstate(MIDSTATE_ENTRIES_MIN));
        statuses.remember(0, ScriptHash([3; 32]), None, midstate(0));
        assert!(matches!(statuses.find(1, &brief), Known::Status(None)));
        assert!(matches!(statuses.find(1, &ScriptHash([3; 32])), Known::Nothing), "an older snapshot's is not taken");
        assert!(matches!(statuses.find(0, &brief), Known::Nothing), "an older snapshot does not see it");
        statuses.advance(2, &Touched::Scripts(vec![long]));
        assert!(matches!(statuses.find(2, &brief), Known::Status(None)));
        assert!(matches!(statuses.find(2, &long), Known::Midstate(_)));
        statuses.advance(3, &Touched::Any);
        assert!(matches!(statuses.find(3, &brief), Known::Nothing));
        assert!(statuses.state.lock().scripts.get(&long).is_some());
    }
}
