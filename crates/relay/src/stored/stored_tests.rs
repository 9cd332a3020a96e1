use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_events::{
    Audience, Events, EventsOptions, Filter, FilterLimits, Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::MemoryStore;
use proptest::prelude::*;

use super::*;

const FILTERS: [&str; 8] = [
    "{}",
    r#"{"limit":0}"#,
    r#"{"limit":7}"#,
    r#"{"kinds":[1],"limit":5}"#,
    r##"{"#t":["even"]}"##,
    r##"{"#t":["even","third"],"limit":20}"##,
    r#"{"kinds":[7],"until":1015}"#,
    r#"{"search":"word","limit":9}"#,
];

fn event(number: u64) -> VerifiedEvent {
    let tag = |value: &str| Tag(vec!["t".to_owned(), value.to_owned()]);
    let tags = [(2, "even"), (3, "third")].into_iter().filter(|(by, _)| number.is_multiple_of(*by));
    let tags = tags.map(|(_, value)| tag(value)).collect();
    // Some are of one second.
    let (created_at, kind) = (Timestamp(1000 + number / 4), Kind(if number.is_multiple_of(5) { 7 } else { 1 }));
    let content = format!("{}{number}", if number.is_multiple_of(4) { "word " } else { "" });
    UnsignedEvent { created_at, kind, tags, content }.sign(&Keys::from_secret([1; 32]).unwrap())
}

fn filled() -> Events {
    let options = EventsOptions { memtable_events: 30, ..EventsOptions::default() };
    let events = Events::open(Arc::new(MemoryStore::new()), [9; 16], options).unwrap();
    events.accept(&(0..100).map(event).collect::<Vec<_>>().iter().collect::<Vec<_>>()).unwrap();
    events
}

/// Everything that these filters show, in pages of this many rows, or of as many as fill one.
fn shown(events: &Events, filters: &[Filter], rows: usize, enough: usize) -> Vec<birdhouse_events::EventId> {
    let mut stored = Stored::new(filters.into(), TagsBy::Event, SinceSeq::at(events.end()));
    let mut seen = Vec::new();
    loop {
        let asked = Asked { now: 0, audience: Audience::Operator, hidden: None, pace: None };
        let next = stored.page(events, asked, rows, &mut |packed| {
            seen.push(packed.id());
            if seen.len().is_multiple_of(enough) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Next::End(_) = next.unwrap() {
            return seen;
        }
    }
}

proptest! {
    #[test]
    fn of_several_filters_each_shows_what_none_before_has_shown(
        chosen in proptest::collection::vec(0..FILTERS.len(), 1..5),
        rows in 1..40_usize, enough in 1..40_usize,
    ) {
        let events = filled();
        let filters: Vec<Filter> =
            chosen.iter().map(|of| Filter::from_json(FILTERS[*of], &FilterLimits::default()).unwrap()).collect();
        let mut expected = Vec::new();
        let mut before = HashSet::new();
        for filter in &filters {
            let alone = shown(&events, std::slice::from_ref(filter), 1000, 1000);
            expected.extend(alone.into_iter().filter(|id| before.insert(*id)));
        }
        prop_assert_eq!(shown(&events, &filters, rows, enough), expected);
    }
}
