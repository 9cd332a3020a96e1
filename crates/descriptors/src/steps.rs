//! Bounds on derivation, counted before it begins. A step is the derivation of one key from its parent: 70 microseconds
//! on a busy AMD EPYC.

use bitcoin::bip32::DerivationPath;
use miniscript::{Descriptor, DescriptorPublicKey};

use crate::limits::{GAP, STEPS_A_KEY_MAX, STEPS_MAX};
use crate::unnamed::Unnamed;

/// Steps that a question may still take.
#[derive(Debug)]
pub struct Steps {
    left: usize,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: STEPS_MAX }
    }
}

impl Steps {
    /// Charges steps before they are taken.
    pub fn charge(&mut self, steps: usize) -> Result<(), Unnamed> {
        self.left = self.left.checked_sub(steps).ok_or(Unnamed::TooManySteps)?;
        Ok(())
    }

    /// Charges the first scripts of a descriptor's branches: the steps of every key up to the wildcard, and one for
    /// each script. Keys that are not derived count as well.
    pub(crate) fn charge_line(&mut self, descriptor: &Descriptor<DescriptorPublicKey>) -> Result<(), Unnamed> {
        let branches = descriptor.iter_pk().map(|key| paths(&key).len()).max().unwrap_or_default().max(1);
        let scripts = if descriptor.has_wildcard() { GAP as usize } else { 1 };
        let mut steps = 0;
        for key in descriptor.iter_pk() {
            let lengths = paths(&key);
            let longest = lengths.iter().max().copied().unwrap_or_default();
            if longest + usize::from(key.has_wildcard()) > STEPS_A_KEY_MAX {
                return Err(Unnamed::TooManyStepsOfKey);
            }
            let of_paths: usize = if lengths.len() > 1 { lengths.iter().sum() } else { longest * branches };
            steps += of_paths + branches * scripts;
        }
        self.charge(steps)
    }
}

/// The lengths of a key's paths, without the wildcard; none if it is not extended.
fn paths(key: &DescriptorPublicKey) -> Vec<usize> {
    match key {
        DescriptorPublicKey::Single(_) => Vec::new(),
        DescriptorPublicKey::XPub(key) => vec![key.derivation_path.len()],
        DescriptorPublicKey::MultiXPub(key) => key.derivation_paths.paths().iter().map(DerivationPath::len).collect(),
    }
}
