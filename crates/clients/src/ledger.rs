//! Accounts of the resources that each client has used and holds.
//!
//! Fair queueing makes a busy client wait for itself; the ledger refuses a client far beyond that point. Use is counted
//! in time: of processors and of the node as it passes, and a little for every byte. An account is a leaky bucket: it
//! drains at a steady rate, and a client whose bucket is full is refused until there is room. Time is an argument.
//!
//! Invariant: an account lasts as long as one of its connections, and then until it is empty or until more than
//! [`ACCOUNTS_KEPT`] accounts exist.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::client_key::ClientKey;

/// Number of accounts above which those without a connection and with the lowest levels are dropped.
pub const ACCOUNTS_KEPT: usize = 100_000;
/// Counters of what a protocol holds for a client.
pub const HOLDINGS: usize = 2;
/// The cost of a byte sent or received: a client that moves 25 MB/s uses half a processor.
const BYTE_COST_NS: u64 = 20;

/// The resources that one client may use in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The time of work that may be used at once.
    pub work: Duration,
    /// Percent of one processor that may be used permanently.
    pub percent: u32,
}

impl Allowance {
    /// Returns true if nothing needs to be counted.
    fn is_unlimited(self) -> bool {
        self.work == Duration::MAX
    }
}

/// A client has used more than its allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdrawn {
    /// The time after which the client may ask again.
    pub wait: Duration,
}

/// The accounts of all clients.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Mutex<HashMap<ClientKey, Arc<Account>>>,
    /// Number of subscriptions of all connections.
    subscriptions: Arc<AtomicUsize>,
}

/// The resources that a client uses and holds, over all of its connections.
#[doc(alias("leaky bucket", "token bucket"))]
#[derive(Debug)]
pub struct Account {
    key: ClientKey,
    connections: AtomicUsize,
    subscriptions: AtomicUsize,
    /// Bytes of replies that the client has not read.
    unsent: Arc<AtomicUsize>,
    /// Counters of what a protocol holds for the client, by numbers of the protocol's own.
    held: [Arc<AtomicUsize>; HOLDINGS],
    /// The sum over all accounts.
    all_subscriptions: Arc<AtomicUsize>,
    bucket: Mutex<LeakyBucket>,
}

/// The leaky bucket: its level at a time.
#[derive(Debug, Clone, Copy)]
struct LeakyBucket {
    level: Duration,
    at: Instant,
}

// === impl Ledger ===

impl Ledger {
    /// Counts one more connection of a client; returns `None` when it has `connections_max` already.
    pub fn enter(&self, key: ClientKey, connections_max: usize, now: Instant) -> Option<Arc<Account>> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(key).or_insert_with(|| Arc::new(self.account(key, now)));
        if account.connections.load(Ordering::Relaxed) >= connections_max {
            return None;
        }
        account.connections.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(account))
    }

    /// Charges a client that has no connection yet, as long as it may ask for more.
    ///
    /// # Errors
    /// [`Overdrawn`] with the time to wait; nothing is charged.
    pub fn charge(&self, key: ClientKey, work: Duration, allowance: Allowance, now: Instant) -> Result<(), Overdrawn> {
        if allowance.is_unlimited() {
            return Ok(());
        }
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(key).or_insert_with(|| Arc::new(self.account(key, now)));
        account.check(allowance, now)?;
        account.spend(work, 0, allowance, now);
        if accounts.len() > ACCOUNTS_KEPT {
            drop_lowest(&mut accounts, allowance, now);
        }
        Ok(())
    }

    /// Counts the end of a connection.
    pub fn leave(&self, account: &Account, allowance: Allowance, now: Instant) {
        let mut accounts = self.accounts.lock();
        let before = account.connections.fetch_sub(1, Ordering::Relaxed);
        if before == 1 && account.level(allowance, now).is_zero() {
            accounts.remove(&account.key);
        }
        if accounts.len() > ACCOUNTS_KEPT {
            drop_lowest(&mut accounts, allowance, now);
        }
    }

    /// Returns the number of subscriptions of all connections.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.load(Ordering::Relaxed)
    }

    /// Returns the number of accounts.
    pub fn len(&self) -> usize {
        self.accounts.lock().len()
    }

    /// Returns `true` when there is no account.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn account(&self, key: ClientKey, now: Instant) -> Account {
        Account {
            key,
            connections: AtomicUsize::new(0),
            subscriptions: AtomicUsize::new(0),
            unsent: Arc::default(),
            held: Default::default(),
            all_subscriptions: Arc::clone(&self.subscriptions),
            bucket: Mutex::new(LeakyBucket { level: Duration::ZERO, at: now }),
        }
    }
}

