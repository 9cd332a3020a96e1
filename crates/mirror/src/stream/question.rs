//! The question which of the next events the peer has: by negentropy (NIP-77), or, where none may go back and the peer
//! does not answer that, by a request for their ids, to which it sends those that it has (NIP-01). Pure: the time is an
//! argument.

use std::collections::HashSet;
use std::time::Duration;

use birdhouse_events::{EventId, hex};
use birdhouse_relay::DatedId;
use serde_json::{Value, json};

use crate::comparison::{Begun, Comparison, Step};
use crate::limits::{PROBE_TIMEOUT, QUESTION_ATTEMPTS_MAX, STREAM_SILENCE_TIMEOUT};
use crate::upload::Outgoing;

/// The questions of one connection, one at a time.
#[derive(Default)]
pub(super) struct Question {
    state: State,
    way: Way,
    /// Number of the last one, for its name.
    last: u64,
    /// Requests that the peer refused in a row.
    refused: u32,
}

#[derive(Default)]
enum State {
    /// None is open.
    #[default]
    None,
    /// The answer is waited for.
    Asked(Box<Asked>),
    /// The same events are asked about again.
    Again(Vec<Outgoing>),
    /// The peer answers none.
    GivenUp,
}

/// A way to ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Negentropy,
    Request,
}

/// A question that waits for its answer.
struct Asked {
    name: String,
    /// In the order of the log.
    events: Vec<Outgoing>,
    answer: Answer,
    since: Duration,
}

/// The answer as far as it has come.
enum Answer {
    Negentropy { comparison: Comparison, lacks: HashSet<EventId> },
    Request { has: HashSet<EventId> },
}

/// The worth of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It saves transfers.
    Saving,
    /// An event that came from the peer must not go back.
    NoEcho,
}

/// The step that follows.
#[derive(Default)]
pub(super) struct Turn {
    /// A message to the peer.
    pub(super) message: Option<Value>,
    pub(super) answered: Option<Answered>,
}

/// The events of a question, in the order of the log.
pub(super) struct Answered {
    /// Those that the peer lacks, or of which it does not answer.
    pub(super) lacked: Vec<Outgoing>,
    /// Those that it has.
    pub(super) known: Vec<EventId>,
}

