//! The order and the times at which peers are asked for one block. Pure: time is an argument.
//!
//! A peer may be slow, or silent for ever, and the node does not say which. So the next one is asked, too, before the
//! patience with the one before is over, and the first block that comes ends the asking.

use std::collections::VecDeque;
use std::time::Duration;

/// Time after which the next peer is asked, too.
const NEXT_PEER_AFTER: Duration = Duration::from_secs(2);
/// Time in which a peer must send a block. Over Tor a block takes some seconds.
const PEER_PATIENCE: Duration = Duration::from_secs(8);
/// Peers that are asked for one block. With the times above, a block takes 16 s at most, which is less than a wallet
/// waits.
pub(super) const PEERS_ASKED_MAX: usize = 5;
/// Pauses between two looks for a block that is under way: doubled each time, from the first to the second.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Peers that are asked for one block, by their numbers.
#[derive(Debug)]
pub(super) struct Asking {
    left: VecDeque<u64>,
    asked: Vec<u64>,
    /// Time at which the next one is asked.
    next: Duration,
    /// Time at which the last one that was asked must have sent the block.
    end: Duration,
    pause: Duration,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask this peer, then call [`Asking::note_asked`] unless it cannot be asked.
    Ask(u64),
    /// Look for the block after this pause.
    Look(Duration),
    GiveUp,
}

impl Asking {
    pub(super) fn new(peers: impl IntoIterator<Item = u64>) -> Self {
        let left = peers.into_iter().take(PEERS_ASKED_MAX).collect();
        Self { left, asked: Vec::new(), next: Duration::ZERO, end: Duration::ZERO, pause: LOOK_MIN }
    }

    /// Returns the next step at a time since the beginning.
    pub(super) fn step(&mut self, now: Duration) -> Step {
        if now >= self.next
            && let Some(peer) = self.left.pop_front()
        {
            return Step::Ask(peer);
        }
        if now >= self.end {
            return Step::GiveUp;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LOOK_MAX);
        Step::Look(pause)
    }

    /// Notes that a peer was asked.
    pub(super) fn note_asked(&mut self, peer: u64, now: Duration) {
        self.asked.push(peer);
        (self.next, self.end, self.pause) = (now + NEXT_PEER_AFTER, now + PEER_PATIENCE, LOOK_MIN);
    }

    /// Returns the peer that was asked last.
    pub(super) fn last_asked(&self) -> Option<u64> {
        self.asked.last().copied()
    }

    /// Returns the only peer that was asked; `None` if there are several, of which each may have sent the block.
    pub(super) fn only_asked(&self) -> Option<u64> {
        if let [only] = self.asked[..] { Some(only) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks peers, of which some cannot be asked, until one sends the block or none is left. Returns the peers that
    /// were asked, each with the time in seconds, and the time of the end.
    fn run(peers: u64, refused: &[u64], sends_after: impl Fn(u64) -> Option<Duration>) -> (Vec<(u64, u64)>, Duration) {
        let (mut asking, mut now, mut asked, mut comes) =
            (Asking::new(1..=peers), Duration::ZERO, Vec::new(), Duration::MAX);
        loop {
            match asking.step(now) {
                Step::Ask(peer) if refused.contains(&peer) => {}
                Step::Ask(peer) => {
                    asking.note_asked(peer, now);
                    asked.push((peer, now.as_secs()));
                    comes = sends_after(peer).map_or(comes, |after| comes.min(now + after));
                }
                Step::Look(pause) => now += pause,
                Step::GiveUp => return (asked, now),
            }
            if now >= comes {
                return (asked, now);
            }
        }
    }

    #[test]
    fn a_silent_peer_costs_two_seconds() {
        let (asked, took) = run(3, &[], |peer| (peer == 2).then_some(Duration::from_millis(20)));
        assert_eq!(asked, [(1, 0), (2, 2)]);
        assert!(took < Duration::from_millis(2_200), "{took:?}");
    }

    #[test]
    fn a_slow_peer_may_still_send_the_block_after_another_one_was_asked() {
        let (asked, took) = run(2, &[], |peer| (peer == 1).then_some(Duration::from_secs(5)));
        assert_eq!(asked, [(1, 0), (2, 2)]);
        assert!(took < Duration::from_millis(5_200), "{took:?}");
    }

    #[test]
    fn peers_that_cannot_be_asked_cost_no_time() {
        let (asked, took) = run(4, &[1, 2, 3], |_| Some(Duration::from_millis(20)));
        assert_eq!(asked, [(4, 0)]);
        assert!(took < Duration::from_millis(200), "{took:?}");
        assert_eq!(run(2, &[1, 2], |_| None), (Vec::new(), Duration::ZERO));
    }

    #[test]
    fn five_peers_are_asked_at_most_and_the_last_one_has_as_long_as_the_first() {
        let (asked, took) = run(9, &[], |_| None);
        assert_eq!(asked, [(1, 0), (2, 2), (3, 4), (4, 6), (5, 8)]);
        assert!(took >= Duration::from_secs(16) && took < Duration::from_millis(16_800), "{took:?}");
        let (asked, took) = run(1, &[], |_| None);
        assert_eq!(asked, [(1, 0)]);
        assert!(took >= PEER_PATIENCE && took < PEER_PATIENCE + 2 * LOOK_MAX, "{took:?}");
    }
}
