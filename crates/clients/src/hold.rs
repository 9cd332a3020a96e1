//! Quotas on what clients hold, of one client and of all of them together, with a guard for each part that is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bound on an amount, and the amount that is held. A clone is another handle.
#[derive(Debug, Clone)]
pub struct Quota {
    held: Arc<AtomicUsize>,
    most: usize,
}

/// An amount that counts in the quotas of one client and of all. Dropping it gives the amount back.
#[derive(Debug)]
pub struct Held {
    quotas: [Quota; 2],
    amount: usize,
}

/// The quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// That of the client.
    OfClient,
    /// That of all clients.
    OfAll,
}

// === impl Quota ===

impl Quota {
    /// Returns a quota of which nothing is held.
    pub fn new(most: usize) -> Self {
        Self::of(Arc::default(), most)
    }

    /// Returns a quota over a counter that others share.
    pub fn of(held: Arc<AtomicUsize>, most: usize) -> Self {
        Self { held, most }
    }

    /// Returns the amount that is held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn take(&self, amount: usize) -> bool {
        let more = |held: usize| held.checked_add(amount).filter(|sum| *sum <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, amount: usize) {
        self.held.fetch_sub(amount, Ordering::Relaxed);
    }
}

// === impl Held ===

impl Held {
    /// Holds an amount in the quota of a client and in that of all.
    ///
    /// # Errors
    /// The quota without room.
    pub fn of(client: &Quota, all: &Quota, amount: usize) -> Result<Self, UsedUp> {
        let mut held = Self::nothing(&[client.clone(), all.clone()]);
        held.grow(amount)?;
        Ok(held)
    }

    /// Holds nothing yet in the quotas of a client and of all.
    pub fn nothing(quotas: &[Quota; 2]) -> Self {
        Self { quotas: quotas.clone(), amount: 0 }
    }

    /// Holds more.
    ///
    /// # Errors
    /// The quota without room. What was held before is still held.
    pub fn grow(&mut self, more: usize) -> Result<(), UsedUp> {
        let [client, all] = &self.quotas;
        if !client.take(more) {
            return Err(UsedUp::OfClient);
        }
        if !all.take(more) {
            client.give_back(more);
            return Err(UsedUp::OfAll);
        }
        self.amount += more;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for quota in &self.quotas {
            quota.give_back(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_for_the_client_and_for_all_until_it_is_dropped() {
        let (all, one, other) = (Quota::new(10), Quota::new(6), Quota::new(6));
        let first = Held::of(&one, &all, 6);
        assert!(first.is_ok());
        assert_eq!(Held::of(&one, &all, 1).err(), Some(UsedUp::OfClient));
        assert_eq!(Held::of(&other, &all, 5).err(), Some(UsedUp::OfAll));
        assert_eq!((all.held(), other.held()), (6, 0), "what is refused counts nowhere");
        let mut growing = Held::nothing(&[other.clone(), all.clone()]);
        assert_eq!(
            (growing.grow(3), growing.grow(2), growing.grow(4)),
            (Ok(()), Err(UsedUp::OfAll), Err(UsedUp::OfClient))
        );
        assert_eq!((all.held(), other.held()), (9, 3));
        drop(growing);
        drop(first);
        assert!(Held::of(&other, &all, 6).is_ok());
        assert_eq!((all.held(), one.held(), other.held()), (0, 0, 0));
    }
}
