//! Changes of blocks, addresses and transactions that one client watches, as Server-Sent Events
//! ([HTML, section 9.2](https://html.spec.whatwg.org/multipage/server-sent-events.html)).
//!
//! The last event of a change has the tip at which it was seen as its id, so that a client which is cut off within a
//! change gets all of it again. A client that comes back with its last id gets the blocks since then, and an event for
//! each of its addresses and transactions. If that block is no longer in the chain, the client gets a `reorg`, and asks
//! for everything anew.

use std::collections::HashMap;
use std::fmt::Write as _;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, Result, ScriptHash, Snapshot, Touched};
use bitcoin::{Network, Txid};
use serde_json::{Value, json};

use crate::limits::WATCHED;
use crate::wire::failure::Failure;
use crate::wire::params::{Params, script_of_address, script_of_hash};
use crate::wire::shapes::{StatsJson, StatusJson};

/// Blocks that a client missed and still gets; beyond that it gets a `reorg`.
const MISSED_MAX: u32 = 1000;
/// Time in milliseconds after which a client that lost the connection comes back.
const RETRY_MS: u32 = 3000;

/// The things that a client watches, and what it knows of them.
#[derive(Debug)]
pub(crate) struct Watch {
    has_blocks: bool,
    scripts: HashMap<ScriptHash, ScriptName>,
    transactions: HashMap<Txid, Place>,
    /// The tip that the client knows; at first the one of its last event id.
    tip: Option<BlockId>,
}

/// The name that a client has for a script.
#[derive(Debug)]
struct ScriptName {
    /// Its member in JSON: `address` or `scripthash`.
    kind: &'static str,
    text: String,
}

/// The place of a watched transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Mempool,
    Block(BlockId),
}

impl Watch {
    /// Reads what a client wants to watch: `blocks`, and `address`, `scripthash` and `tx` as often as needed.
    pub(crate) fn of(params: &Params, network: Network) -> Result<Self, Failure> {
        let mut scripts = HashMap::new();
        for address in params.query_values("address") {
            let script = script_of_address(&address, network)?;
            scripts.insert(script, ScriptName { kind: "address", text: address });
        }
        for hash in params.query_values("scripthash") {
            scripts.insert(script_of_hash(&hash)?, ScriptName { kind: "scripthash", text: hash });
        }
        let txids = params.query_values("tx").map(|txid| txid.parse::<Txid>());
        let txids = txids.collect::<Result<Vec<_>, _>>().map_err(|_| Failure::bad_request("Invalid hex string"))?;
        let transactions: HashMap<Txid, Place> = txids.into_iter().map(|txid| (txid, Place::Nowhere)).collect();
        if scripts.len() + transactions.len() > WATCHED {
            return Err(Failure::bad_request(format!("Exceeded maximum of {WATCHED} addresses and transactions")));
        }
        let has_blocks = params.query("blocks").is_some();
        if !has_blocks && scripts.is_empty() && transactions.is_empty() {
            return Err(Failure::bad_request("Nothing to watch: use ?blocks, ?address= or ?tx="));
        }
        // A client that cannot set a header names its last id in the query.
        let last_event = params.last_event.clone().or_else(|| params.query("lastEventId"));
        let tip = last_event.as_deref().and_then(parse_id);
        Ok(Self { has_blocks, scripts, transactions, tip })
    }

    /// The number of watched addresses and transactions.
    pub(crate) fn count(&self) -> usize {
        self.scripts.len() + self.transactions.len()
    }

    /// Returns the first events: the tip, or everything that a client missed that comes back. What left the mempool
    /// meanwhile leaves no trace, so such a client gets the state of all that it watches.
    ///
    /// # Errors
    /// A read has failed; nothing has changed then.
    pub(crate) fn begin(&mut self, at: &Snapshot) -> Result<String> {
        let mut events = Events::default();
        let is_back = self.tip.is_some();
        let addresses = if is_back { self.stats(at, &Touched::Any)? } else { Vec::new() };
        let places = self.transactions.keys().map(|txid| Ok((*txid, place_of(at, *txid)?)));
        self.transactions = places.collect::<Result<_>>()?;
        if self.tip.is_none_or(|known| known == at.tip()) {
            self.tip = Some(at.tip());
            events.add("tip", &block(at, at.tip().height));
        }
        if is_back {
            self.add_blocks(at, &mut events);
            for address in &addresses {
                events.add("address", address);
            }
            for (txid, place) in &self.transactions {
                events.add("tx", &transaction(at, *txid, *place));
            }
        }
        Ok(format!("retry: {RETRY_MS}\n\n{}", events.at(at.tip())))
    }

    /// True if a change may concern the client.
    pub(crate) fn concerns(&self, at: &Snapshot, touched: &Touched) -> bool {
        let is_touched = match touched {
            Touched::Any => true,
            // The smaller side is looked up in the other.
            Touched::Scripts(touched) if touched.len() < self.scripts.len() => {
                touched.iter().any(|script| self.scripts.contains_key(script))
            }
            Touched::Scripts(touched) => self.scripts.keys().any(|script| touched.binary_search(script).is_ok()),
        };
        let mempool = at.mempool();
        let has_moved = |(txid, place): (&Txid, &Place)| mempool.get(txid).is_some() != (*place == Place::Mempool);
        is_touched || self.tip != Some(at.tip()) || self.transactions.iter().any(has_moved)
    }

