//! A bounded map that forgets its unused half when it is full.
//!
//! Entries live in two halves. A full young half becomes the old one, and what was left of the old one is forgotten. A
//! hit in the old half moves the entry to the young one, so what is used stays.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// A map of at most `MAX` entries. The default hash is for keys that clients choose.
#[derive(Debug)]
pub(crate) struct AgingMap<K, V, const MAX: usize, S = RandomState> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
}

impl<K, V, const MAX: usize, S: Default> Default for AgingMap<K, V, MAX, S> {
    fn default() -> Self {
        Self { young: HashMap::default(), old: HashMap::default() }
    }
}

impl<K: Eq + Hash, V, const MAX: usize, S: BuildHasher + Default> AgingMap<K, V, MAX, S> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some(known) = self.young.get_mut(&key) {
            *known = value;
            return;
        }
        self.old.remove(&key);
        if self.young.len() >= MAX / 2 {
            std::mem::swap(&mut self.old, &mut self.young);
            // Its memory is used again: to grow anew costs another hash of each entry.
            self.young.clear();
        }
        self.young.insert(key, value);
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Keeps the entries for which `keep` returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.young.retain(|_, value| keep(value));
        self.old.retain(|_, value| keep(value));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_forgets_what_was_not_used_and_stays_bounded() {
        let mut map = AgingMap::<u32, u32, 100>::default();
        for key in 0..1000 {
            map.insert(key, key);
            assert!(map.len() <= 100);
            assert_eq!(map.get(&0), Some(&mut 0), "what is used stays, at {key}");
        }
        let kept = (0..1000).filter(|key| map.get(key).is_some()).count();
        assert!(kept >= 50, "{kept}");
        assert!((990..1000).all(|key| map.get(&key).is_some()), "the newest entries are there");
        assert_eq!(map.get(&500), None);
        map.remove(&999);
        assert_eq!(map.get(&999), None);
    }
}
