//! Labels.

use birdhouse_esplora::{Answer, Cache, Lane, Question, Reply, Route};

use crate::views::labels::page;

pub(super) const ROUTES: &[Route] = &[Route::get("/labels", Lane::Memory, labels, "Labels, kept in the browser.")];

fn labels(question: &Question<'_>) -> Answer {
    Reply::html(page(question.network()), Cache::Private)
}
