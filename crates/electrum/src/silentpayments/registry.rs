//! The scan keys of all connections, and the bounds of all subscriptions.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use birdhouse_silentpayments::{Engine, ScanKey};
use bitcoin::hashes::{Hash as _, HashEngine as _, sha256};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::piece::SlicePace;
use super::shared_key::SharedKey;
use crate::limits::ServerLimits;
use crate::request::SilentKeys;

/// State of the server for silent payments.
pub(crate) struct SilentRegistry {
    /// Made for the first subscription: its self-test takes some milliseconds.
    engine: OnceLock<Engine>,
    /// Keys in use, by the hash of keys and labels.
    keys: Mutex<HashMap<sha256::Hash, Weak<SharedKey>>>,
    pub(crate) pace: SlicePace,
    subscriptions: Bounded,
    scans: Bounded,
}

/// Permits of one kind.
struct Bounded {
    permits: Arc<Semaphore>,
    most: usize,
}

/// Permits of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// While it lasts.
    pub(crate) subscription: Option<OwnedSemaphorePermit>,
    /// Until its history is scanned.
    pub(crate) scan: Option<OwnedSemaphorePermit>,
}

impl SilentRegistry {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self {
            engine: OnceLock::new(),
            keys: Mutex::default(),
            pace: SlicePace::default(),
            subscriptions: Bounded::new(limits.silent_subscriptions),
            scans: Bounded::new(limits.silent_scans),
        }
    }

    /// Returns the engine. The first call takes some milliseconds.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.get_or_init(Engine::new)
    }

    /// Returns the key as all subscriptions with these keys and labels share it.
    pub(crate) fn share(&self, keys: &SilentKeys, labels: &[u32], key: ScanKey) -> Arc<SharedKey> {
        let mut hash = sha256::Hash::engine();
        hash.input(&keys.scan[..]);
        hash.input(&keys.spend);
        for label in labels {
            hash.input(&label.to_be_bytes());
        }
        let hash = sha256::Hash::from_engine(hash);
        let mut shared = self.keys.lock();
        if let Some(known) = shared.get(&hash).and_then(Weak::upgrade) {
            return known;
        }
        // Those that nobody uses any more.
        shared.retain(|_, key| key.strong_count() > 0);
        let key = Arc::new(SharedKey::new(key));
        shared.insert(hash, Arc::downgrade(&key));
        key
    }

    /// Takes the permits that a subscription lacks which holds these.
    ///
    /// # Errors
    /// The bound that is reached, in words.
    pub(crate) fn permits(&self, held: &Permits) -> Result<Permits, String> {
        let take = |held: &Option<OwnedSemaphorePermit>, bounded: &Bounded, noun| match held {
            Some(_) => Ok(None),
            None => bounded.take(noun).map(Some),
        };
        Ok(Permits {
            subscription: take(&held.subscription, &self.subscriptions, "subscriptions to silent payments")?,
            scan: take(&held.scan, &self.scans, "scans for silent payments")?,
        })
    }

    /// Returns the number of subscriptions.
    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions.taken()
    }

    /// Returns the number of subscriptions whose history is being scanned, or waits for it.
    pub(crate) fn scans(&self) -> usize {
        self.scans.taken()
    }
}

impl Bounded {
    fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(most)), most }
    }

    fn take(&self, noun: &str) -> Result<OwnedSemaphorePermit, String> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map_err(|_| format!("the number of {noun} exceeds the server's cap of {}", self.most))
    }

    fn taken(&self) -> usize {
        self.most - self.permits.available_permits()
    }
}

impl Permits {
    /// Adds permits that were lacking.
    pub(super) fn add(&mut self, more: Self) {
        self.subscription = more.subscription.or(self.subscription.take());
        self.scan = more.scan.or(self.scan.take());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use zeroize::Zeroizing;

    use super::*;

    fn registry() -> SilentRegistry {
        SilentRegistry::new(&ServerLimits { silent_subscriptions: 2, silent_scans: 1, ..ServerLimits::default() })
    }

    #[test]
    fn permits_are_given_up_to_the_bounds_and_come_back() {
        let registry = registry();
        let mut first = registry.permits(&Permits::default()).unwrap();
        assert_eq!((registry.subscriptions(), registry.scans()), (1, 1));
        let error = registry.permits(&Permits::default()).unwrap_err();
        assert_eq!(error, "the number of scans for silent payments exceeds the server's cap of 1");
        assert_eq!((registry.subscriptions(), registry.scans()), (1, 1));
        let more = registry.permits(&first).unwrap();
        assert!(more.subscription.is_none() && more.scan.is_none());
        first.scan = None;
        let second = registry.permits(&Permits::default()).unwrap();
        drop(second.scan);
        let error = registry.permits(&Permits::default()).unwrap_err();
        assert_eq!(error, "the number of subscriptions to silent payments exceeds the server's cap of 2");
        drop((first, second.subscription));
        assert_eq!((registry.subscriptions(), registry.scans()), (0, 0));
    }

    #[test]
    fn a_key_is_shared_while_it_is_used_by_those_with_the_same_labels() {
        let registry = registry();
        // The generator stands for any spend key.
        let spend =
            const_hex::decode_to_array("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798").unwrap();
        let keys = SilentKeys { scan: Box::new(Zeroizing::new([3; 32])), spend };
        let share = |labels: &[u32]| registry.share(&keys, labels, ScanKey::new(&keys.scan, &spend, labels).unwrap());
        let (first, second, other) = (share(&[0]), share(&[0]), share(&[0, 5]));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        drop((first, second, other));
        let _again = share(&[0]);
        assert_eq!(registry.keys.lock().len(), 1);
    }
}
