//! Blocks that are installed and not announced yet.
//!
//! An index that catches up by many blocks installs a tip after each step, and the next step replaces it. Clients are
//! notified once the node's tip is reached, and every [`SILENCE_MAX`] on a longer way.

use std::time::Duration;

use crate::names::Touched;

/// The longest time for which steps are kept back. A step that takes longer is announced when it ends.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Changes that no update has announced.
#[derive(Debug, Default)]
pub(super) struct Unannounced {
    /// The time of the first one, and the scripts that they touched together.
    held: Option<(Duration, Touched)>,
}

impl Unannounced {
    /// Adds a change that is installed `now`.
    pub(super) fn add(&mut self, now: Duration, change: Touched) {
        match &mut self.held {
            None => self.held = Some((now, change)),
            Some((_, touched)) => touched.join(change),
        }
    }

    /// Takes everything if it waits for [`SILENCE_MAX`].
    pub(super) fn take_overdue(&mut self, now: Duration) -> Option<Touched> {
        self.held.take_if(|(since, _)| now.saturating_sub(*since) >= SILENCE_MAX).map(|(_, touched)| touched)
    }

    /// Takes everything.
    pub(super) fn take(&mut self) -> Option<Touched> {
        self.held.take().map(|(_, touched)| touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ScriptHash;

    fn touched(number: u8) -> Touched {
        Touched::Scripts(vec![ScriptHash::of(&[number])])
    }

    #[test]
    fn steps_are_kept_back_together_and_for_a_bounded_time() {
        let mut unannounced = Unannounced::default();
        assert_eq!(unannounced.take(), None);
        let began = Duration::from_secs(7);
        unannounced.add(began, touched(1));
        unannounced.add(began + SILENCE_MAX / 2, touched(2));
        assert_eq!(unannounced.take_overdue(began + SILENCE_MAX / 2), None);
        let mut both = touched(1);
        both.join(touched(2));
        assert_eq!(unannounced.take_overdue(began + SILENCE_MAX), Some(both));
        assert_eq!(unannounced.take(), None);
    }
}
