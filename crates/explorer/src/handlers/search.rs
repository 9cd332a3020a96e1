//! The search: it leads to the page of whatever a text names.

use birdhouse_chain::{Height, Snapshot};
use birdhouse_esplora::{Answer, Failure, Lane, Question, Reply, Route, read_address, script_of_hash};
use bitcoin::{BlockHash, Txid};

use super::refusal::own_address;
use super::several;

/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 64;

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
    if text.len() == HASH_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        let page = by_hash(question.at, &text.to_lowercase())?;
        let page = page.ok_or_else(|| not_found("block, transaction or script with this hash"))?;
        return Reply::elsewhere(page);
    }
    if read_address(text).is_some() {
        let address = own_address(question, text)?;
        return Reply::elsewhere(format!("/address/{address}"));
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

/// The page of a block, a transaction, or a script with a history, by the digits of its hash. The Electrum protocol has
/// hashes of scripts backwards.
fn by_hash(at: &Snapshot, digits: &str) -> Result<Option<String>, Failure> {
    if digits.parse::<BlockHash>().is_ok_and(|hash| at.block_height(&hash).is_some()) {
        return Ok(Some(format!("/block/{digits}")));
    }
    if let Ok(txid) = digits.parse::<Txid>()
        && at.confirmation(txid)?.is_some()
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
