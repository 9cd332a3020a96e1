//! Attacks and faults: hostile clients, stores that fail, disks that become full.

pub(crate) mod asked;
pub(crate) mod attack;
pub(crate) mod hooked_store;
pub(crate) mod priority;
pub(crate) mod small_disk;
