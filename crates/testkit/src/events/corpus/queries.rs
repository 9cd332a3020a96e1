//! Queries of clients: the shapes of real clients' filters with values of this corpus.

use birdhouse_regtest::rng::Rng;
use bitcoin::hex::DisplayHex as _;
use serde_json::{Value, json};

use super::sign::{Id, People};
use super::talk::{Landmarks, has_left, topic};

/// Number of queries of each shape.
const EACH: usize = 20;

/// The filter of one REQ.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Name of the shape.
    pub shape: &'static str,
    /// The filter, as in [NIP-01](https://github.com/nostr-protocol/nips/blob/master/01.md).
    pub filter: Value,
}

/// The name of a shape with the function that makes a filter of it.
type Shape = (&'static str, fn(&mut Asker<'_>) -> Value);

struct Asker<'a> {
    landmarks: &'a Landmarks,
    people: &'a People,
    rng: Rng,
}

/// Makes the queries of each shape.
pub(super) fn queries(landmarks: &Landmarks, people: &People, seed: u64) -> Vec<Query> {
    let mut asker = Asker { landmarks, people, rng: Rng::new(seed ^ 0x7265_7100) };
    let shapes: [Shape; 26] = [
        ("e-76", |asker| asker.replies_to(76)),
        ("e-76-viral", |asker| asker.replies_to_viral(76)),
        ("feed-150-dense", |asker| asker.feed(150, 500, Asker::busy)),
        ("feed-150-quiet", |asker| asker.feed(150, 500, Asker::silent)),
        ("feed-500-dense", |asker| asker.feed(500, 100, Asker::busy)),
        ("feed-500-quiet", |asker| asker.feed(500, 100, Asker::silent)),
        ("feed-2000", |asker| asker.feed(2000, 100, Asker::anyone)),
        ("feed-10000", |asker| asker.feed(10_000, 500, Asker::anyone)),
        ("firehose", |_| json!({"limit": 500})),
        ("global-feed", |_| json!({"kinds": [1], "limit": 500})),
        ("profiles", |asker| json!({"kinds": [0], "authors": asker.some(50, Asker::busy)})),
        ("author-archive", |asker| json!({"authors": asker.some(3, Asker::anyone), "limit": 500})),
        ("thread", |asker| json!({"kinds": [1, 6, 7, 9735], "#e": [asker.note()], "limit": 500})),
        ("thread-viral", |asker| json!({"kinds": [1, 6, 7, 9735], "#e": [asker.viral()], "limit": 500})),
        ("notifications", |asker| json!({"#p": asker.some(1, Asker::busy), "limit": 500})),
        ("notifications-kinds", |asker| json!({"kinds": [1, 6, 9735], "#p": asker.some(1, Asker::busy), "limit": 100})),
        ("conversation", |asker| asker.conversation()),
        ("reactions-150", |asker| json!({"kinds": [7], "#e": asker.notes(150)})),
        ("hashtag", |asker| json!({"kinds": [1], "#t": [asker.topic()], "limit": 500})),
        ("by-ids", |asker| json!({"ids": asker.notes(100)})),
        ("recent-window", |asker| asker.window()),
        ("two-letters", |asker| asker.two_letters()),
        ("page-global", |asker| json!({"kinds": [1], "until": asker.moment(), "limit": 100})),
        (
            "page-author",
            |asker| json!({"authors": asker.some(1, Asker::busy), "kinds": [1], "until": asker.moment(), "limit": 100}),
        ),
        ("follows-of", |asker| json!({"kinds": [3, 10_002], "authors": asker.some(20, Asker::anyone)})),
        ("followers", |asker| json!({"kinds": [3], "#p": asker.some(1, Asker::anyone), "limit": 500})),
    ];
    let ask = |(shape, make): Shape| (0..EACH).map(|_| Query { shape, filter: make(&mut asker) }).collect::<Vec<_>>();
    shapes.into_iter().flat_map(ask).collect()
}

fn hex(id: &Id) -> String {
    id.to_lower_hex_string()
}

fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort_unstable();
    values.dedup();
    values
}

impl Asker<'_> {
    // === people ===

    /// Returns up to `count` different authors, fewer when there are fewer.
    fn some(&mut self, count: usize, one: fn(&mut Self) -> usize) -> Vec<String> {
        let mut some = std::collections::BTreeSet::new();
        for _ in 0..count * 20 {
            if some.len() < count {
                some.insert(one(self));
            }
        }
        sorted(some.into_iter().map(|author| self.people.name(author).to_owned()).collect())
    }

    fn anyone(&mut self) -> usize {
        self.rng.index(self.people.len())
    }

    fn busy(&mut self) -> usize {
        self.rng.index((self.people.len() / 20).max(2))
    }

    fn silent(&mut self) -> usize {
        loop {
            let author = self.anyone();
            if has_left(author) || self.people.len() <= 200 {
                return author;
            }
        }
    }

    // === notes ===

    fn note(&mut self) -> String {
        let note = self.rng.pick(&self.landmarks.notes);
        hex(&note.id)
    }

    fn notes(&mut self, count: usize) -> Vec<String> {
        sorted((0..count).map(|_| self.note()).collect())
    }

    fn viral(&mut self) -> String {
        hex(&self.rng.pick(&self.landmarks.viral).id)
    }

    fn replies_to(&mut self, count: usize) -> Value {
        json!({"kinds": [1], "#e": self.notes(count), "limit": 100})
    }

    /// Asks for replies to all viral notes, and to others.
    fn replies_to_viral(&mut self, count: usize) -> Value {
        let mut ids: Vec<String> = self.landmarks.viral.iter().map(|note| hex(&note.id)).collect();
        ids.extend(self.notes(count - ids.len()));
        json!({"kinds": [1], "#e": sorted(ids), "limit": 500})
    }

    // === whole filters ===

    fn feed(&mut self, authors: usize, limit: usize, one: fn(&mut Self) -> usize) -> Value {
        json!({"kinds": [1, 6], "authors": self.some(authors, one), "limit": limit})
    }

    fn conversation(&mut self) -> Value {
        let (one, other, _) = *self.rng.pick(&self.landmarks.answers);
        json!({"kinds": [1], "authors": [self.people.name(one)], "#p": [self.people.name(other)], "limit": 100})
    }

    fn two_letters(&mut self) -> Value {
        let (_, other, note) = *self.rng.pick(&self.landmarks.answers);
        json!({"#e": [note.to_lower_hex_string()], "#p": [self.people.name(other)], "limit": 500})
    }

    fn topic(&mut self) -> String {
        topic(self.rng.index(100))
    }

    fn moment(&mut self) -> u64 {
        let begin = self.landmarks.begin;
        begin + self.rng.below(super::talk::END - begin)
    }

    fn window(&mut self) -> Value {
        let since = self.moment();
        json!({"kinds": [1, 6, 7], "since": since, "until": since + 3600})
    }
}
