//! The demo's Nostr events: some people who write, answer and react, the same every time.

use birdhouse_events::{EventId, Keys, Kind, Pubkey, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_regtest::rng::Rng;

const PEOPLE: u8 = 40;
const NOTES: u64 = 3000;
/// Seconds from one to the next.
const PACE: u64 = 40;
const TOPICS: [&str; 6] = ["birds", "bitcoin", "gardens", "nostr", "rust", "weather"];
const WORDS: [&str; 12] =
    ["tonight", "a", "wren", "sings", "over", "the", "old", "fence", "and", "nobody", "counts", "blocks"];

/// The events, oldest first; the last was made at `now`, in seconds since 1970.
pub(super) fn sample(now: u64) -> Vec<VerifiedEvent> {
    let people: Vec<Keys> = (1..=PEOPLE).filter_map(|number| Keys::from_secret([number; 32])).collect();
    let mut events: Vec<VerifiedEvent> = Vec::new();
    let begin = now.saturating_sub((NOTES + u64::from(PEOPLE)) * PACE);
    let mut say = |author: &Keys, kind: u16, tags: Vec<Tag>, content: String| {
        let created_at = Timestamp(begin + (events.len() as u64 + 1) * PACE);
        let event = UnsignedEvent { created_at, kind: Kind(kind), tags, content }.sign(author);
        events.push(event.clone());
        (event.id, event.pubkey)
    };
    for (number, person) in people.iter().enumerate() {
        say(person, 0, Vec::new(), format!(r#"{{"name":"bird {}"}}"#, number + 1));
    }
    let mut notes: Vec<(EventId, Pubkey)> = Vec::new();
    let mut chances = Rng::new(0);
    for _ in 0..NOTES {
        let chance = chances.next_u64();
        // The first people say most.
        let person = &people[pick(chance, people.len()).min(pick(chance >> 16, people.len()))];
        // What is talked about is mostly new.
        let subject =
            notes.len().checked_sub(1 + pick(chance >> 32, notes.len().clamp(1, 20))).map(|place| notes[place]);
        match (chance % 10, subject) {
            (0..=4, Some((id, author))) => {
                let tags = vec![tag(&["e", &id.to_string()]), tag(&["p", &author.to_string()])];
                say(person, 7, tags, "+".to_owned());
            }
            (5..=6, Some((id, author))) => {
                let tags = vec![tag(&["e", &id.to_string(), "", "reply"]), tag(&["p", &author.to_string()])];
                notes.push(say(person, 1, tags, words(chance)));
            }
            _ => {
                let topic = TOPICS[pick(chance >> 40, TOPICS.len())];
                notes.push(say(person, 1, vec![tag(&["t", topic])], format!("{} #{topic}", words(chance))));
            }
        }
    }
    events
}

fn tag(elements: &[&str]) -> Tag {
    Tag(elements.iter().map(|element| (*element).to_owned()).collect())
}

fn words(chance: u64) -> String {
    let words: Vec<&str> = (0..8).map(|place| WORDS[pick(chance >> (place * 5), WORDS.len())]).collect();
    words.join(" ")
}

fn pick(chance: u64, below: usize) -> usize {
    usize::try_from(chance & 0xffff).unwrap_or(0) % below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_notes_reactions_and_profiles_and_is_the_same_every_time() {
        let events = sample(1_700_000_000);
        let count = |kind| events.iter().filter(|event| event.kind == Kind(kind)).count();
        assert_eq!(count(0), usize::from(PEOPLE));
        assert!(count(1) > 1000 && count(7) > 1000);
        assert_eq!(events, sample(1_700_000_000));
        assert!(events.iter().all(|event| event.created_at.0 <= 1_700_000_000));
    }
}
