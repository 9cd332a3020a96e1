//! Subscriptions and pages of found transactions as JSON.
//!
//! Sparrow reads both into classes that allow no further members, so these are all.

use std::fmt::Write as _;

use birdhouse_chain::Found;
use serde_json::value::RawValue;

/// Transactions in one notification.
const PAGE: usize = 100;

/// Returns a subscription as its response shows it, which its notifications repeat byte by byte.
pub(crate) fn object(address: &str, labels: &[u32], start_height: u32) -> Box<RawValue> {
    let labels: Vec<String> = labels.iter().map(u32::to_string).collect();
    let labels = labels.join(",");
    let json = format!(r#"{{"address":"{address}","labels":[{labels}],"start_height":{start_height}}}"#);
    RawValue::from_string(json).expect("an address has letters and digits")
}

/// Returns the notifications of found transactions, or one without any; the last has `progress`.
pub(super) fn pages(subscription: &RawValue, found: &[Found], progress: f64, before: f64) -> Vec<Vec<u8>> {
    let mut pages: Vec<&[Found]> = found.chunks(PAGE).collect();
    let last = pages.pop().unwrap_or_default();
    let earlier = pages.into_iter().map(|page| notification(subscription, page, before));
    let mut lines: Vec<Vec<u8>> = earlier.collect();
    lines.push(notification(subscription, last, progress));
    lines
}

fn notification(subscription: &RawValue, page: &[Found], progress: f64) -> Vec<u8> {
    let mut line = format!(
        r#"{{"jsonrpc":"2.0","method":"blockchain.silentpayments.subscribe","params":{{"subscription":{},"progress":"#,
        subscription.get()
    );
    write!(line, "{progress:?},\"history\":[").expect("a string takes everything");
    for (index, Found { height, txid, tweak }) in page.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (height, tweak) = (height.map_or(0, |height| height.0), const_hex::encode(tweak));
        write!(line, r#"{comma}{{"height":{height},"tx_hash":"{txid}","tweak_key":"{tweak}"}}"#)
            .expect("a string takes everything");
    }
    line.push_str("]}}");
    line.into_bytes()
}
