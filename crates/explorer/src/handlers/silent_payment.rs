//! A silent payment address, which has no history.

use birdhouse_esplora::{Answer, Cache, Failure, Question, Reply};
use birdhouse_silentpayments::Address;

use super::refusal::refused;
use crate::views::silent_payment::page;
use birdhouse_descriptors::{Unnamed, silent_payment_address};

/// Returns the page of a text, if it begins as a silent payment address does.
pub(super) fn page_of(question: &Question<'_>, text: &str) -> Option<Answer> {
    let address = address(question, text)?;
    Some(address.and_then(|address| Reply::html(page(question.network(), text, &address), Cache::Private)))
}

/// Returns the address of a text, if it begins as one of these does.
///
/// # Errors
/// It is none, or one of another network.
pub(super) fn address(question: &Question<'_>, text: &str) -> Option<Result<Address, Failure>> {
    let address = silent_payment_address(text)?.and_then(|address| {
        let is_own = address.network.is_of(question.network());
        if is_own { Ok(address) } else { Err(Unnamed::OtherNetwork) }
    });
    Some(address.map_err(|reason| refused(question, &reason)))
}