    /// Returns the events of a change.
    ///
    /// # Errors
    /// A read has failed; nothing has changed then.
    pub(crate) fn changed(&mut self, at: &Snapshot, touched: &Touched) -> Result<String> {
        let mut events = Events::default();
        let (addresses, moved) = (self.stats(at, touched)?, self.moved(at)?);
        self.add_blocks(at, &mut events);
        for address in &addresses {
            events.add("address", address);
        }
        for (txid, place) in moved {
            self.transactions.insert(txid, place);
            events.add("tx", &transaction(at, txid, place));
        }
        Ok(events.at(at.tip()))
    }

    /// Returns the figures of the scripts that a change has touched.
    fn stats(&self, at: &Snapshot, touched: &Touched) -> Result<Vec<Value>> {
        let is_touched = |script: &ScriptHash| match touched {
            Touched::Any => true,
            Touched::Scripts(touched) => touched.binary_search(script).is_ok(),
        };
        let scripts = self.scripts.iter().filter(|(script, _)| is_touched(script));
        scripts.map(|(script, name)| stats(at, script, name)).collect()
    }

    /// Returns the transactions that are in another place than the client knows.
    fn moved(&self, at: &Snapshot) -> Result<Vec<(Txid, Place)>> {
        let has_new_tip = self.tip != Some(at.tip());
        let mut moved = Vec::new();
        for (txid, known) in &self.transactions {
            let is_waiting = at.mempool().get(txid).is_some();
            if has_new_tip || is_waiting != (*known == Place::Mempool) {
                moved.extend(Some((*txid, place_of(at, *txid)?)).filter(|(_, place)| place != known));
            }
        }
        Ok(moved)
    }

    /// Adds the blocks since the tip that the client knows.
    fn add_blocks(&mut self, at: &Snapshot, events: &mut Events) {
        let Some(known) = self.tip.replace(at.tip()).filter(|known| *known != at.tip()) else { return };
        if !self.has_blocks {
            return;
        }
        let is_known = at.block_hash(known.height) == Some(known.hash);
        let first = if is_known && at.tip().height.0 - known.height.0 <= MISSED_MAX {
            known.height.0 + 1
        } else {
            events.add("reorg", &json!({ "stale": known.hash, "height": known.height.0 }));
            at.tip().height.0
        };
        for height in first..=at.tip().height.0 {
            events.add("block", &block(at, Height(height)));
        }
    }
}

/// The events of one change.
#[derive(Default)]
struct Events(String);

impl Events {
    fn add(&mut self, name: &str, data: &Value) {
        write!(self.0, "event: {name}\ndata: {data}\n\n").expect("writing to memory never fails");
    }

    /// Returns the text, with the tip as the id of the last event. It stands behind the data, so that a client which
    /// takes lines as they come does not know the id of an event that was cut off.
    fn at(mut self, tip: BlockId) -> String {
        if self.0.pop().is_some() {
            write!(self.0, "id: {}-{}\n\n", tip.height, tip.hash).expect("writing to memory never fails");
        }
        self.0
    }
}

fn parse_id(id: &str) -> Option<BlockId> {
    let (height, hash) = id.split_once('-')?;
    Some(BlockId { height: Height(height.parse().ok()?), hash: hash.parse().ok()? })
}

fn block(at: &Snapshot, height: Height) -> Value {
    json!({ "height": height.0, "id": at.block_hash(height), "timestamp": at.block_time(height) })
}

/// The JSON of `/address/:address` or `/scripthash/:hash`.
fn stats(at: &Snapshot, script: &ScriptHash, name: &ScriptName) -> Result<Value> {
    let chain: StatsJson = at.confirmed_stats(script)?.into();
    let mempool: StatsJson = at.unconfirmed_stats(script).into();
    Ok(json!({ name.kind: name.text, "chain_stats": chain, "mempool_stats": mempool }))
}

fn place_of(at: &Snapshot, txid: Txid) -> Result<Place> {
    if at.mempool().get(&txid).is_some() {
        return Ok(Place::Mempool);
    }
    Ok(at.transaction_block(txid)?.map_or(Place::Nowhere, Place::Block))
}

/// The status of a transaction, and whether anything still has it.
fn transaction(at: &Snapshot, txid: Txid, place: Place) -> Value {
    let block = if let Place::Block(block) = place { Some(block) } else { None };
    json!({ "txid": txid, "known": place != Place::Nowhere, "status": StatusJson::of(at, block) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_tip() {
        let hash = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        let id = parse_id(&format!("7-{hash}")).map(|id| (id.height.0, id.hash.to_string()));
        assert_eq!(id, Some((7, hash.to_owned())));
        for wrong in ["", "7", "7-", "-7", "x-0f", "7-0f"] {
            assert!(parse_id(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_is_watched_is_read_from_the_query() {
        let watch = |query: &str| Watch::of(&Params { query: query.into(), ..Params::default() }, Network::Regtest);
        let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
        let both = watch(&format!("blocks&address={address}&tx={}", "ab".repeat(32)));
        let both = both.map(|watch| (watch.has_blocks, watch.scripts.len(), watch.transactions.len()));
        assert_eq!(both.ok(), Some((true, 1, 1)));
        for wrong in ["", "address=x", "tx=00", "scripthash=00"] {
            assert!(watch(wrong).is_err(), "{wrong}");
        }
    }
}
