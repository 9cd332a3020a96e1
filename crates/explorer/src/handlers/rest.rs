//! The endpoints of the REST API.

use birdhouse_esplora::{Answer, Cache, Lane, Question, Reply, Route, public_endpoints};

use crate::views::rest::page;

pub(super) const ROUTES: &[Route] = &[Route::get("/rest", Lane::Memory, rest, "The endpoints of the REST API.")];

fn rest(question: &Question<'_>) -> Answer {
    Reply::html(page(question.network(), public_endpoints()), Cache::Private)
}
