//! The search: it leads to the page of whatever a text names.

use birdhouse_chain::read_address;
use birdhouse_chain::{Height, ScriptHash, Snapshot};
use birdhouse_esplora::script::address_of;
use birdhouse_esplora::{Answer, Failure, Lane, Question, Reply, Route, script_of_hash};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{BlockHash, OutPoint, ScriptBuf, Txid};

use super::refusal::{own_address, refused};
use super::{several, silent_payment};
use crate::views::parts::output_path;
use birdhouse_descriptors::{Unnamed, lines_of_key};

/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 64;
/// Bytes of a script: a shorter text is a slip of the pen, and nobody can spend an output with a longer one
/// ([Core's `script.h`](https://github.com/bitcoin/bitcoin/blob/master/src/script/script.h), `MAX_SCRIPT_SIZE`).
const SCRIPT_BYTES: std::ops::RangeInclusive<usize> = 4..=10_000;

/// By POST, so that no text that is searched for is a part of a path.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/search", Lane::Memory, nothing, "The first page."),
    Route::post("/search", Lane::Blocks, search, "Leads to the page of what a text names."),
];

fn nothing(_: &Question<'_>) -> Answer {
    Reply::elsewhere("/".into())
}

fn search(question: &Question<'_>) -> Answer {
    let text = question.params.form("q").unwrap_or_default();
    let text = bare(&text);
    if text.is_empty() {
        return nothing(question);
    }
    if text.len() < HASH_DIGITS
        && let Ok(height) = text.replace([' ', ',', '\u{202f}'], "").parse::<u32>()
    {
        let hash = question.at.block_hash(Height(height)).ok_or_else(|| not_found("block at this height"))?;
        return Reply::elsewhere(format!("/block/{hash}"));
    }
    if let Ok(outpoint) = text.parse::<OutPoint>() {
        return Reply::elsewhere(output_path(&existing(question, outpoint)?));
    }
    if text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return by_digits(question, &text.to_lowercase());
    }
    if read_address(text).is_some() {
        let address = own_address(question, text)?;
        return Reply::elsewhere(format!("/address/{address}"));
    }
    if let Some(address) = silent_payment::address(question, text) {
        address?;
        return Reply::elsewhere(format!("/address/{}", text.to_lowercase()));
    }
    several::of_text(question, text)
}

/// The text without what payment links have around an address
/// ([BIP 21](https://github.com/bitcoin/bips/blob/master/bip-0021.mediawiki)).
fn bare(text: &str) -> &str {
    let text = text.trim();
    match text.get(..8) {
        Some(scheme) if scheme.eq_ignore_ascii_case("bitcoin:") => text[8..].split('?').next().unwrap_or_default(),
        _ => text,
    }
}

fn not_found(noun: &str) -> Failure {
    Failure::not_found(format!("there is no {noun}"))
}

/// Checks that a transaction has an output. One that is gone from the mempool has all of them, as far as is known.
fn existing(question: &Question<'_>, outpoint: OutPoint) -> Result<OutPoint, Failure> {
    match question.at.output_count(outpoint.txid)? {
        Some(count) if outpoint.vout >= count => Err(not_found("such output: the transaction has fewer")),
        None if !is_remembered(question.at, &outpoint.txid) => Err(not_found("transaction with this txid")),
        _ => Ok(outpoint),
    }
}

fn is_remembered(at: &Snapshot, txid: &Txid) -> bool {
    let known = at.mempool().replacements();
    known.version(txid).is_some() || known.dropped(txid).is_some()
}

/// Leads to whatever hexadecimal digits name: a block, a transaction or a script by its hash, a public key, or a script
/// itself.
fn by_digits(question: &Question<'_>, digits: &str) -> Answer {
    let key = lines_of_key(digits);
    if digits.len() == HASH_DIGITS {
        if let Some(page) = by_hash(question.at, digits)? {
            return Reply::elsewhere(page);
        }
        // Half of all hashes are x-only keys, too.
        let used = key.map(|key| several::of_used(question, &key)).transpose()?.flatten();
        return used.ok_or_else(|| not_found("block, transaction, script or key with this hash"));
    }
    if let Some(key) = key {
        return several::of_text(question, &key);
    }
    let script = script(digits).ok_or_else(|| refused(question, &Unnamed::Unknown))?;
    let hash = ScriptHash::of(script.as_bytes()).0.to_lower_hex_string();
    let address = address_of(&script, question.network());
    Reply::elsewhere(address.map_or_else(|| format!("/scripthash/{hash}"), |address| format!("/address/{address}")))
}

/// A script in hexadecimal that a transaction may have as an output.
fn script(digits: &str) -> Option<ScriptBuf> {
    let script = ScriptBuf::from_hex(digits).ok()?;
    let is_whole = script.instructions().all(|instruction| instruction.is_ok());
    (is_whole && SCRIPT_BYTES.contains(&script.len())).then_some(script)
}

/// The page of a block, a transaction, or a script with a history, by the digits of its hash. The Electrum protocol has
/// hashes of scripts backwards.
fn by_hash(at: &Snapshot, digits: &str) -> Result<Option<String>, Failure> {
    if digits.parse::<BlockHash>().is_ok_and(|hash| at.block_height(&hash).is_some()) {
        return Ok(Some(format!("/block/{digits}")));
    }
    if let Ok(txid) = digits.parse::<Txid>()
        && (at.confirmation(txid)?.is_some() || is_remembered(at, &txid))
    {
        return Ok(Some(format!("/tx/{txid}")));
    }
    let backwards: String = (0..HASH_DIGITS / 2).rev().filter_map(|at| digits.get(2 * at..2 * at + 2)).collect();
    for digits in [digits, &backwards] {
        let script = script_of_hash(digits)?;
        if at.confirmed_stats(&script)?.txs + at.unconfirmed_stats(&script).txs > 0 {
            return Ok(Some(format!("/scripthash/{digits}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_link_is_its_address() {
        assert_eq!(bare(" BITCOIN:bc1q?amount=1 "), "bc1q");
        assert_eq!(bare("bc1q"), "bc1q");
    }
}
