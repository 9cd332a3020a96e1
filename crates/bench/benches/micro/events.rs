//! Nostr events: planning and scanning of filters, and the match of a live event.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_events::{Event, Events, EventsOptions, Filter, FilterLimits, Matcher, Query, VerifiedEvent};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::corpus::{self, Plan};
use criterion::{Criterion, Throughput};

const EVENTS: u64 = 20_000;
/// Fewer events than [`EVENTS`], so that queries read segments and the memtable.
const MEMTABLE_EVENTS: usize = 6000;
/// Shapes of queries: by event, by many authors, by kind alone.
const SHAPES: [&str; 3] = ["thread", "feed-150-dense", "global-feed"];
const SUBSCRIPTIONS: usize = 1000;

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut lines = Vec::new();
    let made = corpus::generate(Plan { seed: 1, events: EVENTS }, &mut lines).expect("writing to memory never fails");
    let lines = String::from_utf8(lines).expect("events are text");
    let verified: Vec<VerifiedEvent> = lines.lines().map(verified).collect();
    let filters: Vec<(&str, Filter)> =
        made.queries.iter().map(|query| (query.shape, filter(&query.filter.to_string()))).collect();

    parse(criterion, &lines);
    scan(criterion, &verified, &filters);
    matches(criterion, &verified, &filters);
}

fn verified(line: &str) -> VerifiedEvent {
    event(line).verify().unwrap_or_else(|rejection| panic!("{line}: {rejection:?}"))
}

fn event(line: &str) -> Event {
    Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error:?}"))
}

fn filter(json: &str) -> Filter {
    Filter::from_json(json, &FilterLimits { values_max: 20_000, ..FilterLimits::default() })
        .unwrap_or_else(|error| panic!("{json}: {error:?}"))
}

fn parse(criterion: &mut Criterion, lines: &str) {
    let some: Vec<&str> = lines.lines().step_by(200).collect();
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(some.len() as u64));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| some.iter().filter(|line| Event::from_json(black_box(line)).is_ok()).count());
    });
    group.bench_function("parse and verify", |bencher| {
        bencher.iter(|| some.iter().filter(|line| event(black_box(line)).verify().is_ok()).count());
    });
    group.finish();
}

fn scan(criterion: &mut Criterion, verified: &[VerifiedEvent], filters: &[(&str, Filter)]) {
    let options = EventsOptions { memtable_events: MEMTABLE_EVENTS, ..EventsOptions::default() };
    let events = Events::open(Arc::new(MemoryStore::new()), [7; 16], options).expect("an empty store");
    for some in verified.chunks(1000) {
        events.accept(&some.iter().collect::<Vec<_>>()).expect("memory never fails");
        while events.compact().expect("memory never fails") {}
    }
    let mut group = criterion.benchmark_group("plan and scan");
    for shape in SHAPES {
        let filters: Vec<&Filter> = filters.iter().filter(|(of, _)| *of == shape).map(|(_, filter)| filter).collect();
        let mut next = filters.iter().cycle();
        group.bench_function(shape, |bencher| {
            bencher.iter(|| page(&events, next.next().expect("the cycle never ends")));
        });
    }
    group.finish();
}

fn page(events: &Events, filter: &Filter) -> usize {
    let query = Query { end: events.end(), ..Query::of(filter) };
    let (mut rows, most) = (0, filter.limit.unwrap_or(500));
    events
        .page(query, None, most, &mut |_, packed| {
            black_box(packed);
            rows += 1;
            ControlFlow::Continue(())
        })
        .expect("memory never fails");
    rows
}

fn matches(criterion: &mut Criterion, verified: &[VerifiedEvent], filters: &[(&str, Filter)]) {
    let mut matcher = Matcher::default();
    for (key, (_, filter)) in filters.iter().cycle().take(SUBSCRIPTIONS).enumerate() {
        matcher.insert(key, Arc::from([filter.clone()]));
    }
    let mut next = verified.iter().cycle();
    let mut group = criterion.benchmark_group("matcher");
    group.throughput(Throughput::Elements(1));
    group.bench_function(format!("one event, {SUBSCRIPTIONS} subscriptions"), |bencher| {
        bencher.iter(|| matcher.matches(next.next().expect("the cycle never ends")));
    });
    group.finish();
}