/// Drops half of the accounts without a connection: those with the lowest levels.
fn drop_lowest(accounts: &mut HashMap<ClientKey, Arc<Account>>, allowance: Allowance, now: Instant) {
    let is_away = |account: &Account| account.connections.load(Ordering::Relaxed) == 0;
    let mut levels: Vec<Duration> =
        accounts.values().filter(|account| is_away(account)).map(|account| account.level(allowance, now)).collect();
    if levels.is_empty() {
        return;
    }
    let middle = levels.len() / 2;
    let (_, median, _) = levels.select_nth_unstable(middle);
    let median = *median;
    accounts.retain(|_, account| !is_away(account) || account.level(allowance, now) > median);
}

// === impl Account ===

impl Account {
    /// Returns the client of the account.
    pub fn key(&self) -> ClientKey {
        self.key
    }

    /// Returns the counter of reply bytes that the client has not read. The owner of the buffers updates it.
    pub fn unsent(&self) -> &Arc<AtomicUsize> {
        &self.unsent
    }

    /// Returns a counter of what a protocol holds for the client; there are [`HOLDINGS`]. The protocol updates it, and
    /// has a name for its number.
    pub fn held(&self, number: usize) -> &Arc<AtomicUsize> {
        &self.held[number]
    }

    /// Charges time worked and bytes moved.
    pub fn spend(&self, work: Duration, bytes: u64, allowance: Allowance, now: Instant) {
        if allowance.is_unlimited() {
            return;
        }
        let cost = work + Duration::from_nanos(bytes.saturating_mul(BYTE_COST_NS));
        self.bucket.lock().add(cost, allowance, now);
    }

    /// Checks that the client may ask for more.
    ///
    /// # Errors
    /// [`Overdrawn`] with the time to wait.
    pub fn check(&self, allowance: Allowance, now: Instant) -> Result<(), Overdrawn> {
        if allowance.is_unlimited() {
            return Ok(());
        }
        self.bucket.lock().check(allowance, now)
    }

    /// Changes the number of subscriptions of one connection from `before` to `now`.
    pub fn replace_subscriptions(&self, before: usize, now: usize) {
        for count in [&self.subscriptions, &*self.all_subscriptions] {
            // A decrease wraps around twice.
            count.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Returns the number of subscriptions that the client may add.
    pub fn subscriptions_left(&self, client_max: usize, all_max: usize) -> usize {
        let left = |count: &AtomicUsize, max: usize| max.saturating_sub(count.load(Ordering::Relaxed));
        left(&self.subscriptions, client_max).min(left(&self.all_subscriptions, all_max))
    }

    /// Returns the level of the bucket: work that has not drained yet.
    pub fn level(&self, allowance: Allowance, now: Instant) -> Duration {
        self.bucket.lock().level(allowance, now)
    }
}

// === impl LeakyBucket ===

impl LeakyBucket {
    fn level(&self, allowance: Allowance, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at);
        self.level.saturating_sub(passed.saturating_mul(allowance.percent) / 100)
    }

    fn add(&mut self, cost: Duration, allowance: Allowance, now: Instant) {
        self.level = self.level(allowance, now).saturating_add(cost);
        self.at = self.at.max(now);
    }

    fn check(&self, allowance: Allowance, now: Instant) -> Result<(), Overdrawn> {
        let beyond = self.level(allowance, now).saturating_sub(allowance.work);
        if beyond.is_zero() {
            return Ok(());
        }
        Err(Overdrawn { wait: beyond.saturating_mul(100) / allowance.percent.max(1) })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    const ALLOWANCE: Allowance = Allowance { work: Duration::from_secs(10), percent: 50 };

    fn key(number: u8) -> ClientKey {
        ClientKey::Network([203, 0, 113, number].into(), 32)
    }

    fn fresh(now: Instant) -> LeakyBucket {
        LeakyBucket { level: Duration::ZERO, at: now }
    }

    #[test]
    fn a_client_without_a_connection_is_charged_until_it_has_used_up_its_share() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let charge = |now| ledger.charge(key(1), Duration::from_secs(3), ALLOWANCE, now);
        for _ in 0..4 {
            charge(now).unwrap();
        }
        assert_eq!(charge(now), Err(Overdrawn { wait: Duration::from_secs(4) }));
        charge(now + Duration::from_secs(4)).unwrap();
        let account = ledger.enter(key(1), 1, now + Duration::from_secs(4)).unwrap();
        assert!(account.check(ALLOWANCE, now + Duration::from_secs(4)).is_err(), "it has one account");
    }

    proptest! {
        #[test]
        fn keeping_to_the_rate_is_never_refused(
            steps in proptest::collection::vec((0u64..10_000, 0u32..=50), 0..200),
        ) {
            let mut now = Instant::now();
            let mut bucket = fresh(now);
            for (pause_ms, percent) in steps {
                let pause = Duration::from_millis(pause_ms);
                now += pause;
                bucket.add(pause * percent / 100, ALLOWANCE, now);
                prop_assert_eq!(bucket.check(ALLOWANCE, now), Ok(()));
            }
        }

        #[test]
        fn level_is_between_use_and_use_less_drain(
            steps in proptest::collection::vec((0u64..10_000, 0u64..10_000), 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut bucket = fresh(now);
            let mut used = Duration::ZERO;
            for (pause_ms, cost_ms) in steps {
                now += Duration::from_millis(pause_ms);
                bucket.add(Duration::from_millis(cost_ms), ALLOWANCE, now);
                used += Duration::from_millis(cost_ms);
                let level = bucket.level(ALLOWANCE, now);
                prop_assert!(level <= used);
                prop_assert!(level >= used.saturating_sub((now - start) / 2));
            }
        }

        #[test]
        fn refused_client_may_ask_after_the_returned_time_and_not_before(cost_ms in 10_001u64..1_000_000) {
            let now = Instant::now();
            let mut bucket = fresh(now);
            bucket.add(Duration::from_millis(cost_ms), ALLOWANCE, now);
            let Overdrawn { wait } = bucket.check(ALLOWANCE, now).unwrap_err();
            prop_assert_eq!(bucket.check(ALLOWANCE, now + wait), Ok(()));
            let too_early = wait.saturating_sub(Duration::from_micros(10));
            prop_assert!(bucket.check(ALLOWANCE, now + too_early).is_err());
        }
    }

    #[test]
    fn a_client_owes_over_all_its_connections_and_after_the_last_of_them() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let first = ledger.enter(key(1), 2, now).unwrap();
        let second = ledger.enter(key(1), 2, now).unwrap();
        assert!(ledger.enter(key(1), 2, now).is_none());
        first.spend(Duration::from_secs(6), 0, ALLOWANCE, now);
        second.spend(Duration::from_secs(5), 0, ALLOWANCE, now);
        assert!(first.check(ALLOWANCE, now).is_err());
        ledger.leave(&first, ALLOWANCE, now);
        ledger.leave(&second, ALLOWANCE, now);
        let again = ledger.enter(key(1), 2, now).unwrap();
        assert!(again.check(ALLOWANCE, now).is_err());
        assert!(ledger.enter(key(2), 2, now).unwrap().check(ALLOWANCE, now).is_ok());
    }

    #[test]
    fn subscriptions_are_counted_by_client_and_in_all() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let one = ledger.enter(key(1), 1, now).unwrap();
        let other = ledger.enter(key(2), 1, now).unwrap();
        one.replace_subscriptions(0, 5);
        other.replace_subscriptions(0, 7);
        assert_eq!(one.subscriptions_left(6, 100), 1);
        assert_eq!(one.subscriptions_left(6, 12), 0);
        one.replace_subscriptions(5, 2);
        assert_eq!(ledger.subscriptions(), 9);
        assert_eq!(other.subscriptions_left(100, 12), 3);
    }

