//! What a client follows of one kind, what it was told last, and what is to be looked at again.
//!
//! A subscription is entered when its request is admitted, and settled as the reply leaves. Only settled ones are told of
//! changes, and only when what they are told is another thing than before.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Subscriptions to things named by `K`, each with a state `S`.
#[derive(Debug)]
pub(crate) struct Subscriptions<K, S> {
    told: HashMap<K, Told<S>>,
    due: HashSet<K>,
}

/// What the client was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told<S> {
    /// Nothing: so many replies to its subscribe requests are on their way.
    Nothing(u32),
    This(S),
}

/// Whether a state is that of the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    Present,
    /// Something has changed since it was computed, perhaps this.
    Stale,
}

// === impl Subscriptions ===

impl<K, S> Default for Subscriptions<K, S> {
    fn default() -> Self {
        Self { told: HashMap::new(), due: HashSet::new() }
    }
}

impl<K: Copy + Eq + Hash, S: PartialEq> Subscriptions<K, S> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.told.contains_key(key)
    }

    /// A subscribe request is admitted.
    pub(crate) fn enter(&mut self, key: K) {
        if let Told::Nothing(replies) = self.told.entry(key).or_insert(Told::Nothing(0)) {
            *replies += 1;
        }
    }

    /// Whether there was a subscription.
    pub(crate) fn leave(&mut self, key: &K) -> bool {
        self.due.remove(key);
        self.told.remove(key).is_some()
    }

    /// The reply leaves with this state. True if it must be looked at again.
    pub(crate) fn settle(&mut self, key: K, state: S, age: Age) -> bool {
        let Some(told) = self.told.get_mut(&key) else { return false };
        *told = Told::This(state);
        if age == Age::Stale {
            self.due.insert(key);
        }
        age == Age::Stale
    }

    /// The reply is an error: what no other reply has told is not followed.
    pub(crate) fn fail(&mut self, key: &K) {
        let Some(Told::Nothing(replies)) = self.told.get_mut(key) else { return };
        *replies -= 1;
        if *replies == 0 {
            self.leave(key);
        }
    }

    /// The thing may have changed.
    pub(crate) fn touch(&mut self, key: &K) {
        if self.contains(key) {
            self.due.insert(*key);
        }
    }

    /// Everything that `is_touched` may have changed.
    pub(crate) fn touch_where(&mut self, is_touched: impl Fn(&K) -> bool) {
        self.due.extend(self.told.keys().filter(|key| is_touched(key)));
    }

    /// Whether something is to be looked at again.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes out what is to be looked at again. What is touched from now on is to be looked at once more.
    pub(crate) fn take_due(&mut self) -> impl Iterator<Item = K> + use<K, S> {
        std::mem::take(&mut self.due).into_iter()
    }

    /// A look has found this state. Tells whether the client must be told of it now, and how old it is then; what is
    /// told while it may be stale is to be looked at again.
    pub(crate) fn change(&mut self, key: K, state: S, age: Age) -> Option<Age> {
        match self.told.get_mut(&key) {
            Some(Told::This(told)) if *told != state => {
                *told = state;
                if age == Age::Stale {
                    self.due.insert(key);
                }
                Some(age)
            }
            _ => None,
        }
    }
}
