//! `/v1/statistics`: the mempool over time, in the form of mempool's server, without its rate of arrival.
//!
//! <https://github.com/mempool/mempool/blob/master/backend/src/api/statistics/statistics-api.ts>

use serde::Serialize;

use super::Route;
use crate::history::{Record, Span};
use crate::wire::{Answer, Cache, Failure, Reply};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/v1/statistics/{span}",
    Lane::Blocks,
    statistics,
    "The mempool over 2h, 24h, 1w, 1m, 3m, 6m or 1y, newest first.",
)];

#[derive(Serialize)]
struct RecordJson<'a> {
    added: u32,
    count: u32,
    mempool_byte_weight: u64,
    total_fee: u64,
    min_fee: f64,
    vsizes: &'a [u32],
}

impl<'a> From<&'a Record> for RecordJson<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            added: record.time,
            count: record.transactions,
            mempool_byte_weight: record.weight,
            total_fee: record.fees,
            min_fee: record.lowest_rate,
            vsizes: &record.vbytes,
        }
    }
}

fn statistics(question: &Question<'_>) -> Answer {
    let span = Span::of(question.params.text("span")).ok_or_else(|| Failure::not_found("Unknown span"))?;
    let records = question.history(span)?;
    let records: Vec<RecordJson<'_>> = records.iter().map(RecordJson::from).collect();
    Reply::json(question.room, &records, Cache::SHORT)
}
