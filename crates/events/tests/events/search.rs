//! Search for words against a naive scan, while the index is behind, resumes after a crash, or is lost.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use birdhouse_events::{
    EVENT_WORK, Event, EventId, Events, EventsOptions, Filter, Keys, Kind, Letter, Matcher, Pace, Packed, Query,
    Search, SearchCoverage, SearchProgress, SearchStorage, Seq, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::{MemoryStore, Store};

use crate::world::{Model, World};

const SECRET: [u8; 16] = [7; 16];
const WORLDS: u64 = 25;
const WORDS: [&str; 12] =
    ["owl", "Owl", "käfer", "nest", "egg", "日本", "to", "the", "bird", "Bird's", "2140", "sings"];
const QUERIES: [&str; 14] = [
    "owl",
    "OWL",
    "käfer",
    "nest egg",
    "日本",
    "本",
    "to the",
    "the bird",
    "s",
    "2140",
    "sings owl the",
    "none",
    "bird domain:x.org",
    "egg",
];

fn open(store: &Arc<dyn Store>, storage: &SearchStorage, memtable_events: usize) -> Events {
    let options = EventsOptions { memtable_events, search: storage.clone(), ..EventsOptions::default() };
    Events::open(Arc::clone(store), SECRET, options).unwrap()
}

fn find(events: &Events, filter: &Filter, end: Seq, rows: usize) -> (Vec<Event>, SearchCoverage) {
    find_in_pieces(events, Query { end, ..Query::of(filter) }, rows)
}

fn find_in_pieces(events: &Events, query: Query<'_>, rows: usize) -> (Vec<Event>, SearchCoverage) {
    let mut found = Vec::new();
    let (seqs, searched) = events.search(query, rows).unwrap();
    let mut visit = |_, packed: Packed<'_>| {
        found.push(packed.to_event().unwrap());
        ControlFlow::Continue(())
    };
    events.visit(&seqs, &mut visit).unwrap();
    (found, searched)
}

fn ids<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeSet<EventId> {
    events.into_iter().map(|event| event.id).collect()
}

/// Returns true if an event contains all words, by string functions alone.
fn has_words(event: &Event, query: &str) -> bool {
    let mut text = match event.kind.0 {
        0 => serde_json::from_str::<serde_json::Value>(&event.content)
            .ok()
            .and_then(|profile| Some(profile["name"].as_str()?.to_owned()))
            .unwrap_or_default(),
        1 | 30_023 => event.content.clone(),
        _ => return false,
    };
    if event.kind.0 != 0 {
        event
            .tags
            .iter()
            .filter(|tag| tag.0[0] == "title")
            .for_each(|tag| text = format!("{text} {}", tag.0.get(1).map_or("", |value| value)));
    }
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    query
        .to_lowercase()
        .split(' ')
        .filter(|word| !word.contains(':'))
        .all(|asked| if asked.is_ascii() || asked == "käfer" { words.contains(&asked) } else { text.contains(asked) })
}

/// Returns a world whose texts consist of few words.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    world.values = (0..25)
        .map(|index| {
            let words: Vec<&str> = (0..=world.rng.below(6)).map(|_| world.rng.one_of(&WORDS)).collect();
            if index % 5 == 0 {
                format!("{{\"name\":\"{}\"}}", words.join(" "))
            } else {
                words.join([" ", ", ", "\n"][index % 3])
            }
        })
        .collect();
    world
}

fn run(seed: u64, folder: &Path) {
    let storage = SearchStorage::Folder(folder.to_owned());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut world = world(seed);
    let (mut events, mut model, mut seen) = (open(&store, &storage, 7), Model::default(), Vec::<VerifiedEvent>::new());
    let mut matched = 0;
    while seen.len() < 200 {
        let batch: Vec<VerifiedEvent> = (0..=world.rng.below(9)).map(|_| world.event(&seen)).collect();
        events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
        for event in batch {
            model.accept(&event);
            seen.push(event);
        }
        match world.rng.below(12) {
            0..4 => drop(events.index_words(world.rng.below(30)).unwrap()),
            4..7 => events.commit_words().unwrap(),
            7 => {
                // Uncommitted words are lost with the process.
                let committed = events.words_watermark();
                drop(events);
                events = open(&store, &storage, 7);
                events.index_words(0).unwrap();
                assert_eq!(events.words_watermark(), committed, "it goes on where it was");
            }
            _ => {}
        }
        if world.rng.one_in(3) {
            matched += ask(&mut world, &events, &model, &seen);
        }
    }
    assert!(matched > 20, "{matched} events in all answers: nothing was tested");
}

