//! Windows of time, the newest first, without a gap and without an overlap. Their length follows the number of events,
//! so that neither side holds the ids of all events at once. Pure.

use crate::limits::{WINDOW_FIRST_S, WINDOW_IDS_AIM};

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its first second.
    pub(crate) since: u64,
    /// Its last second; `None` for the one without an end.
    pub(crate) until: Option<u64>,
}

/// The windows that are left.
#[derive(Debug)]
pub(crate) struct Windows {
    /// First second of the oldest window.
    since: u64,
    /// Last second of the next window: `None` without an end.
    until: Option<u64>,
    /// Second from which the length of the first window counts.
    now: u64,
    length_s: u64,
    is_done: bool,
}

/// There is no shorter window.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OneSecond;

impl Windows {
    /// The windows from `since` to `until`, of which the newest ends about now.
    pub(crate) fn new(since: u64, until: Option<u64>, now: u64) -> Self {
        let is_done = until.is_some_and(|until| until < since);
        Self { since, until, now, length_s: WINDOW_FIRST_S, is_done }
    }

    /// Returns the next window; `None` after the last one.
    pub(crate) fn next(&self) -> Option<Window> {
        if self.is_done {
            return None;
        }
        let last = self.until.unwrap_or(self.now.max(self.since));
        let first = (last + 1).saturating_sub(self.length_s);
        Some(Window { since: first.max(self.since), until: self.until })
    }

    /// Makes the next window begin later: it has too many of our events. The oldest that was read is of this second.
    ///
    /// # Errors
    /// All of them are of its last second.
    pub(crate) fn begin_after(&mut self, oldest: u64) -> Result<(), OneSecond> {
        let last = self.until.unwrap_or(self.now.max(self.since).max(oldest));
        if oldest >= last {
            return Err(OneSecond);
        }
        self.length_s = last - oldest;
        if self.until.is_none() {
            self.now = last;
        }
        Ok(())
    }

    /// Makes the next window half as long: it has too many events for the peer.
    ///
    /// # Errors
    /// It is one second long.
    pub(crate) fn halve(&mut self) -> Result<(), OneSecond> {
        let Some(window) = self.next() else { return Ok(()) };
        let length = window.until.unwrap_or(self.now.max(self.since)) + 1 - window.since;
        if length < 2 {
            return Err(OneSecond);
        }
        self.length_s = length / 2;
        Ok(())
    }

    /// Goes on after a window in which one side has this many events.
    pub(crate) fn done(&mut self, window: Window, ids: usize) {
        self.length_s = match ids {
            ids if ids > WINDOW_IDS_AIM => (self.length_s / 2).max(1),
            ids if ids < WINDOW_IDS_AIM / 16 => self.length_s.saturating_mul(4),
            ids if ids < WINDOW_IDS_AIM / 2 => self.length_s.saturating_mul(2),
            _ => self.length_s,
        };
        self.go_on_before(window.since);
    }

    /// Goes on before this second.
    pub(crate) fn go_on_before(&mut self, second: u64) {
        if second <= self.since {
            self.is_done = true;
        } else {
            self.until = Some(second - 1);
        }
    }

    /// Returns everything that is left as one window.
    pub(crate) fn rest(&self) -> Option<Window> {
        (!self.is_done).then_some(Window { since: self.since, until: self.until })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    #[test]
    fn few_events_need_few_windows() {
        let mut windows = Windows::new(0, None, NOW);
        let mut count = 0;
        while let Some(window) = windows.next() {
            windows.done(window, 0);
            count += 1;
        }
        assert!(count < 12, "{count}");
    }

    #[test]
    fn a_window_of_one_second_is_not_halved() {
        let mut windows = Windows::new(5, Some(6), NOW);
        assert_eq!(windows.halve(), Ok(()));
        assert_eq!(windows.next().unwrap(), Window { since: 6, until: Some(6) });
        assert_eq!(windows.halve(), Err(OneSecond));
        assert_eq!(windows.begin_after(6), Err(OneSecond));
    }

    #[test]
    fn there_is_none_where_the_end_is_before_the_beginning() {
        assert_eq!(Windows::new(6, Some(5), NOW).next(), None);
    }

    proptest! {
        /// Every second is in one window, whatever is met on the way.
        #[test]
        fn windows_have_no_gap_and_no_overlap(
            since in 0_u64..2_000_000_000,
            until in prop::option::of(0_u64..2_000_000_000),
            events in prop::collection::vec((0_usize..4, 0_usize..200_000, 0_u64..100_000), 1..60),
        ) {
            let (mut windows, mut next) = (Windows::new(since, until, NOW), until);
            let mut events = events.into_iter().cycle();
            let mut count = 0;
            while let Some(window) = windows.next() {
                prop_assert_eq!(window.until, next);
                prop_assert!(window.since >= since && window.until.is_none_or(|until| window.since <= until));
                let (event, ids, offset) = events.next().unwrap();
                count += 1;
                // Towards the end all are done, or halving would go on for ever.
                match if count > 200 { 3 } else { event } {
                    0 => drop(windows.halve()),
                    1 => drop(windows.begin_after(window.since + offset)),
                    _ => {
                        windows.done(window, if count > 200 { 0 } else { ids });
                        next = window.since.checked_sub(1);
                    }
                }
            }
            prop_assert!(next.is_none_or(|next| next < since) || until.is_some_and(|until| until < since));
        }
    }
}
