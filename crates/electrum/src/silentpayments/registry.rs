//! The scan keys of all connections, and the bounds of all subscriptions.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use birdhouse_clients::{Held, Quota, UsedUp};
use birdhouse_net::Meter;
use birdhouse_silentpayments::{Engine, ScanKey};
use bitcoin::hashes::{Hash as _, HashEngine as _, sha256};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::piece::SlicePace;
use super::shared_key::SharedKey;
use crate::limits::{Limits, SILENT_PIECES_MAX, ServerLimits};
use crate::request::SilentKeys;

/// Numbers of what the server holds for a client ([`Meter::held`]): subscriptions to silent payments, and histories of
/// these that are not scanned yet.
const SUBSCRIPTIONS: usize = 0;
const SCANS: usize = 1;

/// State of the server for silent payments.
pub(crate) struct SilentRegistry {
    /// Made for the first subscription: its self-test takes some milliseconds.
    engine: OnceLock<Engine>,
    /// Keys in use, by the hash of keys and labels.
    keys: Mutex<HashMap<sha256::Hash, Weak<SharedKey>>>,
    pub(crate) pace: SlicePace,
    /// One permit for each history whose blocks are in memory.
    pieces: Semaphore,
    subscriptions: Bounded,
    scans: Bounded,
}

/// A quota of all clients, and its size.
struct Bounded {
    quota: Quota,
    most: usize,
}

/// The quotas of one client, over all of its connections.
pub(crate) struct ClientQuotas {
    subscriptions: Quota,
    scans: Quota,
}

/// Permits of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// While it lasts.
    pub(crate) subscription: Option<Held>,
    /// Until its history is scanned.
    pub(crate) scan: Option<Held>,
}

impl SilentRegistry {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self {
            engine: OnceLock::new(),
            keys: Mutex::default(),
            pace: SlicePace::default(),
            pieces: Semaphore::new(SILENT_PIECES_MAX),
            subscriptions: Bounded::new(limits.silent_subscriptions),
            scans: Bounded::new(limits.silent_scans),
        }
    }

    /// Returns the engine. The first call takes some milliseconds.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.get_or_init(Engine::new)
    }

    /// Waits until a history may read its next blocks into memory, while the permit lasts.
    pub(crate) async fn piece(&self) -> SemaphorePermit<'_> {
        self.pieces.acquire().await.expect("the semaphore is never closed")
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
    pub(crate) fn permits(&self, client: &ClientQuotas, held: &Permits) -> Result<Permits, String> {
        let take = |held: &Option<Held>, all: &Bounded, client, noun| match held {
            Some(_) => Ok(None),
            None => all.take(client, noun).map(Some),
        };
        let (subscription, scan) = (&held.subscription, &held.scan);
        Ok(Permits {
            subscription: take(
                subscription,
                &self.subscriptions,
                &client.subscriptions,
                "subscriptions to silent payments",
            )?,
            scan: take(scan, &self.scans, &client.scans, "scans for silent payments")?,
        })
    }

    /// Returns the number of subscriptions.
    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions.quota.held()
    }

    /// Returns the number of subscriptions whose history is being scanned, or waits for it.
    pub(crate) fn scans(&self) -> usize {
        self.scans.quota.held()
    }
}

impl Bounded {
    fn new(most: usize) -> Self {
        Self { quota: Quota::new(most), most }
    }

    fn take(&self, client: &Quota, noun: &str) -> Result<Held, String> {
        Held::of(client, &self.quota, 1).map_err(|used_up| match used_up {
            UsedUp::OfClient => format!("the number of {noun} exceeds the cap of one client"),
            UsedUp::OfAll => format!("the number of {noun} exceeds the server's cap of {}", self.most),
        })
    }
}

impl ClientQuotas {
    /// Returns the quotas of the client of a connection, within the limits of its listener.
    pub(crate) fn of(meter: &Meter, limits: &Limits) -> Self {
        Self {
            subscriptions: meter.held(SUBSCRIPTIONS, limits.client_silent_subscriptions),
            scans: meter.held(SCANS, limits.client_silent_scans),
        }
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

    /// The quotas of a client without bounds of its own.
    fn client() -> ClientQuotas {
        ClientQuotas { subscriptions: Quota::new(usize::MAX), scans: Quota::new(usize::MAX) }
    }

    #[test]
    fn one_client_takes_its_part_of_the_permits_over_all_of_its_connections() {
        let limits = ServerLimits { silent_subscriptions: 9, silent_scans: 9, ..ServerLimits::default() };
        let registry = SilentRegistry::new(&limits);
        let one = ClientQuotas { subscriptions: Quota::new(2), scans: Quota::new(1) };
        let mut first = registry.permits(&one, &Permits::default()).unwrap();
        let error = registry.permits(&one, &Permits::default()).unwrap_err();
        assert_eq!(error, "the number of scans for silent payments exceeds the cap of one client");
        first.scan = None;
        let second = registry.permits(&one, &Permits::default()).unwrap();
        let error = registry.permits(&one, &Permits::default()).unwrap_err();
        assert_eq!(error, "the number of subscriptions to silent payments exceeds the cap of one client");
        let other = registry.permits(&client(), &Permits::default()).unwrap();
        assert_eq!((registry.subscriptions(), registry.scans()), (3, 2));
        drop((first, second, other));
        assert_eq!((one.subscriptions.held(), one.scans.held(), registry.subscriptions()), (0, 0, 0));
    }

    #[test]
    fn permits_are_given_up_to_the_bounds_and_come_back() {
        let (registry, client) = (registry(), client());
        let mut first = registry.permits(&client, &Permits::default()).unwrap();
        assert_eq!((registry.subscriptions(), registry.scans()), (1, 1));
        let error = registry.permits(&client, &Permits::default()).unwrap_err();
        assert_eq!(error, "the number of scans for silent payments exceeds the server's cap of 1");
        assert_eq!((registry.subscriptions(), registry.scans()), (1, 1));
        let more = registry.permits(&client, &first).unwrap();
        assert!(more.subscription.is_none() && more.scan.is_none());
        first.scan = None;
        let second = registry.permits(&client, &Permits::default()).unwrap();
        drop(second.scan);
        let error = registry.permits(&client, &Permits::default()).unwrap_err();
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