/// Searches for words, with and without other conditions.
fn ask(world: &mut World, events: &Events, model: &Model, seen: &[VerifiedEvent]) -> usize {
    let mut matched = 0;
    for _ in 0..12 {
        let words = world.rng.one_of(&QUERIES);
        let mut filter = if world.rng.one_in(3) { Filter::default() } else { world.filter(seen) };
        filter.search = Search::parse(words);
        let expected: Vec<Event> = model.find(&filter).into_iter().filter(|event| has_words(event, words)).collect();
        let (found, searched) = find(events, &filter, Seq(u64::MAX), usize::MAX);
        assert_eq!(ids(&found), ids(&expected), "{words} in {filter:?}");
        assert_eq!((found.len(), searched), (expected.len(), SearchCoverage::Complete));
        let work_max = 1 + world.rng.below(20 * EVENT_WORK);
        let pieces = find_in_pieces(events, Query { work_max, ..Query::of(&filter) }, usize::MAX);
        assert_eq!(pieces, (found, searched), "in pieces of {work_max}");
        let found = &pieces.0;
        matched += found.len();
        let rows = usize::try_from(world.rng.below(4)).unwrap();
        let (best, searched) = find(events, &filter, Seq(u64::MAX), rows);
        assert!(best.len() == rows.min(expected.len()) && ids(&best).is_subset(&ids(&expected)));
        assert_eq!(searched == SearchCoverage::Partial, expected.len() > rows);
    }
    matched
}

#[test]
fn random_searches_are_answered_as_by_a_scan_of_everything_however_far_the_index_is() {
    for seed in 0..WORLDS {
        println!("seed {seed}");
        run(seed, &tempfile::tempdir().unwrap().path().join("search"));
    }
}

fn note(second: u64, content: &str) -> VerifiedEvent {
    let unsigned =
        UnsignedEvent { created_at: Timestamp(second), kind: Kind(1), tags: Vec::new(), content: content.to_owned() };
    unsigned.sign(&Keys::from_secret([1; 32]).unwrap())
}

fn searching(words: &str) -> Filter {
    Filter { search: Search::parse(words), ..Filter::default() }
}

#[test]
fn the_best_come_first_whether_they_are_indexed_or_not() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = open(&store, &SearchStorage::Memory, 1000);
    let long = format!("an owl {}", "and many other words ".repeat(20));
    let notes = [note(1, &long), note(2, "an owl among others"), note(3, "owl owl owl"), note(4, "a nest")];
    let filler: Vec<VerifiedEvent> = (10..60).map(|second| note(second, "of something else altogether")).collect();
    events.accept(&notes[..2].iter().chain(&filler).collect::<Vec<_>>()).unwrap();
    let order = [&notes[2], &notes[1], &notes[0]].map(|note| note.id);
    let found = |rows| find(&events, &searching("owl"), Seq(u64::MAX), rows);
    events.accept(&notes[2..].iter().collect::<Vec<_>>()).unwrap();
    for step in 0..2 {
        let (best, searched) = found(10);
        assert_eq!(
            (best.iter().map(|event| event.id).collect::<Vec<_>>(), searched),
            (order.to_vec(), SearchCoverage::Complete),
            "{step}"
        );
        let (best, searched) = found(2);
        assert_eq!(
            (best.iter().map(|event| event.id).collect::<Vec<_>>(), searched),
            (order[..2].to_vec(), SearchCoverage::Partial)
        );
        assert_eq!(events.index_words(u64::MAX).unwrap(), 0);
        events.commit_words().unwrap();
    }
    assert_eq!(events.words_watermark(), events.end());
}

