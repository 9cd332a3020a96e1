//! The floor of free disk: below it, events are refused until there is room again.
//!
//! A full disk stops the writer, and compaction needs room to make room. So events are refused before. Deletion and
//! vanish requests, which lead to room, are taken down to half of the floor.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_events::Kind;
use parking_lot::Mutex;
use tracing::{info, warn};

/// Fraction of the floor that must be free beyond it before events are stored again: a disk near its floor would
/// otherwise let events in by ones and twos.
const ABOVE: u64 = 8;

/// Reads the bytes that can still be written to the disk of the events; `None` where this is unknown.
#[derive(Clone)]
pub struct FreeDisk(Arc<dyn Fn() -> Option<u64> + Send + Sync>);

/// Events that the free disk allows to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storable {
    All,
    /// Deletion and vanish requests.
    Deletions,
    Nothing,
}

/// The floor, and the state of the last look.
pub(crate) struct DiskFloor {
    free: FreeDisk,
    floor_bytes: AtomicU64,
    storable: Mutex<Storable>,
}

/// A disk below the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskShort {
    pub(crate) free_bytes: u64,
    pub(crate) floor_bytes: u64,
}

// === impl FreeDisk ===

impl FreeDisk {
    /// A disk whose free bytes this function reads. It is called before each batch of events.
    pub fn new(read: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

/// A disk of unknown size, which is never short.
impl Default for FreeDisk {
    fn default() -> Self {
        Self::new(|| None)
    }
}

impl fmt::Debug for FreeDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FreeDisk").field(&(self.0)()).finish()
    }
}

// === impl Storable ===

impl Storable {
    /// Decides by the free bytes, the floor, and the decision before.
    fn decide(free_bytes: u64, floor_bytes: u64, before: Self) -> Self {
        let enough = if before == Self::All { floor_bytes } else { floor_bytes.saturating_add(floor_bytes / ABOVE) };
        match free_bytes {
            _ if free_bytes >= enough => Self::All,
            _ if free_bytes >= floor_bytes / 2 => Self::Deletions,
            _ => Self::Nothing,
        }
    }

    /// Returns true if an event of this kind may be stored.
    pub(crate) fn includes(self, kind: Kind) -> bool {
        match self {
            Self::All => true,
            Self::Deletions => kind == Kind::DELETION || kind == Kind::VANISH,
            Self::Nothing => false,
        }
    }
}

// === impl DiskFloor ===

impl DiskFloor {
    /// A floor; without one nothing is ever refused.
    pub(crate) fn new(free: FreeDisk, floor_bytes: Option<u64>) -> Self {
        Self { free, floor_bytes: floor_bytes.unwrap_or(0).into(), storable: Mutex::new(Storable::All) }
    }

    /// Changes the floor. It decides on the next batch of events.
    pub(crate) fn set(&self, floor_bytes: Option<u64>) {
        self.floor_bytes.store(floor_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// Looks at the disk: a system call of about a microsecond.
    pub(crate) fn storable(&self) -> Storable {
        self.look().0
    }

    /// Looks at the disk; returns how short it is while events are refused.
    pub(crate) fn short(&self) -> Option<DiskShort> {
        let (storable, free_bytes) = self.look();
        let floor_bytes = self.floor_bytes.load(Ordering::Relaxed);
        (storable != Storable::All).then_some(DiskShort { free_bytes, floor_bytes })
    }

    fn look(&self) -> (Storable, u64) {
        let free_bytes = (self.free.0)().unwrap_or(u64::MAX);
        let floor_bytes = self.floor_bytes.load(Ordering::Relaxed);
        let mut storable = self.storable.lock();
        let before = *storable;
        *storable = Storable::decide(free_bytes, floor_bytes, before);
        match (before, *storable) {
            (Storable::All, Storable::Deletions | Storable::Nothing) => {
                warn!(free_bytes, floor_bytes, "refusing events: the disk is nearly full; make room");
            }
            (Storable::Deletions | Storable::Nothing, Storable::All) => {
                info!(free_bytes, "storing events again: the disk has room");
            }
            _ => {}
        }
        (*storable, free_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_refused_below_the_floor_until_there_is_some_more_room_than_it() {
        use Storable::{All, Deletions, Nothing};
        for (before, free, after) in [
            (All, 800, All),
            (All, 799, Deletions),
            (Deletions, 800, Deletions),
            (Deletions, 899, Deletions),
            (Deletions, 900, All),
            (Deletions, 400, Deletions),
            (All, 399, Nothing),
            (Nothing, 400, Deletions),
            (Nothing, 900, All),
        ] {
            assert_eq!(Storable::decide(free, 800, before), after, "{free} bytes after {before:?}");
        }
        assert_eq!(Storable::decide(0, 0, All), All, "no floor");
        assert_eq!(Storable::decide(u64::MAX, u64::MAX, Nothing), All, "a floor of everything");
    }

    #[test]
    fn what_makes_room_is_taken_last() {
        let kinds = [Kind::DELETION, Kind::VANISH, Kind(1)];
        assert_eq!(kinds.map(|kind| Storable::Deletions.includes(kind)), [true, true, false]);
        assert_eq!(kinds.map(|kind| Storable::Nothing.includes(kind)), [false; 3]);
        assert_eq!(kinds.map(|kind| Storable::All.includes(kind)), [true; 3]);
    }

    #[test]
    fn a_look_knows_the_one_before() {
        let free = Arc::new(AtomicU64::new(1000));
        let disk = FreeDisk::new({
            let free = Arc::clone(&free);
            move || Some(free.load(Ordering::Relaxed))
        });
        let floor = DiskFloor::new(disk, Some(800));
        assert_eq!(floor.short(), None);
        free.store(700, Ordering::Relaxed);
        assert_eq!(floor.short(), Some(DiskShort { free_bytes: 700, floor_bytes: 800 }));
        free.store(850, Ordering::Relaxed);
        assert_eq!(floor.storable(), Storable::Deletions);
        free.store(900, Ordering::Relaxed);
        assert_eq!((floor.storable(), floor.short()), (Storable::All, None));
        floor.set(Some(1000));
        assert_eq!(floor.short(), Some(DiskShort { free_bytes: 900, floor_bytes: 1000 }), "a floor that was raised");
        floor.set(None);
        assert_eq!((floor.storable(), floor.short()), (Storable::All, None));
        assert_eq!(DiskFloor::new(FreeDisk::default(), Some(800)).short(), None, "an unknown disk is never short");
    }
}
