//! Scripts whose answers a change of tip or mempool may have changed.

use std::collections::BTreeSet;

use crate::names::scripthash::ScriptHash;

/// Scripts whose answers may differ from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// These, sorted.
    Scripts(Vec<ScriptHash>),
    /// Any script: the node has lost a stale block, so the scripts that it touched are unknown.
    Any,
}

/// Scripts that joined changes name one by one, 32 MB; beyond, any script counts as touched.
const SCRIPTS_MAX: usize = 1_000_000;

impl Touched {
    /// Adds the scripts of a later change.
    pub(crate) fn join(&mut self, later: Self) {
        match (&mut *self, later) {
            (Self::Scripts(scripts), Self::Scripts(more)) if scripts.len() + more.len() <= SCRIPTS_MAX => {
                scripts.extend(more);
                scripts.sort_unstable();
                scripts.dedup();
            }
            _ => *self = Self::Any,
        }
    }
}

/// Touched scripts while a change is applied.
pub(crate) type TouchedScripts = BTreeSet<ScriptHash>;

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(numbers: &[u32]) -> Touched {
        let hash = |number: &u32| ScriptHash::of(&number.to_be_bytes());
        let mut hashes: Vec<ScriptHash> = numbers.iter().map(hash).collect();
        hashes.sort_unstable();
        Touched::Scripts(hashes)
    }

    #[test]
    fn joined_changes_touch_the_scripts_of_both_once_and_stay_sorted() {
        let mut touched = scripts(&[1, 2]);
        touched.join(scripts(&[2, 3]));
        assert_eq!(touched, scripts(&[1, 2, 3]));
    }

    #[test]
    fn a_change_of_unknown_scripts_and_one_of_too_many_touch_any() {
        let mut touched = scripts(&[1]);
        touched.join(Touched::Any);
        assert_eq!(touched, Touched::Any);
        touched.join(scripts(&[1]));
        assert_eq!(touched, Touched::Any);
        let mut touched = Touched::Scripts(vec![ScriptHash::of(&[]); SCRIPTS_MAX]);
        touched.join(scripts(&[1]));
        assert_eq!(touched, Touched::Any);
    }
}
