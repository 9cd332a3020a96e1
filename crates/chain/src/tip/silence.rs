//! Silence of the node, as one finds it who asks the node about once a second. Pure: times are arguments.

use std::time::Duration;

/// Time without an answer after which the node is silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Time of answers after which it is silent no more: longer than the time above, so that a node that answers too late
/// again and again is silent all the time.
const STEADY_AFTER: Duration = Duration::from_secs(15);
const _: () = assert!(STEADY_AFTER.as_secs() > SILENT_AFTER.as_secs());

/// The last answers of a node.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Time of the last answer; before the first one, of the first question. `None` while nobody asks.
    answered: Option<Duration>,
    /// Time of the answer that ended the last silence.
    returned: Option<Duration>,
}

// === impl Silence ===

impl Silence {
    /// Notes the first question.
    pub(super) fn begin(&mut self, now: Duration) {
        self.answered.get_or_insert(now);
    }

    /// Notes an answer.
    pub(super) fn answer(&mut self, now: Duration) {
        if self.has_no_answer(now) {
            self.returned = Some(now);
        }
        self.answered = Some(now);
    }

    /// Returns true while the node is silent.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        self.has_no_answer(now) || self.returned.is_some_and(|at| now.saturating_sub(at) < STEADY_AFTER)
    }

    fn has_no_answer(&self, now: Duration) -> bool {
        self.answered.is_some_and(|at| now.saturating_sub(at) > SILENT_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// Seconds in which the node is silent, of the first `seconds` after the first question.
    fn silent(answers: &[u64], seconds: u64) -> Vec<u64> {
        let mut silence = Silence::default();
        silence.begin(S(0));
        let silent = (0..seconds).filter(|second| {
            if answers.contains(second) {
                silence.answer(S(*second));
            }
            silence.is_long(S(*second))
        });
        silent.collect()
    }

    #[test]
    fn a_node_is_silent_after_ten_seconds_until_it_has_answered_for_fifteen() {
        let returned: Vec<u64> = (0..20).chain(40..80).collect();
        assert_eq!(silent(&returned, 80), (30..55).collect::<Vec<u64>>());
        assert_eq!(silent(&[], 30), (11..30).collect::<Vec<u64>>(), "it never answers");
    }

    #[test]
    fn pauses_of_ten_seconds_are_no_silence_and_longer_ones_are_one_silence() {
        let every = |pause: u64| (0..200).step_by(usize::try_from(pause).expect("small")).collect::<Vec<u64>>();
        assert_eq!(silent(&every(10), 200), [0; 0]);
        assert_eq!(silent(&every(12), 200), (11..200).collect::<Vec<u64>>());
    }

    #[test]
    fn a_node_that_nobody_asks_is_not_silent() {
        assert!(!Silence::default().is_long(S(1000)));
    }
}
