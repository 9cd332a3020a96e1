//! The page of a transaction.

use birdhouse_chain::source::BlockId;
use birdhouse_esplora::{Place, StaleBlock, quotient};
use birdhouse_web::amounts;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Network, OutPoint, Txid};
use maud::{Markup, html};

use super::flow::{self, Flow};
use super::layout::{Frame, Live};
use super::parts::{self, ListPart, badge, fact};
use super::stale;
use super::versions::{self, Version};

/// Minutes between two blocks, on average.
const BLOCK_MINUTES: usize = 10;
/// Lock times from here on are times, not heights
/// ([Core's `script.h`](https://github.com/bitcoin/bitcoin/blob/master/src/script/script.h), `LOCKTIME_THRESHOLD`).
const LOCK_TIME_MIN: u32 = 500_000_000;
/// The state of a transaction of the mempool in the words of `live.js`; that of another one is its block.
const WAITING: &str = "mempool";

/// Values of a transaction's page.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) network: Network,
    pub(crate) tip: BlockId,
    pub(crate) txid: Txid,
    /// Its block and the block's time; `None` in the mempool.
    pub(crate) block: Option<(BlockId, u32)>,
    pub(crate) confirmations: u32,
    pub(crate) is_coinbase: bool,
    pub(crate) version: i32,
    pub(crate) lock_time: u32,
    /// `None` if what it spends is unknown.
    pub(crate) fee: Option<u64>,
    pub(crate) size: u64,
    pub(crate) vsize: u64,
    pub(crate) weight: u64,
    /// True if it signals that it may be replaced.
    pub(crate) is_replaceable: bool,
    pub(crate) waiting: Option<Waiting>,
    /// A block with it that left the chain.
    pub(crate) stale: Option<StaleBlock>,
    /// It and others that spend the same outputs, if it replaced another one.
    pub(crate) versions: Vec<Version>,
    /// `None` where what it spends is unknown.
    pub(crate) flow: Option<Flow>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// The inputs and outputs that are shown.
    pub(crate) pages: (ListPart, ListPart),
    /// In hexadecimal; `None` if it is large.
    pub(crate) raw: Option<String>,
    /// `None` without taproot outputs, which alone can be silent payments.
    pub(crate) tweak: Option<Tweak>,
}

/// The tweak of a transaction with taproot outputs, from which the owner of a silent payment address finds its own.
#[derive(Debug)]
pub(crate) enum Tweak {
    /// A compressed point.
    Of([u8; 33]),
    /// Its inputs give none, so no output is a silent payment.
    None,
}

/// Place and relatives of a transaction in the mempool.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// In seconds since 1970.
    pub(crate) first_seen: u64,
    pub(crate) place: Option<Place>,
    /// Projected blocks.
    pub(crate) blocks: usize,
    /// The fee rate at which it is mined, in sat/vB.
    pub(crate) rate: f64,
    pub(crate) rate_with_ancestors: f64,
    /// With their fee rates.
    pub(crate) ancestors: Vec<(Txid, f64)>,
    pub(crate) descendants: Vec<(Txid, f64)>,
}

/// A script, decoded and in hexadecimal.
#[derive(Debug)]
pub(crate) struct Script {
    asm: String,
    hex: String,
}

/// An output, by itself or spent by an input.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) value: u64,
    pub(crate) address: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) script: Script,
    /// Text that it carries.
    pub(crate) note: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) vin: usize,
    /// `None` for a coinbase.
    pub(crate) outpoint: Option<OutPoint>,
    pub(crate) part: Option<Part>,
    pub(crate) sequence: u32,
    pub(crate) script_sig: Option<Script>,
    pub(crate) witness: Vec<String>,
    pub(crate) redeem: Option<String>,
    pub(crate) witness_script: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) vout: usize,
    pub(crate) part: Part,
    pub(crate) spending: Spending,
}

/// The spending of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spending {
    Unspent,
    /// By an input of a transaction.
    By(Txid, u32),
    /// It can never be spent.
    Never,
    /// Finding out takes many reads.
    OnRequest,
}

impl Transaction {
    fn outpoint(&self, vout: usize) -> OutPoint {
        OutPoint { txid: self.txid, vout: u32::try_from(vout).expect("a transaction has fewer than 2^32 outputs") }
    }
}

impl Script {
    pub(crate) fn of(script: &bitcoin::Script) -> Self {
        Self { asm: script.to_asm_string(), hex: script.to_hex_string() }
    }
}

/// Returns the page of an output that nothing spends at this tip.
pub(crate) fn unspent_page(network: Network, tip: BlockId, outpoint: OutPoint, part: &Part) -> String {
    let title = format!("Output {} of transaction {}", outpoint.vout, outpoint.txid);
    Frame { title: &title, network: Some(network), live: Some(Live::blocks(tip)), ..Frame::default() }.around(&html! {
        div.heading {
            h1 { "Output " (outpoint.vout) }
            p.state { (badge("good", "unspent")) }
        }
        p.whole { (outpoint) }
        section aria-labelledby="spending" {
            h2 #spending { "Spending" }
            p { "No transaction of a block or of the mempool spends this output." }
            dl.facts {
                (fact("Value", &parts::amount(part.value)))
                (fact("Type", &html! { (part.kind) }))
                @if let Some(address) = &part.address { (fact("Address", &parts::address(address))) }
                (fact("Transaction", &parts::txid(&outpoint.txid)))
            }
        }
    })
}

