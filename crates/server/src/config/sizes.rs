//! Bounds on memory and temporary disk: those that are set, else those of the preset.

use super::Options;
use super::values::Preset;

const MIB: u64 = 1 << 20;

/// Bounds in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Cached blocks of the index.
    pub(crate) cache: u64,
    /// Memory of the first build.
    pub(crate) build_memory: u64,
    /// Temporary disk of one generation of the first build.
    pub(crate) build_temp: u64,
}

impl Options {
    /// Returns the bounds on memory and temporary disk.
    pub(crate) fn sizes(&self) -> Sizes {
        // A Raspberry Pi 4 with 4 GB shares them with its node, whose `dbcache` alone is 450 MiB.
        let (cache, build_memory, build_temp) = match self.preset.unwrap_or(Preset::Usual) {
            Preset::Usual => (64, 1024, 16 << 10),
            Preset::Pi4 => (32, 320, 8 << 10),
        };
        let bytes = |set: Option<u64>, preset: u64| set.unwrap_or(preset) * MIB;
        Sizes {
            cache: bytes(self.cache_mib, cache),
            build_memory: bytes(self.build_memory_mib, build_memory),
            build_temp: bytes(self.build_temp_mib, build_temp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_changes_what_is_not_set() {
        let usual = Options::default().sizes();
        assert_eq!(usual, Sizes { cache: 64 * MIB, build_memory: 1024 * MIB, build_temp: 16384 * MIB });
        let small = Options { preset: Some(Preset::Pi4), cache_mib: Some(128), ..Options::default() }.sizes();
        assert_eq!(small, Sizes { cache: 128 * MIB, build_memory: 320 * MIB, build_temp: 8192 * MIB });
    }
}