    #[test]
    fn bytes_count_too() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let account = ledger.enter(key(1), 1, now).unwrap();
        account.spend(Duration::ZERO, 501_000_000, ALLOWANCE, now);
        assert!(account.check(ALLOWANCE, now).is_err());
    }

    #[test]
    fn without_a_bound_nothing_is_owed_and_no_account_is_left() {
        const UNLIMITED: Allowance = Allowance { work: Duration::MAX, percent: 50 };
        let (ledger, now) = (Ledger::default(), Instant::now());
        let account = ledger.enter(ClientKey::Pool, 1, now).unwrap();
        account.spend(Duration::from_hours(1), 0, UNLIMITED, now);
        assert!(account.check(UNLIMITED, now).is_ok());
        ledger.leave(&account, UNLIMITED, now);
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn empty_account_is_dropped_with_its_last_connection() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let account = ledger.enter(key(1), 1, now).unwrap();
        account.spend(Duration::from_secs(1), 0, ALLOWANCE, now);
        ledger.leave(&account, ALLOWANCE, now + Duration::from_secs(3));
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn lowest_accounts_are_dropped_when_there_are_too_many() {
        let now = Instant::now();
        let ledger = Ledger::default();
        for number in 0..=u32::try_from(ACCOUNTS_KEPT).unwrap() {
            let account = ledger.enter(ClientKey::Circuit(number.into()), 1, now).unwrap();
            account.spend(Duration::from_millis(u64::from(number) + 1), 0, ALLOWANCE, now);
            ledger.leave(&account, ALLOWANCE, now);
        }
        assert!(ledger.len() <= ACCOUNTS_KEPT / 2 + 1);
        let most = ledger.enter(ClientKey::Circuit(ACCOUNTS_KEPT as u64), 1, now).unwrap();
        assert!(most.check(ALLOWANCE, now).is_err());
    }
}