/// Returns the page.
pub(crate) fn page(transaction: &Transaction) -> String {
    let title = format!("Transaction {}", transaction.txid);
    let query = format!("blocks&tx={}", transaction.txid);
    let known = transaction.block.map_or_else(|| WAITING.to_owned(), |(block, _)| block.hash.to_string());
    let live = Some(Live { query: &query, tip: transaction.tip, state: Some(&known) });
    Frame { title: &title, network: Some(transaction.network), live, ..Frame::default() }.around(&html! {
        div.heading {
            h1 { "Transaction" }
            (state(transaction))
        }
        p.whole { (transaction.txid) }
        @if let Some(stale) = &transaction.stale { (stale::notice(stale, transaction.block.map(|(block, _)| block))) }
        div.columns {
            (summary(transaction))
            @if let Some(waiting) = &transaction.waiting { (place(waiting)) }
        }
        (versions::timeline(&transaction.versions, transaction.txid))
        @if let Some(flow) = &transaction.flow { (flow::drawing(flow)) }
        div.columns.sides {
            (inputs(transaction))
            (outputs(transaction))
        }
        (raw(transaction))
    })
}

fn state(transaction: &Transaction) -> Markup {
    html! {
        p.state {
            @if transaction.block.is_some() {
                (badge("good", &confirmations(transaction.confirmations)))
            } @else {
                (badge("open", "unconfirmed"))
            }
            @if transaction.is_coinbase { " " (badge("", "coinbase")) }
            @else if transaction.block.is_none() && transaction.is_replaceable { " " (badge("", "signals RBF")) }
        }
    }
}

fn confirmations(count: u32) -> String {
    format!("{} confirmation{}", amounts::count(count.into()), if count == 1 { "" } else { "s" })
}

fn summary(transaction: &Transaction) -> Markup {
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            dl.facts {
                @if let Some((block, time)) = transaction.block {
                    (fact("Block", &html! { a href={ "/block/" (block.hash) } { (amounts::count(block.height.0.into())) } }))
                    (fact("Time", &parts::time(time)))
                }
                @match transaction.fee.filter(|_| !transaction.is_coinbase) {
                    Some(fee) => {
                        (fact("Fee", &parts::amount(fee)))
                        (fact("Fee rate", &parts::rate(quotient(fee, transaction.vsize))))
                    }
                    None if !transaction.is_coinbase => {
                        (fact("Fee", &html! { "unknown: the node is pruned, and has removed what an input spends" }))
                    }
                    None => {}
                }
                (fact("Size", &html! { (amounts::bytes(transaction.size)) }))
                (fact("Virtual size", &html! { (amounts::vbytes(transaction.vsize)) }))
                (fact("Weight", &html! { (amounts::weight(transaction.weight)) }))
                (fact("Version", &html! { (transaction.version) }))
                @if transaction.lock_time > 0 { (fact("Lock time", &lock_time(transaction.lock_time))) }
                @match &transaction.tweak {
                    Some(Tweak::Of(tweak)) => (fact("May pay silent payments", &silent_payments(tweak))),
                    Some(Tweak::None) => (fact("May pay silent payments", &html! { "no: its inputs give no tweak" })),
                    None => {},
                }
            }
        }
    }
}

fn silent_payments(tweak: &[u8; 33]) -> Markup {
    html! { "yes, by its taproot outputs; tweak " span.whole { (tweak.to_lower_hex_string()) } }
}

pub(super) fn lock_time(lock_time: u32) -> Markup {
    html! {
        @if lock_time < LOCK_TIME_MIN { "block " (amounts::count(lock_time.into())) } @else { (parts::time(lock_time)) }
    }
}

fn place(waiting: &Waiting) -> Markup {
    html! {
        section aria-labelledby="place" {
            h2 #place { "In the mempool" }
            dl.facts {
                (fact("First seen", &parts::seen(waiting.first_seen)))
                @match waiting.place {
                    Some(place) => {
                        (fact("Expected in", &expected(place, waiting.blocks)))
                        (fact("Before it", &html! { (amounts::vbytes(place.vbytes_before)) }))
                    }
                    None => (fact("Expected in", &html! { "it came just now" })),
                }
                (fact("Effective fee rate", &parts::rate(waiting.rate)))
                @if !waiting.ancestors.is_empty() {
                    (fact("Fee rate with ancestors", &parts::rate(waiting.rate_with_ancestors)))
                }
            }
            (relatives("Ancestors (CPFP)", &waiting.ancestors))
            (relatives("Descendants (CPFP)", &waiting.descendants))
        }
    }
}

