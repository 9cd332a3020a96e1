//! Subscriptions of one kind: the state sent last for each, and those that must be checked again.
//!
//! A subscription is entered when its request is admitted, and settled as the reply leaves. Only settled subscriptions
//! are notified, and only of a state that differs from the one sent last.

use std::hash::Hash;

use crate::client::table::Table;

/// Subscriptions to subjects named by `K`, each with a state `S`.
#[derive(Debug)]
pub(super) struct Subscriptions<K, S> {
    sent: Table<K, LastSent<S>>,
    due: Table<K, ()>,
}

/// State that the client has received last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastSent<S> {
    /// None yet; this many replies to its subscribe requests are on their way.
    Nothing(u32),
    State(S),
}

/// Age of a state that was computed from a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    Present,
    /// An update came after it was computed, and may have changed it.
    Stale,
}

// === impl Subscriptions ===

impl<K, S> Default for Subscriptions<K, S> {
    fn default() -> Self {
        Self { sent: Table::default(), due: Table::default() }
    }
}

impl<K: Copy + Eq + Hash, S: PartialEq> Subscriptions<K, S> {
    /// Returns the number of subscriptions.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Returns true if `key` is followed.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.sent.contains(key)
    }

    /// Enters a subscribe request that is admitted.
    pub(super) fn enter(&mut self, key: K) {
        if let LastSent::Nothing(replies) = self.sent.get_or_insert(key, LastSent::Nothing(0)) {
            *replies += 1;
        }
    }

    /// Ends a subscription; returns false if there was none.
    pub(super) fn leave(&mut self, key: &K) -> bool {
        self.due.remove(key);
        self.sent.remove(key)
    }

    /// Settles a subscription whose reply leaves with this state. Returns true if it must be checked again.
    pub(super) fn settle(&mut self, key: K, state: S, age: Age) -> bool {
        let Some(sent) = self.sent.get_mut(&key) else { return false };
        *sent = LastSent::State(state);
        if age == Age::Stale {
            self.due.get_or_insert(key, ());
        }
        age == Age::Stale
    }

    /// Settles a subscription whose reply is an error: it ends, unless another reply has settled it or is on its way.
    pub(super) fn fail(&mut self, key: &K) {
        let Some(LastSent::Nothing(replies)) = self.sent.get_mut(key) else { return };
        *replies -= 1;
        if *replies == 0 {
            self.leave(key);
        }
    }

    /// Marks a subject as due: it may have changed.
    pub(super) fn touch(&mut self, key: &K) {
        if self.contains(key) {
            self.due.get_or_insert(*key, ());
        }
    }

    /// Marks every subject as due for which `is_touched` is true.
    pub(super) fn touch_where(&mut self, is_touched: impl Fn(&K) -> bool) {
        self.sent.each_key(|key| {
            if is_touched(key) {
                self.due.get_or_insert(*key, ());
            }
        });
    }

    /// Returns true if a subject must be checked again.
    pub(super) fn has_due(&self) -> bool {
        self.due.len() > 0
    }

    /// Takes the subjects that must be checked again. Those that are touched from now on become due once more.
    pub(super) fn take_due(&mut self) -> impl Iterator<Item = K> + use<K, S> {
        self.due.take_keys().into_iter()
    }

    /// Takes the state that a check has found. Returns its age if the client must be notified of it now, and `None` if
    /// not. A stale state becomes due again.
    pub(super) fn change(&mut self, key: K, state: S, age: Age) -> Option<Age> {
        match self.sent.get_mut(&key) {
            Some(LastSent::State(sent)) if *sent != state => {
                *sent = state;
                if age == Age::Stale {
                    self.due.get_or_insert(key, ());
                }
                Some(age)
            }
            _ => None,
        }
    }
}
