//! Versions of a transaction: those that replaced each other.

use birdhouse_esplora::quotient;
use birdhouse_web::amounts;
use bitcoin::Txid;
use maud::{Markup, html};

use super::parts::{self, badge};

/// One version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) txid: Txid,
    /// In satoshis.
    pub(crate) fee: u64,
    /// In virtual bytes.
    pub(crate) vsize: u64,
    /// In seconds since 1970.
    pub(crate) first_seen: u64,
    pub(crate) fate: Fate,
}

/// The fate of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another one replaced it, seconds after it was first seen.
    Replaced { by: Txid, after_s: u64 },
    /// It is in the mempool.
    Waiting,
    /// It is in the block at this height.
    Mined(u32),
    /// It left the mempool otherwise.
    Left,
}

/// A table of all versions, the last one first, one of which is that of the page; nothing if there is no other one.
pub(crate) fn timeline(versions: &[Version], own: Txid) -> Markup {
    html! {
        @if versions.len() > 1 {
            section aria-labelledby="versions" {
                h2 #versions { "Replacements" }
                p.quiet { "These transactions spend the same coins, so one of them at most is ever confirmed. The last \
                           one comes first." }
                table {
                    thead { tr {
                        th scope="col" { "Transaction" }
                        th.spare scope="col" { "First seen" }
                        th.number.spare scope="col" { (parts::amounts_head("Fee")) }
                        th.number scope="col" { "Fee rate" }
                    } }
                    tbody { @for version in versions { (row(version, own)) } }
                }
            }
        }
    }
}

fn row(version: &Version, own: Txid) -> Markup {
    html! {
        tr {
            td.wide {
                @if version.txid == own { span.long-link { (parts::long_name(&own.to_string())) } }
                @else { (parts::txid(&version.txid)) }
                p.state { (fate(version.fate)) @if version.txid == own { " " (badge("", "this one")) } }
            }
            td.spare { (parts::seen(version.first_seen)) }
            td.number.spare { (parts::number(version.fee)) }
            td.number { (parts::rate(quotient(version.fee, version.vsize))) }
        }
    }
}

/// The fate of a version, as a sign.
fn fate(fate: Fate) -> Markup {
    match fate {
        Fate::Replaced { after_s, .. } => badge("bad", &format!("replaced after {}", amounts::duration(after_s))),
        Fate::Waiting => badge("open", "unconfirmed"),
        Fate::Mined(height) => badge("good", &format!("in block {}", amounts::count(height.into()))),
        Fate::Left => badge("bad", "dropped"),
    }
}
