//! Handlers: they read what a page shows from the snapshot, and hand it to its view.
//!
//! A page costs what it shows: histories are read by cursor from either end, and the spender of an output is shown only
//! if a few reads find it.

mod blocks;
mod changes;
mod decoded;
mod history;
mod home;
mod labels;
mod page_part;
mod projected;
mod push;
mod refusal;
mod rest;
mod scan;
mod script;
mod search;
mod several;
mod sides;
mod silent_payment;
mod spending;
mod status;
mod transaction;
mod versions;

use birdhouse_esplora::Route;

use crate::assets;

/// The pages by path.
pub(crate) const ROUTES: &[&[Route]] = &[
    home::ROUTES,
    blocks::ROUTES,
    projected::ROUTES,
    history::ROUTES,
    transaction::ROUTES,
    script::ROUTES,
    several::ROUTES,
    scan::ROUTES,
    search::ROUTES,
    push::ROUTES,
    labels::ROUTES,
    rest::ROUTES,
    status::ROUTES,
    assets::ROUTES,
];
