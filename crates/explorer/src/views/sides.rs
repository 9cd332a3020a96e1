//! Inputs and outputs of a transaction in short, for lists of transactions.

use birdhouse_web::amounts;
use maud::{Markup, html};

use super::parts;

/// Inputs and outputs of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sides {
    pub(crate) inputs: Side,
    pub(crate) outputs: Side,
}

/// The first parties of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) parties: Vec<Party>,
    /// The number of all of them.
    pub(crate) count: usize,
}

/// The owner of an output, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) owner: Owner,
    /// In satoshis.
    pub(crate) value: u64,
}

/// The owner of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The script, or one of the wallet, that the page is about.
    Own,
    /// By its address.
    Address(String),
    /// The type of a script without an address.
    Kind(&'static str),
}

/// The parties, folded up, in a row of their own below that of the transaction.
pub(crate) fn row(Sides { inputs, outputs }: &Sides, columns: usize) -> Markup {
    html! {
        tr.under {
            td colspan=(columns) {
                details.sides {
                    summary {
                        @if inputs.count == 0 { "New coins" } @else { (counted(inputs.count, "input")) }
                        ", " (counted(outputs.count, "output"))
                    }
                    (side("Inputs", inputs))
                    (side("Outputs", outputs))
                }
            }
        }
    }
}

fn counted(count: usize, noun: &str) -> Markup {
    html! { (amounts::count(count as u64)) " " (noun) @if count != 1 { "s" } }
}

fn side(name: &str, side: &Side) -> Markup {
    html! {
        @if !side.parties.is_empty() {
            p.quiet { (name) }
            ul.plain {
                @for Party { owner, value } in &side.parties {
                    li.pair {
                        @match owner {
                            Owner::Own => span.kind { "this page's own" },
                            Owner::Address(address) => (parts::address(address)),
                            Owner::Kind(kind) => span.kind { (kind) },
                        }
                        (parts::amount(*value))
                    }
                }
                @if side.count > side.parties.len() {
                    li.quiet { (amounts::count((side.count - side.parties.len()) as u64)) " more" }
                }
            }
        }
    }
}
