//! A wallet's silent payments, found by its scan key.
//!
//! The key comes in the body of a request that nobody on the way can read. It is in memory while the page is made, as a
//! type that is wiped, and the page does not repeat it. Blocks are scanned while the page is sent, some for each piece,
//! so the scan gives its turns back, and ends soon after its client has gone.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use birdhouse_chain::{Found, Height, Hit, MempoolTransaction, Result, Snapshot, TweakRow, Tweaks};
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, Way};
use birdhouse_silentpayments::{Engine, KeyError, ScanKey, Scanner, taproot_key};
use bitcoin::hex::FromHex as _;
use bitcoin::{OutPoint, Transaction, consensus};
use hyper::StatusCode;

use crate::views::scan::{Access, PaidOutput, Payment, Sum, begun, end, form_page, rows};

/// Time after which a piece of the page is sent, whatever it has.
const PIECE: Duration = Duration::from_millis(500);
/// Rows that are scanned between two looks at the clock, and at clients that wait: some milliseconds at most.
const SLICE_ROWS: usize = 128;
/// Transactions of the mempool that are scanned together.
const UNCONFIRMED: usize = 32;

/// Made for the first scan: its self-test takes some milliseconds.
static ENGINE: OnceLock<Engine> = OnceLock::new();

pub(super) const ROUTES: &[Route] = &[
    Route::get("/silent-payments", Lane::Memory, form, "A form for a scan key."),
    Route::post("/silent-payments", Lane::Blocks, scan, "The silent payments of a scan key, over TLS or loopback."),
];

fn form(question: &Question<'_>) -> Answer {
    Reply::html(form_page(question.network(), access(question)), Cache::Private)
}

/// Returns whether the client may send a key.
pub(super) fn access(question: &Question<'_>) -> Access {
    match (question.tweaks(), question.way) {
        (None, _) => Access::NoIndex,
        (Some(_), Way::Open) => Access::InClear,
        (Some(tweaks), Way::Closed) => Access::Open { start: tweaks.start().0 },
    }
}

fn scan(question: &Question<'_>) -> Answer {
    let refused = |text: &'static str| Failure::Refused(StatusCode::FORBIDDEN, text.into());
    let tweaks = match (access(question), question.tweaks()) {
        (Access::Open { .. }, Some(tweaks)) => tweaks.clone(),
        (Access::InClear, _) => {
            return Err(refused("a scan key is taken over TLS or from the same machine alone; it is not read now"));
        }
        _ => return Err(refused("this server keeps no index of silent payments")),
    };
    let (at, start) = (question.at, start(question, &tweaks)?);
    let (len, tip) = (tweaks.len(at), at.tip().height.0);
    if len <= tip {
        let text =
            format!("the index of silent payments is at height {} of {tip}; try again later", len.saturating_sub(1));
        return Err(Failure::unavailable(text));
    }
    let scanner = ENGINE.get_or_init(Engine::new).scanner(key(question)?);
    let unconfirmed: Vec<_> = at.mempool().arrived_since(0).filter(|found| found.tweak().is_some()).cloned().collect();
    let mut scan =
        Scan { tweaks, scanner, heights: start..len.min(tip + 1), unconfirmed, sum: Sum::default(), is_over: false };
    let begun = begun(question.network(), start, tip);
    Ok(Reply::growing_page(begun, move |at| scan.piece(at)))
}

fn start(question: &Question<'_>, tweaks: &Tweaks) -> std::result::Result<u32, Failure> {
    let text = question.params.plain_form("start").unwrap_or_default();
    let start = if text.is_empty() { Ok(0) } else { text.parse::<u32>() };
    let start = start.map_err(|_| Failure::bad_request("the height is no number"))?;
    Ok(start.max(tweaks.start().0).min(tweaks.len(question.at)))
}

fn key(question: &Question<'_>) -> std::result::Result<ScanKey, Failure> {
    let digits = |name| question.params.plain_form(name).unwrap_or_default();
    let spend = <[u8; 33]>::from_hex(digits("spend"));
    let spend = spend.map_err(|_| Failure::bad_request("the public spend key has 66 hexadecimal digits"))?;
    ScanKey::from_hex(digits("scan"), &spend).map_err(|error| {
        Failure::bad_request(match error {
            KeyError::Scan => "the private scan key has 64 hexadecimal digits and is below the order of the curve",
            KeyError::Spend => "the spend key is not a compressed public key",
        })
    })
}

