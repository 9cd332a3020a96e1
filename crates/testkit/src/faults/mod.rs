//! Attacks and faults: hostile clients, stores that fail, disks that become full.

pub mod asked;
pub mod attack;
pub mod hooked_store;
pub mod priority;
pub mod slow_disk;
pub mod slow_link;
pub mod small_disk;
