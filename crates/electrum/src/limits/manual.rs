//! The manual's tables of bounds, in Markdown.

use birdhouse_clients::{ACCOUNTS_KEPT, Bound as _, fixed};
use birdhouse_net::V2_REST_BYTES_MAX;

use super::{Limits, ServerLimits};
use crate::answer::HEADERS_MAX;
use crate::connection_state::UNOWNED_OUTPOINTS_MAX;
use crate::peers::known;
use crate::request::parse;

impl Limits {
    /// Returns the tables of the manual, in Markdown.
    pub fn manual() -> String {
        let listener = Self::rows(&[Self::public(), Self::private()]);
        let server = ServerLimits::rows(&[ServerLimits::default()]);
        let fixed = fixed_rows();
        format!(
            "| of a listener | | public | private | when it is reached |\n|---|---|---|---|---|\n{listener}\n\
             | of the server | | default | when it is reached |\n|---|---|---|---|\n{server}\n\
             | fixed | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

/// Bounds that are no settings, and their effects.
fn fixed_rows() -> String {
    let bounds = [
        ("Headers in one answer", HEADERS_MAX.to_text(), "fewer are sent than were asked for"),
        ("Transactions in a package", parse::PACKAGE_TRANSACTIONS_MAX.to_text(), "error 1"),
        ("Digits in a reply to `server.ping`", parse::PONG_DIGITS_MAX.to_text(), "error 1"),
        (
            "Outpoints of one connection's subscriptions that have neither `spk_hint` nor a funding transaction",
            UNOWNED_OUTPOINTS_MAX.to_text(),
            "the request gets error -101",
        ),
        (
            "Bytes of a PROXY header of version 2, beyond the first 16",
            V2_REST_BYTES_MAX.to_text(),
            "the connection is closed",
        ),
        (
            "Disconnected clients whose use is remembered",
            ACCOUNTS_KEPT.to_text(),
            "the half that used least is forgotten",
        ),
        ("Peers in the list", known::PEERS_MAX.to_text(), "the new peer is not listed"),
        (
            "Peers of one network (16 bits of the address, 32 for IPv6), listed or pending",
            known::PEERS_PER_NETWORK.to_text(),
            "the new peer is not listed; `server.add_peer` returns false",
        ),
        ("Announced peers that were not probed yet", known::WAITING_MAX.to_text(), "`server.add_peer` returns false"),
    ];
    fixed(&bounds)
}
