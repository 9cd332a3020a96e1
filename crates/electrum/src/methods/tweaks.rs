//! `blockchain.tweaks.*`: tweaks of silent payments, in the dialect of Cake Wallet.
//!
//! The first block is the reply, as in rbitcoin, and the others follow it. (Cake's own server sends all of them first,
//! and its wallet reads both.)

use std::ops::Range;

use birdhouse_chain::{Height, Snapshot, TweakDetail, Tweaks};
use bitcoin::OutPoint;

use crate::error::RpcError;
use crate::limits::TWEAK_OUTPUTS_MAX;
use crate::protocol::{Answer, SpentPayments, TweakCoding, TweakForm, TweakStream};
use crate::request::TweakRange;
use crate::service::Service;
use crate::settings::TweakDialect;
use crate::tweaks::{Amount, MAX_VERSION, TweakBlock, stream_bytes};

/// Returns the tweaks, with outputs; `None` if the server has none of these for wallets.
pub(crate) fn tweaks(service: &Service) -> Option<Tweaks> {
    let is_on = service.settings.tweak_dialect != TweakDialect::Off;
    let tweaks = Tweaks::among(service.index.derived()).filter(|_| is_on)?;
    (tweaks.detail() == TweakDetail::Full).then_some(tweaks)
}

/// `blockchain.tweaks.subscribe`. A range of several blocks has at most `bytes_max` bytes.
pub(crate) fn subscribe(
    service: &Service,
    at: &Snapshot,
    range: TweakRange,
    bytes_max: Option<u64>,
) -> Result<Answer, RpcError> {
    let tweaks = tweaks(service).ok_or_else(|| {
        RpcError::bad_request("tweaks index disabled: it needs the server's setting silent-payments = \"full\"")
    })?;
    let form = TweakForm { coding: coding(service, range.version)?, spent: range.spent };
    let heights = heights(at, range)?;
    check_covered(&tweaks, at, heights.end)?;
    check_size(&tweaks, at, form, &heights, bytes_max)?;
    let covered = || RpcError::from(birdhouse_chain::Error::NoBlocks);
    let mut block = TweakBlock::read(form, &tweaks, at, heights.start)?.ok_or_else(covered)?;
    block.advance(at, || false)?;
    let members = block.finish();
    let json = if names_version(service, form.coding, heights.start) {
        format!(r#"{{{members},"params":[{{"max_protocol_version":{MAX_VERSION}}}]}}"#)
    } else {
        format!("{{{members}}}")
    };
    let first = at.block_hash(Height(heights.start)).ok_or_else(covered)?;
    Ok(Answer::Tweaks { json, stream: TweakStream { form, start: heights.start, first, end: heights.end } })
}

/// Returns true if a reply names the newest version. In version 1 the wallet would take further members for a wrong
/// block: only its probe, of block 0, may have some.
fn names_version(service: &Service, coding: TweakCoding, start: u32) -> bool {
    service.settings.tweak_dialect == TweakDialect::V2 && (coding == TweakCoding::Binary || start == 0)
}

/// Returns the coding of a version.
///
/// # Errors
/// The server does not have it. A client is never answered in another one.
fn coding(service: &Service, version: u32) -> Result<TweakCoding, RpcError> {
    match (version, service.settings.tweak_dialect) {
        (1, _) => Ok(TweakCoding::Json),
        (2, TweakDialect::V2) => Ok(TweakCoding::Binary),
        _ => Err(RpcError::invalid_params(format!("unsupported version of tweaks: {version}"))),
    }
}

/// Returns the heights of a range, up to the tip.
///
/// # Errors
/// It begins above the tip. An empty block there would look scanned.
fn heights(at: &Snapshot, range: TweakRange) -> Result<Range<u32>, RpcError> {
    let (start, tip) = (range.start.0, at.tip().height.0);
    if start > tip {
        return Err(RpcError::bad_request(format!("height {start} is above the tip, {tip}")));
    }
    Ok(start..start.saturating_add(range.count).min(tip + 1))
}

fn check_covered(tweaks: &Tweaks, at: &Snapshot, end: u32) -> Result<(), RpcError> {
    let covered = tweaks.len(at);
    if end <= covered { Ok(()) } else { Err(RpcError::silent_index(covered.saturating_sub(1), at.tip().height.0)) }
}

/// Refuses ranges of several blocks that have too much. The wallet asks for half when it reads "exceeds" and "cap".
fn check_size(
    tweaks: &Tweaks,
    at: &Snapshot,
    form: TweakForm,
    heights: &Range<u32>,
    bytes_max: Option<u64>,
) -> Result<(), RpcError> {
    if heights.len() == 1 {
        return Ok(());
    }
    let with_rows = Height(heights.start.max(tweaks.start().0))..Height(heights.end.max(tweaks.start().0));
    let uncovered = || RpcError::from(birdhouse_chain::Error::NoBlocks);
    let transactions = tweaks.rows(at, with_rows.clone())?.ok_or_else(uncovered)?;
    let outputs = tweaks.outputs(at, with_rows)?.ok_or_else(uncovered)?;
    let exceeds = |what: String, most| {
        Err(RpcError::invalid_params(format!("{what}, which exceeds the cap of {most}; ask for fewer blocks")))
    };
    let reads_spenders = (form.coding, form.spent) == (TweakCoding::Json, SpentPayments::Sent);
    if reads_spenders && outputs > TWEAK_OUTPUTS_MAX {
        return exceeds(format!("the blocks have {outputs} outpoints"), TWEAK_OUTPUTS_MAX);
    }
    let bytes = stream_bytes(form.coding, Amount { blocks: heights.len() as u64, transactions, outputs });
    match bytes_max {
        Some(most) if bytes > most => exceeds(format!("the blocks have about {bytes} bytes of tweaks"), most),
        _ => Ok(()),
    }
}

/// `blockchain.tweaks.get`. An output that the mempool spends is spent.
pub(crate) fn get(at: &Snapshot, outpoint: OutPoint) -> Result<Answer, RpcError> {
    let found = at
        .output(outpoint)?
        .ok_or_else(|| RpcError::bad_request(format!("no tweak row for {}:{}", outpoint.txid, outpoint.vout)))?;
    Ok(Answer::TweakOutput { value: found.value, is_spent: found.spender.is_some() })
}
