//! Values of outputs, as coarse as the limits that clients ask for.

/// The limits in satoshis that clients ask for. Some mean values at or above a limit, others only those above it.
const LIMITS: [u64; 8] = [0, 330, 546, 600, 1000, 3750, 10_000, 100_000];

/// The number of bounds that a value has reached: each limit is one, and the next satoshi is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueClass(pub(super) u8);

impl ValueClass {
    /// Returns the class of a value in satoshis.
    pub fn of(sats: u64) -> Self {
        let reached = LIMITS.iter().map(|limit| u8::from(sats >= *limit) + u8::from(sats > *limit));
        Self(reached.sum())
    }

    /// Returns true for values of at least `sats`, where this is one of the limits 0, 330, 546, 600, 1000, 3750, 10 000
    /// and 100 000. For any other it means the next lower one, and so lets more pass.
    pub fn is_at_least(self, sats: u64) -> bool {
        self >= Self::of(sats)
    }

    /// Returns true for values above `sats`, where this is one of the limits. For any other it means
    /// [`Self::is_at_least`].
    pub fn is_above(self, sats: u64) -> bool {
        self >= Self::of(sats.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_exact_and_others_let_no_fewer_pass() {
        let values = || LIMITS.iter().flat_map(|limit| limit.saturating_sub(2)..=limit + 2).chain([0, 1, u64::MAX]);
        for (value, limit) in values().flat_map(|value| LIMITS.iter().map(move |limit| (value, *limit))) {
            assert_eq!(ValueClass::of(value).is_above(limit), value > limit, "{value} > {limit}");
            assert_eq!(ValueClass::of(value).is_at_least(limit), value >= limit, "{value} >= {limit}");
        }
        for (value, limit) in values().flat_map(|value| [1, 329, 999, 5000, 1 << 40].map(|limit| (value, limit))) {
            assert!(ValueClass::of(value).is_above(limit) || value <= limit, "{value} > {limit}");
            assert!(ValueClass::of(value).is_at_least(limit) || value < limit, "{value} >= {limit}");
        }
    }
}
