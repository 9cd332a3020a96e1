//! A map whose size follows its content: nothing is allocated for an empty one, and few entries are a list.
//!
//! Most connections follow a few subjects. A hash table of one entry has room for four, and the map around it is twice
//! as large as a list; a list of up to [`FEW_MAX`] is searched faster than its keys are hashed.

use std::collections::HashMap;
use std::hash::Hash;

/// Entries of a list.
const FEW_MAX: usize = 8;

/// A map from `K` to `V`.
#[derive(Debug)]
pub(super) enum Table<K, V> {
    Few(Vec<(K, V)>),
    #[expect(clippy::box_collection, reason = "a list is half as large, and most connections have one")]
    Many(Box<HashMap<K, V>>),
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    /// Returns true if a key has a value.
    pub(super) fn contains(&self, key: &K) -> bool {
        match self {
            Self::Few(few) => few.iter().any(|(other, _)| other == key),
            Self::Many(many) => many.contains_key(key),
        }
    }

    /// Returns the value of a key.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Few(few) => few.iter_mut().find(|(other, _)| other == key).map(|(_, value)| value),
            Self::Many(many) => many.get_mut(key),
        }
    }

    /// Returns the value of a key, which is this one if it had none.
    pub(super) fn get_or_insert(&mut self, key: K, value: V) -> &mut V {
        if let Self::Few(few) = self
            && few.len() == FEW_MAX
            && !few.iter().any(|(other, _)| *other == key)
        {
            *self = Self::Many(Box::new(std::mem::take(few).into_iter().collect()));
        }
        match self {
            Self::Few(few) => {
                let index = few.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
                    if few.len() == few.capacity() {
                        few.reserve_exact(few.len().max(1));
                    }
                    few.push((key, value));
                    few.len() - 1
                });
                &mut few[index].1
            }
            Self::Many(many) => many.entry(key).or_insert(value),
        }
    }

    /// Removes a key; returns false if it had no value.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        match self {
            Self::Few(few) => {
                let index = few.iter().position(|(other, _)| other == key);
                index.map(|index| few.swap_remove(index)).is_some()
            }
            Self::Many(many) => many.remove(key).is_some(),
        }
    }

    /// Calls a function with each key.
    pub(super) fn each_key(&self, mut each: impl FnMut(&K)) {
        match self {
            Self::Few(few) => few.iter().for_each(|(key, _)| each(key)),
            Self::Many(many) => many.keys().for_each(each),
        }
    }

    /// Takes all keys; nothing is left.
    pub(super) fn take_keys(&mut self) -> Vec<K> {
        match std::mem::take(self) {
            Self::Few(few) => few.into_iter().map(|(key, _)| key).collect(),
            Self::Many(many) => many.into_keys().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8, u32),
        Change(u8, u32),
        Remove(u8),
        TakeKeys,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u8..24, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            2 => (0u8..24, any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
            4 => (0u8..24).prop_map(Step::Remove),
            1 => Just(Step::TakeKeys),
        ]
    }

    fn sorted(mut keys: Vec<u8>) -> Vec<u8> {
        keys.sort_unstable();
        keys
    }

    proptest! {
        #[test]
        fn it_is_a_map_whatever_its_size(steps in proptest::collection::vec(step(), 0..80)) {
            let (mut table, mut model) = (Table::default(), HashMap::new());
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(table.get_or_insert(key, value), model.entry(key).or_insert(value));
                    }
                    Step::Change(key, value) => {
                        let (held, expected) = (table.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&held, &expected);
                        held.into_iter().chain(expected).for_each(|held| *held = value);
                    }
                    Step::Remove(key) => prop_assert_eq!(table.remove(&key), model.remove(&key).is_some()),
                    Step::TakeKeys => {
                        let expected = std::mem::take(&mut model).into_keys().collect();
                        prop_assert_eq!(sorted(table.take_keys()), sorted(expected));
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!((0..24).all(|key| table.contains(&key) == model.contains_key(&key)));
                let mut keys = Vec::new();
                table.each_key(|key| keys.push(*key));
                prop_assert_eq!(sorted(keys), sorted(model.keys().copied().collect()));
            }
        }
    }
}