fn expected(place: Place, blocks: usize) -> Markup {
    let minutes = (place.block + 1) * BLOCK_MINUTES;
    html! {
        @match place.block {
            0 => "the next block, in about 10 minutes",
            block if block + 1 == blocks && blocks == 8 => { "more than " (block) " blocks" },
            block => { (block + 1) " blocks, in about " (minutes) " minutes" },
        }
    }
}

fn relatives(title: &str, relatives: &[(Txid, f64)]) -> Markup {
    html! {
        @if !relatives.is_empty() {
            h3 { (title) }
            ul.plain {
                @for (txid, rate) in relatives { li.pair { (parts::txid(txid)) (parts::rate(*rate)) } }
            }
        }
    }
}

// === inputs and outputs ===

fn inputs(transaction: &Transaction) -> Markup {
    let page = transaction.pages.0;
    html! {
        section aria-labelledby="inputs" {
            h2 #inputs { (page.heading("input")) }
            ol.parts { @for input in &transaction.inputs { (self::input(input)) } }
            (more(transaction, "inputs", page))
        }
    }
}

fn input(input: &Input) -> Markup {
    html! {
        li id={ "input-" (input.vin) } {
            @match &input.part {
                Some(part) => (party(part, input.vin)),
                None => div.pair { span { "Newly created coins" } },
            }
            @if let Some(outpoint) = input.outpoint {
                p.quiet.pair.from {
                    span { "from" }
                    (parts::outpoint(&outpoint))
                }
            }
            details {
                summary { "Script of input " (input.vin) }
                dl.facts {
                    (fact("Sequence", &html! { (format!("{:#010x}", input.sequence)) }))
                    @if let Some(part) = &input.part {
                        (fact("Type", &html! { (part.kind) }))
                        (script("scriptPubKey", &part.script))
                    }
                    @if let Some(own) = &input.script_sig { (script("scriptSig", own)) }
                    @if let Some(redeem) = &input.redeem { (text("Redeem script", redeem)) }
                    @if let Some(witness) = &input.witness_script { (text("Witness script", witness)) }
                    @if !input.witness.is_empty() { (text("Witness", &input.witness.join("\n"))) }
                }
            }
        }
    }
}

fn outputs(transaction: &Transaction) -> Markup {
    let page = transaction.pages.1;
    html! {
        section aria-labelledby="outputs" {
            h2 #outputs { (page.heading("output")) }
            ol.parts { @for output in &transaction.outputs { (self::output(transaction, output)) } }
            (more(transaction, "outputs", page))
        }
    }
}

fn output(transaction: &Transaction, output: &Output) -> Markup {
    html! {
        li id={ "output-" (output.vout) } {
            (party(&output.part, output.vout))
            p.quiet.pair.from { (spending(&transaction.outpoint(output.vout), output.spending)) }
            @if let Some(note) = &output.part.note { p.note { (note) } }
            details {
                summary { "Script of output " (output.vout) }
                dl.facts {
                    (fact("Type", &html! { (output.part.kind) }))
                    (script("scriptPubKey", &output.part.script))
                }
            }
        }
    }
}

/// The spending of an output.
pub(super) fn spending(of: &OutPoint, spending: Spending) -> Markup {
    html! {
        @match spending {
            Spending::Unspent => (badge("good", "unspent")),
            Spending::Never => (badge("", "unspendable")),
            Spending::By(txid, vin) => {
                span { "spent by" }
                a.long-link href=(parts::input_path(&txid, vin)) { (parts::long_name(&txid.to_string())) ":" (vin) }
            }
            Spending::OnRequest => {
                a rel="nofollow" href={ "/tx/" (of.txid) "/spender/" (of.vout) } { "Find its spender" }
            }
        }
    }
}

/// The owner of an output, as far as it is known, and its value.
pub(super) fn party(part: &Part, index: usize) -> Markup {
    html! {
        div.pair {
            span.index { (index) }
            @match &part.address {
                Some(address) => (parts::address(address)),
                None => span.kind { (part.kind) },
            }
            (parts::amount(part.value))
        }
    }
}

fn more(transaction: &Transaction, name: &str, page: ListPart) -> Markup {
    page.links(&format!("More {name}"), |start| format!("/tx/{}?{name}={start}#{name}", transaction.txid))
}

fn script(name: &str, script: &Script) -> Markup {
    html! {
        (text(name, &script.asm))
        (text(&format!("{name}, hexadecimal"), &script.hex))
    }
}

fn text(name: &str, text: &str) -> Markup {
    fact(name, &parts::code(text, name))
}

fn raw(transaction: &Transaction) -> Markup {
    html! {
        details {
            summary { "Raw transaction" }
            @if let Some(raw) = &transaction.raw { (parts::code(raw, "Raw transaction, hexadecimal")) }
            p { a href={ "/api/tx/" (transaction.txid) "/hex" } { "Hexadecimal" } " · "
                a href={ "/api/tx/" (transaction.txid) "/raw" } download { "Bytes" } " · "
                a href={ "/api/tx/" (transaction.txid) } { "JSON" }
                @if transaction.block.is_some() {
                    " · " a href={ "/api/tx/" (transaction.txid) "/merkleblock-proof" } { "Proof" }
                }
            }
        }
    }
}
