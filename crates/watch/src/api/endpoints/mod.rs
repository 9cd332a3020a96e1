//! The endpoints, a file a subject.

mod blocks;
mod invoices;
mod labels;
mod openapi;
mod pages;
mod scripts;
mod streams;
mod transactions;
mod wallets;

use crate::api::routes::Route;

/// Returns all of them.
pub(super) fn all() -> Vec<&'static Route> {
    let families = [
        wallets::ROUTES,
        scripts::ROUTES,
        scripts::OF_SCRIPTS,
        transactions::ROUTES,
        blocks::ROUTES,
        streams::ROUTES,
        invoices::ROUTES,
        labels::ROUTES,
        pages::ROUTES,
        openapi::ROUTES,
    ];
    families.into_iter().flatten().collect()
}
