//! A corpus of signed Nostr events like those of a busy relay, and the filters that clients send for them.
//!
//! Few authors write most events (Zipf's law), reactions are almost half of all events, notes form threads, and three
//! notes go viral. Follow lists have up to 2000 entries, profiles and lists are replaced, some notes are deleted, and
//! many authors fall silent. Events refer to earlier events; most are in the order of their times. The corpus is a
//! function of its [`Plan`], signatures included, which contain no randomness.
//!
//! Events are hashed and signed here by the rules of
//! [NIP-01](https://github.com/nostr-protocol/nips/blob/master/01.md), without any code of the relay under test.

mod plan;
mod queries;
pub(crate) mod sign;
mod talk;

use std::io::{self, Write};

use serde_json::json;

pub use self::plan::Plan;
pub use self::queries::Query;
use self::queries::queries;
use self::sign::{Draft, People, sign};
use self::talk::Talk;

/// Events that are signed in parallel.
const CHUNK: usize = 8192;

/// Counts of a corpus, and queries for it.
#[derive(Debug)]
pub struct Corpus {
    /// Bytes written.
    pub bytes: u64,
    /// Number of authors.
    pub authors: usize,
    /// Number of tags with a name of one letter.
    pub indexed_tags: u64,
    /// Queries of clients, several of each shape.
    pub queries: Vec<Query>,
}

impl Corpus {
    /// Writes the queries, one a line: `{"shape", "filter"}`.
    pub fn write_queries(&self, out: &mut impl Write) -> io::Result<()> {
        for Query { shape, filter } in &self.queries {
            writeln!(out, "{}", json!({"shape": shape, "filter": filter}))?;
        }
        out.flush()
    }
}

/// Writes the events of `plan`, one a line, in the order in which a relay would receive them.
pub fn generate(plan: Plan, out: &mut impl Write) -> io::Result<Corpus> {
    let people = People::new(plan.seed, talk::people(plan.events));
    let mut talk = Talk::new(plan, &people);
    let (mut bytes, mut indexed_tags) = (0, 0);
    loop {
        let drafts: Vec<Draft> = talk.by_ref().take(CHUNK).collect();
        if drafts.is_empty() {
            let queries = queries(&talk.landmarks(), &people, plan.seed);
            return Ok(Corpus { bytes, authors: people.len(), indexed_tags, queries });
        }
        for line in sign(&drafts, &people) {
            out.write_all(line.as_bytes())?;
            bytes += line.len() as u64;
        }
        indexed_tags += drafts.iter().map(Draft::indexed_tags).sum::<u64>();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    fn corpus(seed: u64, events: u64) -> (Vec<Value>, Corpus) {
        let mut out = Vec::new();
        let corpus = generate(Plan { seed, events }, &mut out).unwrap();
        assert_eq!(corpus.bytes, out.len() as u64);
        let lines = String::from_utf8(out).unwrap();
        (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), corpus)
    }

    #[test]
    fn the_same_plan_gives_the_same_events_and_another_seed_others() {
        let (first, _) = corpus(1, 2000);
        assert_eq!(first.len(), 2000);
        assert_eq!(first, corpus(1, 2000).0);
        assert_ne!(first, corpus(2, 2000).0);
    }

    #[test]
    fn reactions_are_most_and_every_reference_is_to_an_event_that_came_before() {
        let (events, corpus) = corpus(3, 20_000);
        let (mut kinds, mut seen) = (BTreeMap::<u64, u64>::new(), BTreeSet::new());
        let mut tags = 0;
        for event in &events {
            *kinds.entry(event["kind"].as_u64().unwrap()).or_default() += 1;
            for tag in event["tags"].as_array().unwrap() {
                tags += u64::from(tag[0].as_str().unwrap().len() == 1);
                assert!(tag[0] != "e" || seen.contains(tag[1].as_str().unwrap()), "{tag}");
            }
            assert!(seen.insert(event["id"].as_str().unwrap()), "twice");
        }
        assert_eq!(tags, corpus.indexed_tags);
        assert!(kinds[&7] > 7000 && kinds[&1] > 4000 && kinds[&5] > 50, "{kinds:?}");
        let shapes: BTreeSet<&str> = corpus.queries.iter().map(|query| query.shape).collect();
        assert!(shapes.len() > 15, "{shapes:?}");
    }
}
