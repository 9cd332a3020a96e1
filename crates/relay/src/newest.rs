//! The newest stored events of a filter, for the relay's own questions.

use std::ops::ControlFlow;

use birdhouse_events::{Event, Events, Filter, Kind, Packed, Pubkey, Query};

use crate::clock::now;

/// Returns the newest event of a kind and an author. Waits for the store.
pub(crate) fn newest(events: &Events, kind: Kind, author: Pubkey) -> Result<Option<Event>, String> {
    Ok(newest_of(events, kind, author, 1)?.pop())
}

/// Returns the newest events of a kind and an author, at most `most`. Waits for the store.
pub(crate) fn newest_of(events: &Events, kind: Kind, author: Pubkey, most: usize) -> Result<Vec<Event>, String> {
    let filter = Filter { kinds: Some(vec![kind]), authors: Some(vec![author]), ..Filter::default() };
    let query = Query { end: events.end(), now: now(), ..Query::of(&filter) };
    let mut found = Vec::new();
    each_newest(events, query, most, &mut |event| found.push(event))?;
    Ok(found)
}

/// Calls a function with the newest events of a query, at most `most`. Waits for the store.
pub(crate) fn each_newest(
    events: &Events,
    query: Query<'_>,
    most: usize,
    then: &mut dyn FnMut(Event),
) -> Result<(), String> {
    let (mut from, mut left) = (None, most);
    loop {
        let rows = left;
        let mut visit = |_, packed: Packed<'_>| {
            left -= 1;
            packed.to_event().into_iter().for_each(&mut *then);
            ControlFlow::Continue(())
        };
        from = events.page(query, from, rows, &mut visit).map_err(|error| error.to_string())?;
        if left == 0 || from.is_none() {
            return Ok(());
        }
    }
}
