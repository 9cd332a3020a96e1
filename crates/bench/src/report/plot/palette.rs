//! Colours and marks of servers.

use std::collections::{BTreeMap, BTreeSet};

/// Colour and mark of each server, the same everywhere; the first server of each record has the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Palette(BTreeMap<String, usize>);

impl Palette {
    /// Makes the palette of groups of servers; the servers of a group have different colours.
    pub(crate) fn of<'a>(groups: impl IntoIterator<Item = Vec<&'a str>>) -> Self {
        let mut palette = Self::default();
        for group in groups {
            let mut taken: BTreeSet<usize> = group.iter().filter_map(|name| palette.0.get(*name).copied()).collect();
            for name in group {
                if palette.0.contains_key(name) {
                    continue;
                }
                let index = (0..=taken.len())
                    .find(|index| !taken.contains(index))
                    .expect("there are more indexes than taken ones");
                taken.insert(index);
                palette.0.insert(name.to_owned(), index);
            }
        }
        palette
    }

    /// Returns the index of a server's colour; 0 for any other name.
    pub(crate) fn index(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_colour_and_neighbours_differ() {
        let palette =
            Palette::of([vec!["ours", "electrs", "e-x"], vec!["relay", "strfry"], vec!["e-x", "fulcrum", "new"]]);
        let indexes = ["ours", "electrs", "e-x", "relay", "strfry", "fulcrum", "new", "nobody"];
        assert_eq!(indexes.map(|name| palette.index(name)), [0, 1, 2, 0, 1, 0, 1, 0]);
    }
}