/// A scan while its page is sent.
struct Scan {
    tweaks: Tweaks,
    scanner: Scanner,
    /// Blocks that are left.
    heights: Range<u32>,
    /// Transactions of the mempool that are left.
    unconfirmed: Vec<Arc<MempoolTransaction>>,
    sum: Sum,
    /// The end of the page is sent.
    is_over: bool,
}

impl Scan {
    /// Returns the next piece of the page.
    fn piece(&mut self, at: &Snapshot) -> Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let (began, mut payments) = (Instant::now(), Vec::new());
        while payments.is_empty() && began.elapsed() < PIECE {
            let found = if let Some(height) = self.heights.clone().next() {
                let found = self.block(at, height)?;
                self.heights.next();
                found
            } else if self.unconfirmed.is_empty() {
                self.is_over = true;
                break;
            } else {
                self.some_unconfirmed(at)?
            };
            for found in &found {
                payments.extend(self.payments(at, found)?);
            }
        }
        self.sum.add(&payments);
        let mut text = rows(&payments, self.heights.start);
        if self.is_over {
            text.push_str(&end(self.sum));
        }
        Ok(Some(text.into_bytes()))
    }

    fn block(&self, at: &Snapshot, height: u32) -> Result<Vec<Found>> {
        let heights = Height(height)..Height(height + 1);
        let Some(read) = self.tweaks.read_prefixes(at, heights)? else { return Err(birdhouse_chain::Error::NoBlocks) };
        let (all, mut found): (Vec<TweakRow<'_>>, _) = (read.iter().collect(), Vec::new());
        for slice in all.chunks(SLICE_ROWS) {
            at.charge_step()?;
            for hit in Hit::among(slice, &self.scanner)? {
                found.extend(hit.proved(at, &self.scanner)?);
            }
        }
        Ok(found)
    }

    fn some_unconfirmed(&mut self, at: &Snapshot) -> Result<Vec<Found>> {
        at.charge_step()?;
        let some = self.unconfirmed.split_off(self.unconfirmed.len().saturating_sub(UNCONFIRMED));
        self.tweaks.find_unconfirmed(&self.scanner, some.iter())
    }

    /// Returns the outputs of a transaction that pay the key. Beside a pruned node the amounts of old ones are unknown:
    /// a scan has no blocks fetched.
    fn payments(&self, at: &Snapshot, found: &Found) -> Result<Vec<Payment>> {
        let height = found.height.map(|height| height.0);
        let raw = match at.transaction_bytes(found.txid) {
            Err(error) if error.is_removed() => {
                return Ok(vec![Payment { txid: found.txid, height, output: None }]);
            }
            raw => raw?,
        };
        let Some(raw) = raw else { return Ok(Vec::new()) };
        let Ok(transaction) = consensus::deserialize::<Transaction>(&raw) else { return Ok(Vec::new()) };
        let taproot = (0..).zip(&transaction.output);
        let taproot = taproot.filter_map(|(vout, output)| {
            taproot_key(output.script_pubkey.as_bytes()).map(|key| (vout, output.value.to_sat(), *key))
        });
        let taproot: Vec<(u32, u64, [u8; 32])> = taproot.collect();
        let keys: Vec<[u8; 32]> = taproot.iter().map(|(.., key)| *key).collect();
        // The tweak was a point when the transaction was found by it.
        let paid = self.scanner.key().payments(&found.tweak, &keys).unwrap_or_default();
        let payment = |paid: &birdhouse_silentpayments::Payment| {
            let (vout, sats, _) = taproot[paid.output];
            let outpoint = OutPoint { txid: found.txid, vout };
            let is_spent = match at.spender_of(outpoint) {
                Err(error) if error.is_removed() => None,
                spender => Some(spender?.is_some()),
            };
            let output = PaidOutput { vout, sats, is_spent, label: paid.label };
            Ok(Payment { txid: found.txid, height, output: Some(output) })
        };
        paid.iter().map(payment).collect()
    }
}
