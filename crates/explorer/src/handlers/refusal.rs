//! Refusals of addresses, keys and descriptors, with the reason.

use birdhouse_chain::read_address;
use birdhouse_esplora::{Failure, Question};
use bitcoin::Address;

use birdhouse_descriptors::{Unnamed, unreadable};

/// Returns the address of a text.
///
/// # Errors
/// It is none, or one of another network.
pub(super) fn own_address(question: &Question<'_>, text: &str) -> Result<Address, Failure> {
    let address = read_address(text).ok_or_else(|| refused(question, &unreadable(text)))?;
    address.require_network(question.network()).map_err(|_| refused(question, &Unnamed::OtherNetwork))
}

/// Returns the refusal of a text that names nothing here.
pub(super) fn refused(question: &Question<'_>, reason: &Unnamed) -> Failure {
    Failure::bad_request(match reason {
        Unnamed::OtherNetwork => {
            let own = question.network();
            format!("{reason}: this server is for {own}, where it has neither history nor balance; ask another server")
        }
        reason => reason.to_string(),
    })
}
