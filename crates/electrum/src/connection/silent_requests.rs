//! Admission of `blockchain.silentpayments.*`: who may subscribe, from which block, and within which bounds.

use std::time::Instant;

use birdhouse_chain::{Height, Snapshot, Tweaks};
use birdhouse_silentpayments::{Address, AddressNetwork, KeyError, ScanKey};

use crate::client::{Client, ConnectionState};
use crate::error::RpcError;
use crate::protocol::{Answer, Topic};
use crate::request::{SilentKeys, SilentRequest, SilentStart, SilentSubscribe};
use crate::service::Service;
use crate::silentpayments::{Access, ClientQuotas, Cursor, Entry, Extent, Permits, object};

/// Seconds by which the time of a block may be ahead of its making.
const TIME_AHEAD: u32 = 7_200;

/// The party that answers requests for silent payments.
pub(super) trait SilentPayments {
    /// Returns true if the methods exist for this client.
    fn is_known(&self) -> bool;

    /// Admits a request.
    fn admit(&self, state: &mut ConnectionState, request: SilentRequest) -> Result<Admitted, RpcError>;
}

/// The server as one client sees it.
#[derive(Clone, Copy)]
pub(super) struct Silent<'a> {
    service: &'a Service,
    client: &'a Client,
}

/// The answer to a request, and what it settles.
pub(super) struct Admitted {
    pub(super) answer: Answer,
    pub(super) topic: Option<Topic>,
}

impl SilentPayments for Silent<'_> {
    fn is_known(&self) -> bool {
        self.client.access() != Access::Off && self.tweaks().is_some()
    }

    fn admit(&self, state: &mut ConnectionState, request: SilentRequest) -> Result<Admitted, RpcError> {
        match request {
            SilentRequest::SilentSubscribe(subscribe) => self.subscribe(state, &subscribe),
            SilentRequest::SilentUnsubscribe(keys) => {
                let address = self.address(&scan_key(&keys, &[])?);
                state.silent.leave(&address);
                Ok(Admitted { answer: Answer::Text(address), topic: None })
            }
        }
    }
}

impl<'a> Silent<'a> {
    pub(super) fn new(service: &'a Service, client: &'a Client) -> Self {
        Self { service, client }
    }

    fn tweaks(self) -> Option<Tweaks> {
        Tweaks::among(self.service.index.derived())
    }

    fn subscribe(self, state: &mut ConnectionState, subscribe: &SilentSubscribe) -> Result<Admitted, RpcError> {
        let SilentSubscribe { keys, start, labels } = subscribe;
        if self.client.access() != Access::Open {
            let message = "a scan key is not accepted unencrypted over a public network; connect by TLS or onion";
            return Err(RpcError::invalid_params(message));
        }
        let at = self.service.snapshot(self.client)?;
        self.check_index(&at)?;
        let key = scan_key(keys, labels)?;
        let address = self.address(&key);
        let most = self.client.limits().silent_subscriptions;
        if !state.silent.contains(&address) && state.silent.len() >= most {
            let message = format!("subscription limit reached ({most}) for this connection");
            return Err(RpcError::invalid_params(message));
        }
        let extent = extent(&at, *start)?.joined(state.silent.extent(&address));
        let (none, registry) = (Permits::default(), &self.service.silent);
        let quotas = ClientQuotas::of(&self.client.meter, self.client.limits());
        let permits = registry.permits(&quotas, state.silent.permits(&address).unwrap_or(&none));
        let permits = permits.map_err(RpcError::invalid_params)?;
        let object = object(&address, labels, extent.start);
        let answer = Answer::Silent(object.clone());
        let entry = Entry {
            address,
            object,
            extent,
            first_live: Cursor::at(at.tip().height.0 + 1, |height| at.block_hash(Height(height))),
            key: registry.share(keys, labels, key),
            permits,
        };
        let id = state.silent.enter(entry, Instant::now());
        Ok(Admitted { answer, topic: Some(Topic::Silent(id)) })
    }

    /// Refuses while the index of silent payments does not cover the chain: a short history would look whole.
    fn check_index(self, at: &Snapshot) -> Result<(), RpcError> {
        let (tweaks, tip) = (self.tweaks().ok_or_else(RpcError::internal)?, at.tip().height.0);
        let covered = tweaks.len(at);
        if covered > tip {
            return Ok(());
        }
        Err(RpcError::silent_index(covered.saturating_sub(1), tip))
    }

    /// Returns the address of a key, as wallets write it: they find their subscription by this text.
    fn address(self, key: &ScanKey) -> String {
        Address::of(key, AddressNetwork::of(self.service.network())).to_string()
    }
}

/// Resolves the beginning of a history.
fn extent(at: &Snapshot, start: SilentStart) -> Result<Extent, RpcError> {
    let tip = at.tip().height.0;
    match start {
        SilentStart::Height(start) => Ok(Extent { start, end: None }),
        SilentStart::Time(time) => Ok(Extent { start: first_at(at, time), end: None }),
        SilentStart::Range { to, .. } if to > tip => {
            Err(RpcError::invalid_params(format!("start range 'to' ({to}) exceeds tip ({tip})")))
        }
        SilentStart::Range { from, to } => Ok(Extent { start: from, end: Some(to + 1) }),
    }
}

/// Returns a height below which no block was made at this time or later; the tip if none was.
fn first_at(at: &Snapshot, time: u32) -> u32 {
    // The median time of blocks never falls, and is that of the past.
    let is_before =
        |height: u32| at.median_time(Height(height)).is_some_and(|median| median < time.saturating_sub(TIME_AHEAD));
    let (mut low, mut high) = (0, at.tip().height.0);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

fn scan_key(keys: &SilentKeys, labels: &[u32]) -> Result<ScanKey, RpcError> {
    let invalid = |error: KeyError| RpcError::invalid_params(format!("invalid scan/spend key: {error}"));
    ScanKey::new(&keys.scan, &keys.spend, labels).map_err(invalid)
}