#[test]
fn later_events_than_the_query_are_left_out_and_expired_ones_too() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = open(&store, &SearchStorage::Memory, 1000);
    events.accept(&[&note(1, "owl one")]).unwrap();
    let end = events.end();
    let tags = vec![Tag(vec!["expiration".to_owned(), "100".to_owned()])];
    let brief = UnsignedEvent { created_at: Timestamp(2), kind: Kind(1), tags, content: "owl two".to_owned() };
    events.accept(&[&brief.sign(&Keys::from_secret([1; 32]).unwrap())]).unwrap();
    for _ in 0..2 {
        assert_eq!(find(&events, &searching("owl"), end, 9).0.len(), 1);
        for (now, expected) in [(99, 2), (100, 1)] {
            let filter = searching("owl");
            let query = Query { now, ..Query::of(&filter) };
            assert_eq!(events.search(query, 9).unwrap().0.len(), expected);
        }
        events.index_words(u64::MAX).unwrap();
        events.commit_words().unwrap();
    }
}

#[test]
fn a_lost_damaged_or_foreign_index_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = SearchStorage::Folder(folder.path().join("search"));
    let path = folder.path().join("search");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let fill = |events: &Events| {
        events.index_words(u64::MAX).unwrap();
        events.commit_words().unwrap();
        assert_eq!(events.words_watermark(), events.end());
        assert_eq!(find(events, &searching("owl"), Seq(u64::MAX), 1000).0.len(), 500);
    };
    let all: Vec<VerifiedEvent> = (0..500).map(|second| note(second, "an owl")).collect();
    let events = open(&store, &storage, 100);
    events.accept(&all.iter().collect::<Vec<_>>()).unwrap();
    fill(&events);
    drop(events);
    let watermark = |store: &Arc<dyn Store>| {
        let events = open(store, &storage, 100);
        events.index_words(0).unwrap();
        events.words_watermark()
    };
    assert_eq!(watermark(&store), Seq(500), "it is kept");
    // Every file in turn, with one byte changed, or empty.
    let files = || {
        std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|file| file.extension().is_some_and(|kind| kind != "lock"))
    };
    let names: Vec<String> = files().map(|file| file.extension().unwrap().to_str().unwrap().to_owned()).collect();
    for name in names {
        for cut in [true, false] {
            let file = files().find(|file| file.extension().unwrap() == &*name).unwrap();
            let mut bytes = std::fs::read(&file).unwrap();
            let middle = bytes.len() / 2;
            if cut {
                bytes.truncate(middle);
            } else {
                bytes[middle] ^= 0x55;
            }
            std::fs::write(&file, bytes).unwrap();
            let events = open(&store, &storage, 100);
            // A thread of the previous index may put a file into the folder while it is emptied. The relay tries again,
            // too.
            let mut tries = 0..20;
            while let Err(error) = events.index_words(0) {
                assert!(tries.next().is_some(), "{error}");
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            assert!([Seq(0), Seq(500)].contains(&events.words_watermark()));
            fill(&events);
        }
    }
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(watermark(&store), Seq(0), "lost");
    fill(&open(&store, &storage, 100));
    // A log with other events.
    let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = open(&other, &storage, 100);
    let others: Vec<VerifiedEvent> = (1000..1500).map(|second| note(second, "an owl")).collect();
    events.accept(&others.iter().collect::<Vec<_>>()).unwrap();
    events.index_words(0).unwrap();
    assert_eq!(events.words_watermark(), Seq(0), "foreign");
    fill(&events);
}

/// Stores a hundred notes about owls, and commits them to the full-text index.
fn index_owls(events: &Events) -> Vec<VerifiedEvent> {
    let all: Vec<VerifiedEvent> = (0..100).map(|second| note(second, "an owl")).collect();
    events.accept(&all.iter().collect::<Vec<_>>()).unwrap();
    events.index_words(u64::MAX).unwrap();
    events.commit_words().unwrap();
    all
}

