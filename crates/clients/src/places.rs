//! Places for connections, shared among networks: who has to leave when all are taken.
//!
//! An address is cheap and a network is not, so places are counted by nested networks: /24 and /32 of IPv4; /32, /48,
//! /56 and /64 of IPv6. When all places are taken, the largest of the widest networks gives one, out of the largest
//! network in it, and so on; there, the connection that has been silent for longest leaves. Connections that nobody
//! names, behind a proxy, by Tor or from this machine, are one group, which counts as [`POOL_CLIENTS`] clients. In it
//! each Tor circuit is a group, and those without a circuit are one that counts as [`POOL_CLIENTS`] circuits. When a
//! network has as many as it may have, it gives a place in the same way.
//!
//! Pure: activity is a number that callers set.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client_key::{ClientKey, ClientKeying, Origin, POOL_CLIENTS};

/// Bits of the nested networks, widest first.
const IPV4_BITS: [u8; 2] = [24, 32];
const IPV6_BITS: [u8; 4] = [32, 48, 56, 64];
/// Networks of this many bits have the bound on connections of a network; wider ones have [`WIDE_FACTOR`] times that.
const NETWORK_BITS: (u8, u8) = (24, 48);
const WIDE_FACTOR: usize = 4;

/// Bounds on the connections of addresses and networks.
#[derive(Debug, Clone, Copy)]
pub struct PlaceBounds {
    /// Connections of an address (IPv6: a /64) that are not complete yet.
    pub half_open: usize,
    /// Connections of an IPv4 /24 or an IPv6 /48. An IPv6 /32 has four times as many.
    pub network: usize,
}

impl PlaceBounds {
    /// Returns bounds on the connections of networks, for servers whose connections count for their client from the
    /// first byte on. `None` is no bound.
    pub fn of_networks(network: Option<usize>) -> Self {
        Self { half_open: usize::MAX, network: network.unwrap_or(usize::MAX) }
    }
}

/// The address of a new connection has too many that are not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyHalfOpen;

/// Connections by network.
#[derive(Debug)]
pub struct Places {
    bounds: PlaceBounds,
    all: Branch,
    by_id: HashMap<u64, Place>,
    half_open: HashMap<Network, usize>,
}

/// One connection.
#[derive(Debug)]
struct Place {
    /// Its networks are made of it when they are needed.
    origin: Origin,
    is_half_open: bool,
    /// Set by its owner: the higher, the later it was active.
    active: Arc<AtomicU64>,
}

/// A network; `None` is the group of connections that nobody names, and `Pool` that of those in it without a circuit.
type Network = Option<ClientKey>;

/// The connections of one network.
#[derive(Debug, Default)]
struct Branch {
    count: usize,
    inner: HashMap<Network, Branch>,
    /// The inner groups by size.
    sizes: BTreeSet<(usize, Key)>,
    /// Connections, in a group without inner ones.
    members: BTreeSet<u64>,
}

/// A network as an ordered key.
type Key = (bool, u128, u8);

/// In place of a network's bits, for a Tor circuit.
const CIRCUIT: u8 = u8::MAX;

// === impl Places ===

impl Places {
    /// Returns places of which none is taken.
    pub fn new(bounds: PlaceBounds) -> Self {
        Self { bounds, all: Branch::default(), by_id: HashMap::new(), half_open: HashMap::new() }
    }

    /// Adds a connection that is not complete. Returns one that must leave for it, if its network has as many as it may
    /// have. An [`Origin::Unnamed`] has no bound of its own.
    ///
    /// # Errors
    /// Its address has too many that are not complete.
    pub fn enter(&mut self, id: u64, origin: Origin, active: Arc<AtomicU64>) -> Result<Option<u64>, TooManyHalfOpen> {
        let path = path(origin);
        let address = *path.last().expect("a path has a network");
        if address != Some(ClientKey::Pool)
            && self.half_open.get(&address).is_some_and(|count| *count >= self.bounds.half_open)
        {
            return Err(TooManyHalfOpen);
        }
        let leaving = self.leaving(&path);
        self.all.add(&path, id);
        *self.half_open.entry(address).or_default() += 1;
        self.by_id.insert(id, Place { origin, is_half_open: true, active });
        Ok(leaving)
    }

    /// Notes that a connection is complete, and by whom. It moves to the networks of its origin. Returns a connection
    /// that must leave for it, if one of these has as many as it may have.
    pub fn complete(&mut self, id: u64, origin: Origin) -> Option<u64> {
        let mut place = self.by_id.remove(&id)?;
        self.forget(id, &place);
        let (path, before) = (path(origin), path(place.origin));
        // Its own networks have it already.
        let leaving = if path == before { None } else { self.leaving(&path) };
        (place.origin, place.is_half_open) = (origin, false);
        self.all.add(&path, id);
        self.by_id.insert(id, place);
        leaving
    }

    /// Removes a connection.
    pub fn leave(&mut self, id: u64) {
        if let Some(place) = self.by_id.remove(&id) {
            self.forget(id, &place);
        }
    }

    /// Returns the connection that leaves when there is no place: the one of the largest group that has been silent for
    /// longest.
    pub fn idlest(&self) -> Option<u64> {
        self.idlest_of(&self.all)
    }

