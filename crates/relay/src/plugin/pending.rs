//! Questions that the plugin has not answered. Pure; time is an argument.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use birdhouse_events::EventId;

/// Open questions; a `T` waits for each answer.
#[derive(Debug)]
pub(super) struct Pending<T> {
    patience: Duration,
    /// By number, so by age.
    questions: BTreeMap<u64, Asked<T>>,
    /// The same event may be asked about several times: answers come in the order of the questions.
    numbers: HashMap<EventId, VecDeque<u64>>,
    next_number: u64,
    last_answer: Option<Instant>,
}

#[derive(Debug)]
struct Asked<T> {
    at: Instant,
    id: EventId,
    waiting: T,
}

/// Questions that were not answered in time.
#[derive(Debug, PartialEq)]
pub(super) struct Overdue<T> {
    pub(super) waited: Vec<T>,
    /// Nothing at all was answered meanwhile.
    pub(super) is_silent: bool,
}

impl<T> Pending<T> {
    pub(super) fn new(patience: Duration) -> Self {
        let (questions, numbers) = (BTreeMap::new(), HashMap::new());
        Self { patience, questions, numbers, next_number: 0, last_answer: None }
    }

    pub(super) fn len(&self) -> usize {
        self.questions.len()
    }

    pub(super) fn ask(&mut self, id: EventId, waiting: T, now: Instant) {
        self.numbers.entry(id).or_default().push_back(self.next_number);
        self.questions.insert(self.next_number, Asked { at: now, id, waiting });
        self.next_number += 1;
    }

    /// Takes an answer; returns the `T` that waited for it, or `None` if it comes too late.
    pub(super) fn answer(&mut self, id: &EventId, now: Instant) -> Option<T> {
        self.last_answer = Some(now);
        let number = *self.numbers.get(id)?.front()?;
        Some(self.take(number)?.waiting)
    }

    /// Returns the time at which the oldest question will have waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.questions.values().next().map(|oldest| oldest.at + self.patience)
    }

    /// Takes out the questions that have waited too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Overdue<T> {
        let (mut waited, mut is_silent) = (Vec::new(), false);
        while self.deadline().is_some_and(|deadline| deadline <= now)
            && let Some((&number, _)) = self.questions.first_key_value()
            && let Some(question) = self.take(number)
        {
            is_silent |= self.last_answer.is_none_or(|answered| answered < question.at);
            waited.push(question.waiting);
        }
        Overdue { waited, is_silent }
    }

    /// Takes out all, the oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.numbers.clear();
        std::mem::take(&mut self.questions).into_values().map(|question| question.waiting)
    }

    fn take(&mut self, number: u64) -> Option<Asked<T>> {
        let question = self.questions.remove(&number)?;
        if let Some(numbers) = self.numbers.get_mut(&question.id) {
            numbers.retain(|of| *of != number);
            if numbers.is_empty() {
                self.numbers.remove(&question.id);
            }
        }
        Some(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const ONE: EventId = EventId([1; 32]);
    const TWO: EventId = EventId([2; 32]);

    #[test]
    fn answers_find_who_asked_in_any_order_and_once() {
        let (mut pending, now) = (Pending::new(PATIENCE), Instant::now());
        for (id, name) in [(ONE, "a"), (TWO, "b"), (ONE, "c")] {
            pending.ask(id, name, now);
        }
        assert_eq!(pending.len(), 3);
        assert_eq!(pending.answer(&TWO, now), Some("b"));
        assert_eq!([pending.answer(&ONE, now), pending.answer(&ONE, now)], [Some("a"), Some("c")]);
        assert_eq!((pending.answer(&ONE, now), pending.len(), pending.deadline()), (None, 0, None));
        assert!(pending.numbers.is_empty());
    }

    #[test]
    fn what_waits_too_long_comes_out_and_its_late_answer_is_for_nobody() {
        let (mut pending, now) = (Pending::new(PATIENCE), Instant::now());
        let later = now + Duration::from_secs(5);
        pending.ask(ONE, "a", now);
        pending.ask(TWO, "b", later);
        assert_eq!(pending.deadline(), Some(now + PATIENCE));
        assert!(pending.overdue(now + PATIENCE / 2).waited.is_empty());
        assert_eq!(pending.overdue(now + PATIENCE), Overdue { waited: vec!["a"], is_silent: true });
        assert_eq!(pending.deadline(), Some(later + PATIENCE));
        assert_eq!(pending.answer(&ONE, now + PATIENCE), None);
        // It has answered something since the second was asked.
        assert_eq!(pending.overdue(later + PATIENCE), Overdue { waited: vec!["b"], is_silent: false });
        pending.ask(ONE, "d", later);
        assert_eq!(pending.drain().collect::<Vec<_>>(), ["d"]);
        assert_eq!((pending.len(), pending.deadline()), (0, None));
    }
}