/// Stores a deletion request of the notes' author for these.
fn delete(events: &Events, notes: &[VerifiedEvent]) {
    let tags = notes.iter().map(|note| Tag(vec!["e".to_owned(), note.id.to_string()])).collect();
    let deletion = UnsignedEvent { created_at: Timestamp(1000), kind: Kind(5), tags, content: String::new() };
    events.accept(&[&deletion.sign(&Keys::from_secret([1; 32]).unwrap())]).unwrap();
}

#[test]
fn deleted_events_leave_the_index_and_are_never_found_before() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let folder = tempfile::tempdir().unwrap();
    let storage = SearchStorage::Folder(folder.path().join("search"));
    let events = open(&store, &storage, 1000);
    let all = index_owls(&events);
    delete(&events, &all[..60]);
    let count = || find(&events, &searching("owl"), Seq(u64::MAX), 1000).0.len();
    let documents = || {
        let index = tantivy::Index::open_in_dir(folder.path().join("search")).unwrap();
        index.reader().unwrap().searcher().num_docs()
    };
    assert_eq!((count(), documents()), (40, 100), "at once in answers");
    events.commit_words().unwrap();
    assert_eq!((count(), documents()), (40, 40), "with the next commit in the index");
}

#[test]
fn a_commit_of_the_index_that_a_kill_cut_off_is_made_again() {
    // Files have numbers of operations in their names: with some number of notes the new one is that of the old one.
    for more in 0..4 {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let folder = tempfile::tempdir().unwrap();
        let storage = SearchStorage::Folder(folder.path().join("search"));
        let events = open(&store, &storage, 1000);
        let all = index_owls(&events);
        let meta = folder.path().join("search/meta.json");
        let before = std::fs::read(&meta).unwrap();
        delete(&events, &all[..1]);
        events.commit_words().unwrap();
        drop(events);
        // The files of the second commit are written, and not the one that names them.
        std::fs::write(&meta, before).unwrap();
        let events = open(&store, &storage, 1000);
        (0..more).for_each(|second| drop(events.accept(&[&note(2000 + second, "an owl")]).unwrap()));
        events.index_words(u64::MAX).unwrap();
        events.commit_words().unwrap();
        let found = find(&events, &searching("owl"), Seq(u64::MAX), 1000).0.len();
        assert_eq!(found as u64, 99 + more, "{more} notes more");
    }
}

#[test]
fn common_words_in_few_events_are_found_as_the_others_are() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = open(&store, &SearchStorage::Memory, 2000);
    let keys = Keys::from_secret([1; 32]).unwrap();
    let tagged = |second: u64, kind: u16| {
        // One value is common, the other is not.
        let tags = vec![
            Tag(vec!["t".to_owned(), if second.is_multiple_of(10) { "few" } else { "many" }.to_owned()]),
            Tag(vec!["l".to_owned(), "all".to_owned()]),
        ];
        let content = if second.is_multiple_of(3) { "an owl" } else { "an owl and others" }.to_owned();
        UnsignedEvent { created_at: Timestamp(second), kind: Kind(kind), tags, content }.sign(&keys)
    };
    let all: Vec<VerifiedEvent> =
        (0..6000).map(|second| tagged(second, if second % 50 == 0 { 7 } else { 1 })).collect();
    events.accept(&all[..5900].iter().collect::<Vec<_>>()).unwrap();
    events.index_words(u64::MAX).unwrap();
    events.commit_words().unwrap();
    events.accept(&all[5900..].iter().collect::<Vec<_>>()).unwrap();
    for (letter, value) in [("t", "few"), ("t", "many"), ("l", "all"), ("t", "none")] {
        let tags = vec![(Letter::parse(letter).unwrap(), vec![value.to_owned()])];
        let filter = Filter { tags, ..searching("owl an") };
        let expected: Vec<&VerifiedEvent> =
            all.iter().filter(|event| filter.matches(event) && has_words(event, "owl an")).collect();
        let (found, searched) = find(&events, &filter, Seq(u64::MAX), usize::MAX);
        assert_eq!(
            (ids(&found), searched),
            (ids(expected.iter().map(|event| event.event())), SearchCoverage::Complete),
            "{value}"
        );
        assert_eq!(found.len(), expected.len(), "{value}: each once");
        let (best, _) = find(&events, &filter, Seq(u64::MAX), 50);
        assert!(best.iter().all(|event| event.content == "an owl"), "{value}: the shortest are best");
        assert_eq!(best.len(), 50.min(expected.len()));
    }
}

