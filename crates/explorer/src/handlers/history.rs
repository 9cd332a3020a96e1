//! The mempool over the last hours, weeks or months.

use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, Span, clock};

use crate::views::history::{History, page};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/mempool-history", Lane::Blocks, day, "The mempool over 24 hours."),
    Route::get("/mempool-history/{span}", Lane::Blocks, history, "The mempool over a span of time."),
];

fn day(question: &Question<'_>) -> Answer {
    answer(question, Span::Hours24)
}

fn history(question: &Question<'_>) -> Answer {
    let span = Span::of(question.params.text("span")).ok_or_else(|| Failure::not_found("there is no such span"))?;
    answer(question, span)
}

fn answer(question: &Question<'_>, span: Span) -> Answer {
    let mut records = question.history(span)?;
    records.reverse();
    let now = u32::try_from(clock::now()).unwrap_or(u32::MAX);
    Reply::html(page(&History { network: question.network(), span, records, now }), Cache::Private)
}
