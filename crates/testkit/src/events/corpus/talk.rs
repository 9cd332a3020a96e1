//! The events of a corpus, in the order in which a relay receives them.

use birdhouse_regtest::rng::Rng;
use bitcoin::hex::DisplayHex as _;

use super::plan::Plan;
use super::sign::{Draft, Id, People};

/// Time of the last event, in seconds since 1970.
pub(super) const END: u64 = 1_760_000_000;
/// Seconds between two events.
pub(super) const PACE: u64 = 8;
/// Number of newest notes that events still refer to.
const RECENT: usize = 20_000;
/// The point of the timeline, in per cent, after which some authors are silent.
const LEFT_AT: u64 = 40;
/// The point of the timeline, in per cent, of each viral note.
const VIRAL_AT: [u64; 3] = [20, 45, 70];
/// Thousandths of all later reactions, replies and reposts that refer to one viral note.
const VIRAL_SHARE: u64 = 25;
const FOLLOWS_MAX: usize = 2000;

const WORDS: [&str; 24] = [
    "wren", "block", "fence", "song", "the", "a", "over", "old", "relay", "garden", "night", "key", "node", "rain",
    "never", "counts", "feeds", "and", "paper", "light", "under", "coin", "river", "seed",
];

/// A note that later events may refer to.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) id: Id,
    pub(super) author: usize,
    /// Id and author of the first note of its thread, for a reply.
    root: Option<(Id, usize)>,
}

/// Notes and authors that queries ask for.
pub(super) struct Landmarks {
    pub(super) viral: Vec<Note>,
    /// Notes of all times, oldest first.
    pub(super) notes: Vec<Note>,
    /// Pairs of authors of whom the first replied to the second, and the note replied to.
    pub(super) answers: Vec<(usize, usize, Id)>,
    /// Number of events of each author, and the time of the last.
    pub(super) said: Vec<(u32, u64)>,
    pub(super) begin: u64,
}

/// Iterator over the events.
pub(super) struct Talk<'a> {
    plan: Plan,
    people: &'a People,
    rng: Rng,
    made: u64,
    recent: Vec<Note>,
    landmarks: Landmarks,
}

/// Returns the number of authors in a corpus of this size.
pub(super) fn people(events: u64) -> usize {
    usize::try_from(events / 20).expect("a corpus has fewer authors than memory has bytes").max(50)
}

/// Returns the topic of this rank.
pub(super) fn topic(rank: usize) -> String {
    format!("{}{}", WORDS[rank % WORDS.len()], rank / WORDS.len())
}

fn tag(elements: &[&str]) -> Vec<String> {
    elements.iter().map(|element| (*element).to_owned()).collect()
}

impl Iterator for Talk<'_> {
    type Item = Draft;

    fn next(&mut self) -> Option<Draft> {
        if self.made == self.plan.events {
            return None;
        }
        let draft = self.say();
        self.made += 1;
        Some(draft)
    }
}

impl<'a> Talk<'a> {
    pub(super) fn new(plan: Plan, people: &'a People) -> Self {
        let landmarks = Landmarks {
            viral: Vec::new(),
            notes: Vec::new(),
            answers: Vec::new(),
            said: vec![(0, 0); people.len()],
            begin: END - plan.events * PACE,
        };
        Self { plan, people, rng: Rng::new(plan.seed), made: 0, recent: Vec::new(), landmarks }
    }

    pub(super) fn landmarks(self) -> Landmarks {
        self.landmarks
    }

    fn say(&mut self) -> Draft {
        let author = self.author();
        if self.landmarks.said[author].0 == 0 {
            return self.profile(author);
        }
        if VIRAL_AT.get(self.landmarks.viral.len()).is_some_and(|at| self.made * 100 >= self.plan.events * at) {
            let note = self.note(author);
            self.landmarks.viral.push(self.recent[self.recent.len() - 1].clone());
            return note;
        }
        match self.rng.below(1000) {
            0..430 => self.reaction(author),
            430..610 => self.answer(author),
            610..730 => self.note(author),
            730..790 => self.repost(author),
            790..860 => self.zap(author),
            860..880 => self.profile(author),
            880..888 => self.follows(author),
            888..898 => self.relays(author),
            898..938 => self.message(author),
            938..948 => self.deletion(author),
            948..953 => self.article(author),
            953..983 => self.state(author),
            _ => self.report(author),
        }
    }