impl Question {
    /// True while an answer is waited for.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Asked(_) | State::Again(_))
    }

    /// True if the peer answers none.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp)
    }

    /// Asks about events, which have these times. Returns the message.
    pub(super) fn ask(&mut self, events: Vec<Outgoing>, dated: &[DatedId], now: Duration) -> Value {
        match self.way {
            Way::Negentropy => {
                self.last += 1;
                let name = format!("c{}", self.last);
                let Begun { comparison, first } = Comparison::begin(dated);
                let message = json!(["NEG-OPEN", name, { "ids": ids(&events) }, hex::string(&first)]);
                let answer = Answer::Negentropy { comparison, lacks: HashSet::new() };
                self.state = State::Asked(Box::new(Asked { name, events, answer, since: now }));
                message
            }
            Way::Request => self.request(events, now),
        }
    }

    /// Returns the message that asks again, where the peer has refused to answer for now.
    pub(super) fn again(&mut self, now: Duration) -> Option<Value> {
        let State::Again(events) = &mut self.state else { return None };
        let events = std::mem::take(events);
        Some(self.request(events, now))
    }

    fn request(&mut self, events: Vec<Outgoing>, now: Duration) -> Value {
        self.last += 1;
        let name = format!("r{}", self.last);
        let message = json!(["REQ", name, { "ids": ids(&events), "limit": events.len() }]);
        let answer = Answer::Request { has: HashSet::new() };
        self.state = State::Asked(Box::new(Asked { name, events, answer, since: now }));
        message
    }

    /// True if a question of this name is open.
    pub(super) fn is_of(&self, name: &str) -> bool {
        matches!(&self.state, State::Asked(asked) if asked.name == name)
    }

    fn asked(&mut self, name: &str) -> Option<&mut Asked> {
        match &mut self.state {
            State::Asked(asked) if asked.name == name => Some(asked),
            _ => None,
        }
    }

    /// Takes a message of negentropy.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn compared(&mut self, name: &str, message: &[u8], now: Duration) -> Result<Turn, String> {
        let Some(asked) = self.asked(name) else { return Ok(Turn::default()) };
        let Answer::Negentropy { comparison, lacks } = &mut asked.answer else { return Ok(Turn::default()) };
        asked.since = now;
        let Step { next, have, need: _ } = comparison.answered(message)?;
        lacks.extend(have);
        Ok(match next {
            Some(next) => Turn { message: Some(json!(["NEG-MSG", name, hex::string(&next)])), answered: None },
            None => Turn { message: Some(json!(["NEG-CLOSE", name])), answered: self.answered() },
        })
    }

    /// Takes the id of an event that the peer sends for a request. Returns false if it was not asked for.
    pub(super) fn has(&mut self, name: &str, id: EventId) -> bool {
        let Some(Asked { events, answer: Answer::Request { has }, .. }) = self.asked(name) else { return false };
        events.iter().any(|event| event.id == id) && has.insert(id)
    }

    /// Takes the end of what the peer sends for a request.
    pub(super) fn complete(&mut self, name: &str) -> Turn {
        if self.asked(name).is_none() {
            return Turn::default();
        }
        self.refused = 0;
        Turn { message: Some(json!(["CLOSE", name])), answered: self.answered() }
    }

    /// Takes a refusal of a request, which may hold for the moment only.
    pub(super) fn closed(&mut self, name: &str, refusal: Refusal) -> Turn {
        if self.asked(name).is_none() {
            return Turn::default();
        }
        self.refused += 1;
        if refusal == Refusal::ForNow && self.refused < QUESTION_ATTEMPTS_MAX {
            if let State::Asked(asked) = std::mem::take(&mut self.state) {
                self.state = State::Again(asked.events);
            }
            return Turn::default();
        }
        self.give_up()
    }

    /// Takes a refusal of negentropy. Without a name, it may be about another message.
    pub(super) fn compare_refused(&mut self, name: Option<&str>, need: Need, now: Duration) -> Turn {
        let State::Asked(asked) = &self.state else { return Turn::default() };
        let is_meant = name.is_none_or(|name| name == asked.name) && matches!(asked.answer, Answer::Negentropy { .. });
        if is_meant { self.ask_otherwise(need, now) } else { Turn::default() }
    }

    /// Goes on where the peer has been silent for too long.
    pub(super) fn check_time(&mut self, need: Need, now: Duration) -> Turn {
        let State::Asked(asked) = &self.state else { return Turn::default() };
        match asked.answer {
            Answer::Negentropy { .. } if now > asked.since + PROBE_TIMEOUT => self.ask_otherwise(need, now),
            // A connection on which nothing comes has ended by then, so the peer is there.
            Answer::Request { .. } if now > asked.since + STREAM_SILENCE_TIMEOUT => self.give_up(),
            _ => Turn::default(),
        }
    }

    fn ask_otherwise(&mut self, need: Need, now: Duration) -> Turn {
        if need == Need::Saving {
            return self.give_up();
        }
        self.way = Way::Request;
        let State::Asked(asked) = std::mem::take(&mut self.state) else { return Turn::default() };
        Turn { message: Some(self.request(asked.events, now)), answered: None }
    }

    /// Ends the question by the answer that has come.
    fn answered(&mut self) -> Option<Answered> {
        let State::Asked(asked) = std::mem::take(&mut self.state) else { return None };
        let Asked { events, answer, .. } = *asked;
        let lacks = |event: &Outgoing| match &answer {
            Answer::Negentropy { lacks, .. } => lacks.contains(&event.id),
            Answer::Request { has } => !has.contains(&event.id),
        };
        let (lacked, known): (Vec<_>, Vec<_>) = events.into_iter().partition(lacks);
        Some(Answered { lacked, known: known.into_iter().map(|event| event.id).collect() })
    }

    /// Ends all questions of this connection: no event is known to be there.
    fn give_up(&mut self) -> Turn {
        let State::Asked(asked) = std::mem::replace(&mut self.state, State::GivenUp) else { return Turn::default() };
        let lacked = asked.events;
        Turn { message: None, answered: Some(Answered { lacked, known: Vec::new() }) }
    }
}

