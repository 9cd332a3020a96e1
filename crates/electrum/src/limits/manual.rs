//! The manual's tables of bounds, in Markdown.

use birdhouse_clients::{ACCOUNTS_KEPT, Bound as _, fixed};

use super::{Limits, ServerLimits};
use crate::answer::HEADERS_MAX;
use crate::connection_state::UNOWNED_OUTPOINTS_MAX;
use crate::peers::known;
use crate::proxy;
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
        ("Digits that `server.ping` gives back", parse::PONG_DIGITS_MAX.to_text(), "error 1"),
        (
            "Outpoints without `spk_hint` and without a funding transaction that one connection follows",
            UNOWNED_OUTPOINTS_MAX.to_text(),
            "the request gets error -101",
        ),
        (
            "Bytes of a PROXY header of version 2, beyond the first 16",
            proxy::V2_REST_BYTES_MAX.to_text(),
            "the connection is closed",
        ),
        (
            "Clients that left and are remembered for what they used",
            ACCOUNTS_KEPT.to_text(),
            "half of them are forgotten, those that used least",
        ),
        ("Other servers that are listed", known::PEERS_MAX.to_text(), "the newcomer is left out"),
        (
            "Other servers of one network (16 bits of the address, of IPv6 32) that are listed, or wait for it",
            known::PEERS_PER_NETWORK.to_text(),
            "the newcomer is left out, `server.add_peer` is answered false",
        ),
        (
            "Other servers that announced themselves and were not looked at yet",
            known::WAITING_MAX.to_text(),
            "`server.add_peer` is answered false",
        ),
    ];
    fixed(&bounds)
}