    /// Chooses an author by Zipf's law; three in ten of the less active fall silent.
    fn author(&mut self) -> usize {
        let is_late = self.made * 100 > self.plan.events * LEFT_AT;
        loop {
            let rank = self.zipf(self.people.len());
            if !(is_late && has_left(rank)) {
                return rank;
            }
        }
    }

    /// Returns a rank below `count`, log-uniform: Zipf's law with the exponent 1.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    fn zipf(&mut self, count: usize) -> usize {
        let uniform = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        ((count as f64 + 1.0).powf(uniform) as usize).clamp(1, count) - 1
    }

    /// Chooses the note that an event refers to: mostly a new one, or a viral one.
    fn subject(&mut self) -> Option<Note> {
        for note in &self.landmarks.viral {
            if self.rng.per_mille(VIRAL_SHARE) {
                return Some(note.clone());
            }
        }
        let age = self.recent.len().checked_sub(1).map(|oldest| self.zipf(oldest + 1))?;
        Some(self.recent[self.recent.len() - 1 - age].clone())
    }

    fn draft(&mut self, author: usize, kind: u16, tags: Vec<Vec<String>>, content: String) -> Draft {
        let begin = self.landmarks.begin;
        // Some events arrive late.
        let late = if self.rng.per_mille(50) { self.rng.below(3600) } else { self.rng.below(20) };
        let created_at = (begin + self.made * PACE).saturating_sub(late).max(begin);
        let said = &mut self.landmarks.said[author];
        *said = (said.0 + 1, created_at);
        Draft::new(self.people, author, created_at, kind, tags, content)
    }

    fn words(&mut self, most: usize) -> String {
        let count = 3 + self.zipf(most);
        let words: Vec<&str> = (0..count).map(|_| *self.rng.pick(&WORDS)).collect();
        words.join(" ")
    }

    // === events by kind ===

    fn note(&mut self, author: usize) -> Draft {
        let topics = if self.rng.per_mille(300) { 1 + self.rng.index(3) } else { 0 };
        let tags = (0..topics).map(|_| tag(&["t", &topic(self.zipf(1000))])).collect();
        let words = self.words(80);
        let note = self.draft(author, 1, tags, words);
        self.remember(Note { id: note.id, author, root: None });
        note
    }

    fn answer(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        let id = subject.id.to_lower_hex_string();
        let (root, root_author) = subject.root.unwrap_or((subject.id, subject.author));
        let mut tags = vec![tag(&["e", &root.to_lower_hex_string(), "wss://relay.example.org", "root"])];
        if root != subject.id {
            tags.push(tag(&["e", &id, "wss://relay.example.org", "reply"]));
        }
        tags.push(tag(&["p", self.people.name(subject.author)]));
        if root_author != subject.author {
            tags.push(tag(&["p", self.people.name(root_author)]));
        }
        let words = self.words(60);
        let note = self.draft(author, 1, tags, words);
        self.landmarks.answers.push((author, subject.author, subject.id));
        self.remember(Note { id: note.id, author, root: Some((root, root_author)) });
        note
    }

    fn remember(&mut self, note: Note) {
        if self.recent.len() == RECENT {
            self.recent.drain(..RECENT / 4);
        }
        if self.rng.per_mille(100) {
            self.landmarks.notes.push(note.clone());
        }
        self.recent.push(note);
    }

    fn reaction(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        let content = if self.rng.per_mille(800) { "+" } else { "\u{1f917}" };
        let tags = vec![
            tag(&["e", &subject.id.to_lower_hex_string()]),
            tag(&["p", self.people.name(subject.author)]),
            tag(&["k", "1"]),
        ];
        self.draft(author, 7, tags, content.to_owned())
    }

    fn repost(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        let id = subject.id.to_lower_hex_string();
        let tags = vec![tag(&["e", &id, "wss://relay.example.org"]), tag(&["p", self.people.name(subject.author)])];
        self.draft(author, 6, tags, String::new())
    }

    fn zap(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        let (id, payer) = (subject.id.to_lower_hex_string(), self.author());
        let invoice: String =
            format!("lnbc{}n1p{}", self.rng.below(9000), self.rng.bytes::<120>().to_lower_hex_string());
        let to = self.people.name(subject.author).to_owned();
        let request = format!(r#"{{"kind":9734,"tags":[["p","{to}"],["e","{id}"],["amount","21000"]],"content":""}}"#);
        let from = self.people.name(payer).to_owned();
        let tags = vec![
            tag(&["p", &to]),
            tag(&["e", &id]),
            tag(&["P", &from]),
            tag(&["bolt11", &invoice]),
            tag(&["description", &request]),
        ];
        self.draft(author, 9735, tags, String::new())
    }

    fn profile(&mut self, author: usize) -> Draft {
        let about = self.words(30);
        let content =
            format!(r#"{{"name":"bird {author}","about":"{about}","picture":"https://example.org/{author}.png"}}"#);
        self.draft(author, 0, Vec::new(), content)
    }

    fn follows(&mut self, author: usize) -> Draft {
        let count = 5 + self.zipf(FOLLOWS_MAX - 5);
        let tags = (0..count)
            .map(|_| {
                let followed = self.zipf(self.people.len());
                tag(&["p", self.people.name(followed)])
            })
            .collect();
        self.draft(author, 3, tags, String::new())
    }

    fn relays(&mut self, author: usize) -> Draft {
        let tags = (0..=self.rng.below(5)).map(|relay| tag(&["r", &format!("wss://relay{relay}.example.org")]));
        let tags = tags.collect();
        self.draft(author, 10_002, tags, String::new())
    }

    fn message(&mut self, author: usize) -> Draft {
        let to = self.zipf(self.people.len());
        let tags = vec![tag(&["p", self.people.name(to)])];
        let content = format!("{}?iv={}", self.rng.bytes::<160>().to_lower_hex_string(), self.rng.below(1 << 40));
        self.draft(author, 4, tags, content)
    }

    /// Makes a deletion of a note by its author.
    fn deletion(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        if self.landmarks.viral.iter().any(|viral| viral.id == subject.id) {
            return self.note(author);
        }
        let tags = vec![tag(&["e", &subject.id.to_lower_hex_string()]), tag(&["k", "1"])];
        self.draft(subject.author, 5, tags, "a mistake".to_owned())
    }

    fn article(&mut self, author: usize) -> Draft {
        let tags = vec![tag(&["d", &topic(self.rng.index(50))]), tag(&["t", &topic(self.zipf(1000))])];
        let count = 3 + self.rng.index(20);
        let paragraphs: Vec<String> = (0..count).map(|_| self.words(120)).collect();
        self.draft(author, 30_023, tags, paragraphs.join("\n\n"))
    }

    /// Makes an app's data of its user.
    fn state(&mut self, author: usize) -> Draft {
        let tags = vec![tag(&["d", &format!("app-{}", self.rng.below(4))])];
        let content = self.rng.bytes::<100>().to_lower_hex_string();
        self.draft(author, 30_078, tags, content)
    }

    fn report(&mut self, author: usize) -> Draft {
        let Some(subject) = self.subject() else { return self.note(author) };
        let id = subject.id.to_lower_hex_string();
        let tags = vec![tag(&["e", &id, "spam"]), tag(&["p", self.people.name(subject.author), "spam"])];
        self.draft(author, 1984, tags, String::new())
    }
}

/// Returns true for an author who falls silent.
pub(super) fn has_left(rank: usize) -> bool {
    rank >= 200 && birdhouse_regtest::rng::mix(rank as u64) % 10 < 3
}