    fn idlest_of(&self, branch: &Branch) -> Option<u64> {
        let mut found = Vec::new();
        branch.largest(&mut found);
        let active = |id: &u64| self.by_id.get(id).map_or(0, |place| place.active.load(Ordering::Relaxed));
        found.into_iter().min_by_key(|id| (active(id), *id))
    }

    /// Returns the number of connections that are not complete.
    pub fn half_open(&self) -> usize {
        self.half_open.values().sum()
    }

    /// Returns the idlest connection of the narrowest network of a path that has as many as it may have.
    fn leaving(&self, path: &[Network]) -> Option<u64> {
        let (mut branch, mut full) = (&self.all, None);
        for network in path {
            let Some(inner) = branch.inner.get(network) else { break };
            if inner.count >= self.most(*network) {
                full = Some(inner);
            }
            branch = inner;
        }
        full.and_then(|branch| self.idlest_of(branch))
    }

    /// Returns the bound of a network. Narrower ones are bounded as clients are.
    fn most(&self, network: Network) -> usize {
        let Some(ClientKey::Network(address, bits)) = network else { return usize::MAX };
        let usual = if address.is_ipv4() { NETWORK_BITS.0 } else { NETWORK_BITS.1 };
        match bits {
            bits if bits < usual => self.bounds.network.saturating_mul(WIDE_FACTOR),
            bits if bits == usual => self.bounds.network,
            _ => usize::MAX,
        }
    }

    fn forget(&mut self, id: u64, place: &Place) {
        let path = path(place.origin);
        self.all.remove(&path, id);
        if place.is_half_open {
            let address = *path.last().expect("a path has a network");
            let left = self.half_open.get_mut(&address).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                self.half_open.remove(&address);
            }
        }
    }
}

/// Returns the networks of an origin, widest first.
fn path(origin: Origin) -> Vec<Network> {
    let Origin::Client(address) = origin else { return vec![None, Some(ClientKey::Pool)] };
    if let circuit @ ClientKey::Circuit(_) = ClientKeying::default().key(origin) {
        // Circuits are not addresses: all of them are in one /64.
        return vec![None, Some(circuit)];
    }
    let bits: &[u8] = if address.is_ipv4() { &IPV4_BITS } else { &IPV6_BITS };
    bits.iter().map(|bits| Some(ClientKey::network(address, *bits, *bits))).collect()
}

// === impl Branch ===

impl Branch {
    fn add(&mut self, path: &[Network], id: u64) {
        self.count += 1;
        match path.split_first() {
            None => drop(self.members.insert(id)),
            Some((network, rest)) => self.change(*network, |inner| inner.add(rest, id)),
        }
    }

    fn remove(&mut self, path: &[Network], id: u64) {
        self.count -= 1;
        match path.split_first() {
            None => drop(self.members.remove(&id)),
            Some((network, rest)) => self.change(*network, |inner| inner.remove(rest, id)),
        }
    }

    fn change(&mut self, network: Network, change: impl FnOnce(&mut Self)) {
        let inner = self.inner.entry(network).or_default();
        let before = inner.count;
        change(inner);
        let after = inner.count;
        self.sizes.remove(&(size(network, before), key(network)));
        if after == 0 {
            self.inner.remove(&network);
        } else {
            self.sizes.insert((size(network, after), key(network)));
        }
    }

    /// Collects the connections of the largest inner groups.
    fn largest(&self, found: &mut Vec<u64>) {
        found.extend(&self.members);
        let Some((most, _)) = self.sizes.last() else { return };
        for (_, key) in self.sizes.iter().rev().take_while(|(size, _)| size == most) {
            if let Some(inner) = self.inner.get(&network(*key)) {
                inner.largest(found);
            }
        }
    }
}

/// Returns the size by which groups are compared: connections, times the number of clients that the unnamed count as.
fn size(network: Network, count: usize) -> usize {
    let clients = if matches!(network, None | Some(ClientKey::Pool)) { 1 } else { POOL_CLIENTS as usize };
    count * clients
}

fn key(network: Network) -> Key {
    match network {
        Some(ClientKey::Network(IpAddr::V4(address), bits)) => (false, address.to_bits().into(), bits),
        Some(ClientKey::Network(IpAddr::V6(address), bits)) => (true, address.to_bits(), bits),
        Some(ClientKey::Circuit(circuit)) => (true, circuit.into(), CIRCUIT),
        Some(ClientKey::Pool) => (false, u128::MAX, 1),
        None => (false, u128::MAX, 0),
    }
}

fn network((is_ipv6, address, bits): Key) -> Network {
    if bits == CIRCUIT {
        return u64::try_from(address).ok().map(ClientKey::Circuit);
    }
    let address = match (is_ipv6, u32::try_from(address)) {
        (true, _) => IpAddr::V6(address.into()),
        (false, Ok(address)) => IpAddr::V4(address.into()),
        (false, Err(_)) => return (bits > 0).then_some(ClientKey::Pool),
    };
    Some(ClientKey::Network(address, bits))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "places_tests.rs"]
mod tests;
