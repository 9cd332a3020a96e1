//! A transaction that was not broadcast: its parts, and the node's judgement.

use birdhouse_esplora::{Tested, quotient};
use birdhouse_web::amounts;
use bitcoin::{OutPoint, Txid, Wtxid};
use maud::{Markup, html};

use super::parts::{self, fact};
use super::transaction::{Part, lock_time, party};

/// Values of the transaction.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) txid: Txid,
    pub(crate) wtxid: Wtxid,
    pub(crate) version: i32,
    pub(crate) lock_time: u32,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) vsize: u64,
    pub(crate) weight: u64,
    pub(crate) tested: Tested,
    /// The first inputs and outputs.
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Part>,
    pub(crate) input_count: usize,
    pub(crate) output_count: usize,
}

/// An input.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) outpoint: OutPoint,
    /// The output that it spends; `None` if it is not known, or if finding it takes many reads.
    pub(crate) part: Option<Part>,
}

/// Reasons of Core that are not plain words by themselves
/// ([`validation.cpp`](https://github.com/bitcoin/bitcoin/blob/master/src/validation.cpp)), and what they mean.
const MEANINGS: &[(&str, &str)] = &[
    ("missing-inputs", "an output that it spends does not exist, or is spent already"),
    ("bad-txns-inputs-missingorspent", "an output that it spends does not exist, or is spent already"),
    ("txn-already-in-mempool", "it waits in the mempool already"),
    ("txn-already-known", "a block has it already"),
    ("txn-mempool-conflict", "an unconfirmed transaction spends the same output and cannot be replaced"),
    ("insufficient fee", "it pays too little to replace the unconfirmed transaction that spends the same output"),
    ("min relay fee not met", "it pays less than this node passes on"),
    ("mempool min fee not met", "it pays less than what the full mempool asks for now"),
    ("max-fee-exceeded", "it pays a fee that looks like a mistake"),
    ("dust", "an output is worth less than it costs to spend"),
    ("non-final", "its lock time has not come"),
    ("non-BIP68-final", "the age that one of its inputs asks for has not come"),
];

/// Returns the sections of the page.
pub(crate) fn sections(decoded: &Decoded) -> Markup {
    html! {
        (judgement(&decoded.tested, decoded.vsize))
        (summary(decoded))
        div.columns.sides {
            section aria-labelledby="inputs" {
                h2 #inputs { (amounts::count(decoded.input_count as u64)) " input" @if decoded.input_count != 1 { "s" } }
                ol.parts { @for (vin, input) in decoded.inputs.iter().enumerate() { (self::input(vin, input)) } }
                (rest(decoded.inputs.len(), decoded.input_count))
            }
            section aria-labelledby="outputs" {
                h2 #outputs {
                    (amounts::count(decoded.output_count as u64)) " output" @if decoded.output_count != 1 { "s" }
                }
                ol.parts { @for (vout, part) in decoded.outputs.iter().enumerate() { li { (party(part, vout)) } } }
                (rest(decoded.outputs.len(), decoded.output_count))
            }
        }
    }
}

fn judgement(tested: &Tested, vsize: u64) -> Markup {
    html! {
        @match &tested.reason {
            None => div.card.good role="status" {
                p { "The node would take this transaction. It is not broadcast yet." }
                @if let Some(fee) = tested.fee {
                    p { "It pays a fee of " (parts::amount(fee)) ", " (parts::rate(quotient(fee, vsize))) "." }
                }
            },
            Some(reason) => div.card.bad role="alert" {
                p { "The node would refuse this transaction: " (reason) }
                @if let Some(meaning) = meaning(reason) { p { "That is: " (meaning) "." } }
            },
        }
    }
}

fn meaning(reason: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| reason.contains(known)).map(|(_, meaning)| *meaning)
}

fn summary(decoded: &Decoded) -> Markup {
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            dl.facts {
                (fact("Txid", &html! { span.whole { (decoded.txid) } }))
                (fact("Wtxid", &html! { span.whole { (decoded.wtxid) } }))
                (fact("Size", &html! { (amounts::bytes(decoded.size)) }))
                (fact("Virtual size", &html! { (amounts::vbytes(decoded.vsize)) }))
                (fact("Weight", &html! { (amounts::weight(decoded.weight)) }))
                (fact("Version", &html! { (decoded.version) }))
                @if decoded.lock_time > 0 { (fact("Lock time", &lock_time(decoded.lock_time))) }
            }
        }
    }
}

fn input(vin: usize, input: &Input) -> Markup {
    html! {
        li {
            @match &input.part {
                Some(part) => (party(part, vin)),
                None => div.pair { span.index { (vin) } span.kind { "an output that is not known here" } },
            }
            p.quiet.pair.from { span { "from" } (parts::outpoint(&input.outpoint)) }
        }
    }
}

fn rest(shown: usize, count: usize) -> Markup {
    html! { @if count > shown { p.quiet { "The first " (shown) " of " (amounts::count(count as u64)) "." } } }
}