/// Duration of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The peer may answer later.
    ForNow,
    ForGood,
}

fn ids(events: &[Outgoing]) -> Vec<String> {
    events.iter().map(|event| event.id.to_string()).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn id(number: u8) -> EventId {
        EventId([number; 32])
    }

    fn events(count: u8) -> Vec<Outgoing> {
        (0..count).map(|number| Outgoing { id: id(number), json: number.to_string() }).collect()
    }

    /// A question by negentropy, of the first second.
    fn asked(count: u8) -> Question {
        let dated: Vec<DatedId> = (0..count).map(|number| DatedId { created_at: 1, id: id(number) }).collect();
        let mut question = Question::default();
        let message = question.ask(events(count), &dated, seconds(1));
        assert_eq!((&message[0], &message[1]), (&json!("NEG-OPEN"), &json!("c1")));
        question
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lacked(turn: Turn) -> Vec<EventId> {
        turn.answered.unwrap().lacked.into_iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_peer_that_is_silent_is_asked_by_a_request_and_what_it_sends_is_there() {
        let mut question = asked(3);
        assert!(question.check_time(Need::NoEcho, seconds(1) + PROBE_TIMEOUT).message.is_none());
        let request = question.check_time(Need::NoEcho, seconds(2) + PROBE_TIMEOUT).message.unwrap();
        let ids: Vec<String> = (0..3).map(|number| id(number).to_string()).collect();
        assert_eq!(request, json!(["REQ", "r2", { "ids": ids, "limit": 3 }]));
        assert!(question.compared("c1", b"", seconds(3)).unwrap().answered.is_none(), "it comes too late");
        assert!(!question.has("c1", id(1)) && question.has("r2", id(1)));
        assert!(!question.has("r2", id(1)) && !question.has("r2", id(7)), "it was not asked for");
        let turn = question.complete("r2");
        assert_eq!(turn.message, Some(json!(["CLOSE", "r2"])));
        let Answered { lacked, known } = turn.answered.unwrap();
        assert_eq!((lacked.iter().map(|event| event.id).collect(), known), (vec![id(0), id(2)], vec![id(1)]));
        assert_eq!(question.ask(events(1), &[], seconds(20))[0], "REQ", "the peer is not asked by negentropy again");
    }

    #[test]
    fn an_answer_that_only_saves_transfers_is_not_asked_for_twice() {
        let mut question = asked(2);
        assert_eq!(lacked(question.compare_refused(None, Need::Saving, seconds(2))), [id(0), id(1)]);
        assert!(question.is_given_up() && !question.is_open());
    }

    #[test]
    fn refusals_for_the_moment_are_bounded_and_others_end_the_questions() {
        let mut question = asked(2);
        assert!(question.compare_refused(Some("c9"), Need::NoEcho, seconds(2)).message.is_none());
        assert!(question.compare_refused(Some("c1"), Need::NoEcho, seconds(2)).message.is_some());
        for number in 2..=QUESTION_ATTEMPTS_MAX {
            assert!(question.closed(&format!("r{number}"), Refusal::ForNow).answered.is_none() && question.is_open());
            assert_eq!(question.again(seconds(3)).unwrap()[1], format!("r{}", number + 1));
        }
        let last = format!("r{}", QUESTION_ATTEMPTS_MAX + 1);
        assert_eq!(lacked(question.closed(&last, Refusal::ForNow)), [id(0), id(1)]);
        assert!(question.is_given_up());
        let mut question = asked(1);
        question.compare_refused(None, Need::NoEcho, seconds(2));
        assert_eq!(lacked(question.closed("r2", Refusal::ForGood)), [id(0)]);
    }

    #[test]
    fn a_request_without_an_answer_is_given_up_after_a_silent_connection_has_ended() {
        let mut question = asked(1);
        question.compare_refused(None, Need::NoEcho, seconds(2));
        assert!(question.check_time(Need::NoEcho, seconds(2) + STREAM_SILENCE_TIMEOUT).answered.is_none());
        assert_eq!(lacked(question.check_time(Need::NoEcho, seconds(3) + STREAM_SILENCE_TIMEOUT)), [id(0)]);
    }
}