/// Others who wait from the beginning.
#[derive(Debug)]
struct Impatient;

impl Pace for Impatient {
    fn is_over(&self) -> bool {
        true
    }
}

/// Returns the number of pieces of a search, and of its results.
fn pieces(events: &Events, query: Query<'_>) -> (usize, usize) {
    let mut progress = SearchProgress::default();
    for pieces in 1.. {
        if let Some((found, searched)) = events.search_on(query, usize::MAX, &mut progress).unwrap() {
            assert_eq!(searched, SearchCoverage::Complete);
            return (pieces, found.len());
        }
    }
    unreachable!("a search ends")
}

#[test]
fn a_piece_of_a_search_has_a_bound_of_bytes_and_ends_when_others_wait() {
    const LARGE: usize = 40;
    const CONTENT_BYTES: u64 = 100_000;
    /// Events that the index leads to, and that lie behind a list with a common word.
    const SMALL: u64 = 5000;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = open(&store, &SearchStorage::Memory, 100_000);
    let tagged = |second, content: String| {
        let tags = vec![Tag(vec!["t".to_owned(), "a".to_owned()])];
        UnsignedEvent { created_at: Timestamp(second), kind: Kind(1), tags, content }
            .sign(&Keys::from_secret([1; 32]).unwrap())
    };
    let large: Vec<_> = (0..LARGE as u64).map(|second| tagged(second, "owl nest egg ".repeat(7692))).collect();
    assert!(large[0].content.len() as u64 > CONTENT_BYTES - 10);
    events.accept(&large.iter().collect::<Vec<_>>()).unwrap();
    let (by_word, work_max) = (searching("owl egg"), 4096);
    let by_tag = Filter { tags: vec![(Letter::parse("t").unwrap(), vec!["a".to_owned()])], ..searching("owl egg") };
    let check = |filter: &Filter, words: &str| {
        let query = Query { work_max, ..Query::of(filter) };
        let (count, found) = pieces(&events, query);
        println!("{words}: {count} pieces, {found} events");
        assert!(found >= LARGE, "{words}: {found}");
        // A piece that has read its bytes ends with the next event.
        assert!(count as u64 >= LARGE as u64 * CONTENT_BYTES / (64 * work_max + CONTENT_BYTES), "{words}: {count}");
        let (count, found_again) = pieces(&events, Query { pace: Some(&Impatient), ..Query::of(filter) });
        assert_eq!(found_again, found);
        assert!(count >= LARGE, "{words}: one event at a time: {count}");
    };
    check(&by_word, "events that are not in the index");
    let small: Vec<_> = (0..SMALL).map(|second| note(1000 + second, "an owl, an egg")).collect();
    for some in small.chunks(1000) {
        events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
    }
    while events.index_words(u64::MAX).unwrap() > 0 {}
    events.commit_words().unwrap();
    check(&by_word, "events to which the index leads");
    check(&by_tag, "events of a tag with common words");
}

#[test]
fn live_subscriptions_hear_what_has_all_their_words() {
    let mut matcher = Matcher::default();
    for (key, words) in ["owl", "owl nest", "language:en", "🤙"].into_iter().enumerate() {
        matcher.insert(key, Arc::new([Filter { kinds: Some(vec![Kind(1), Kind(7)]), ..searching(words) }]));
    }
    let heard = |content| {
        let mut heard = matcher.matches(&note(1, content));
        heard.sort_unstable();
        heard
    };
    assert_eq!(heard("An OWL in its nest"), [0, 1, 2]);
    assert_eq!(heard("owls, an owl"), [0, 2]);
    assert_eq!(heard("owls 🤙"), [2]);
}
