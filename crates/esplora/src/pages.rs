//! Pages beside the API: an explorer is a list of routes, served on the same connections and under the same limits.

use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use axum::http::HeaderName;
use birdhouse_chain::source::NodeError;
use birdhouse_chain::{Height, MempoolTransaction, NodeValue, Tweaks, Waiting};
use bitcoin::{Amount, BlockHash, Network, Txid, consensus};
use serde::Deserialize;

use crate::clock;
use crate::endpoints::Route;
use crate::fees::family::Cluster;
use crate::fees::{BlockFees, Estimate, Projection, RateStep, Rates, Retarget, Rule, quotient};
use crate::history::{Record, Span};
use crate::service::{Service, StaleBlock};
use crate::wire::{Failure, Refusal};
use crate::work::Question;

/// Pages that are served at the root, with the API under `/api`.
#[derive(Debug)]
pub struct Pages {
    /// The pages by path.
    pub routes: &'static [&'static [Route]],
    /// Headers of every page.
    pub headers: &'static [(HeaderName, &'static str)],
    /// Makes the page of a request without an answer.
    pub refusal: fn(&Refusal) -> String,
    /// Makes the links of a page, which begin at the root, relative, and adds what all pages have.
    pub finish: fn(&str, &Surroundings) -> String,
}

/// Surroundings of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The way from the path of the request to the root: `./`, `../`, `../../`.
    pub way_up: String,
    /// The reason why the tip of the index is not the newest, [`birdhouse_chain::Index::waiting`].
    pub waiting: Option<Waiting>,
}

impl Surroundings {
    /// Returns the surroundings of an answer to a request of this path.
    pub(crate) fn of(service: &Service, path: &str) -> Self {
        let way_up = match path.matches('/').count() {
            ..=1 => "./".to_owned(),
            slashes => "../".repeat(slashes - 1),
        };
        Self { way_up, waiting: service.index.waiting() }
    }

    /// Returns a path from the root as one that leads there from the request's.
    pub(crate) fn relative(&self, path: &str) -> String {
        format!("{}{}", self.way_up, path.trim_start_matches('/'))
    }
}

/// The node's judgement of a transaction that is not broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    /// Core's reason for a refusal; `None` if the node would take it.
    pub reason: Option<String>,
    /// Its fee in satoshis, as far as the node has computed it.
    pub fee: Option<u64>,
}

/// An item of Core's answer to `testmempoolaccept`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct TestedJson {
    allowed: bool,
    reject_reason: Option<String>,
    reject_details: Option<String>,
    fees: Option<FeesJson>,
}

#[derive(Deserialize)]
struct FeesJson {
    /// In bitcoin.
    base: f64,
}

impl From<TestedJson> for Tested {
    fn from(json: TestedJson) -> Self {
        let reason = json.reject_details.or(json.reject_reason);
        Self {
            reason: (!json.allowed).then(|| reason.unwrap_or_else(|| "no reason given".into())),
            fee: json.fees.and_then(|fees| Amount::from_btc(fees.base).ok()).map(Amount::to_sat),
        }
    }
}

/// Parts of answers that pages share with the API.
impl Question<'_> {
    /// The network, which decides the form of addresses.
    pub fn network(&self) -> Network {
        self.service.settings.network
    }

    /// The reason why the tip of the index is not the newest.
    pub fn waiting(&self) -> Option<Waiting> {
        self.service.index.waiting()
    }

    /// Tweaks of silent payments; `None` if the server keeps none.
    pub fn tweaks(&self) -> Option<&Tweaks> {
        self.service.settings.tweaks.as_ref()
    }

    /// True if the server has a node.
    pub fn has_node(&self) -> bool {
        self.service.node().is_ok()
    }

    /// The last block with a transaction that left the chain by a reorg, as far as this process remembers.
    pub fn stale_block_with(&self, txid: &Txid) -> Option<StaleBlock> {
        self.service.stale_blocks.with_transaction(txid).filter(|stale| self.is_stale(stale))
    }

    /// A block that left the chain by a reorg, as far as this process remembers.
    pub fn stale_block(&self, hash: &BlockHash) -> Option<StaleBlock> {
        self.service.stale_blocks.get(hash).filter(|stale| self.is_stale(stale))
    }

    /// A block that left the chain may come back.
    fn is_stale(&self, stale: &StaleBlock) -> bool {
        self.at.block_hash(stale.block.height) != Some(stale.block.hash)
    }

    /// The blocks that miners would make now.
    pub fn projection(&self) -> Arc<Projection> {
        self.service.projections.of(self.at)
    }

    /// Fee rates by urgency, with the age of the lowest one, which is the node's.
    ///
    /// # Errors
    /// [`Failure::Unasked`], which an endpoint of [`Lane::Figures`] passes on, or the node is silent for long, or the
    /// server has none.
    ///
    /// [`Lane::Figures`]: crate::Lane::Figures
    pub fn rates(&self, step: RateStep) -> Result<NodeValue<Rates>, Failure> {
        let NodeValue { value, age } = self.service.fees.minimum(self.service.node()?, self.node_use)?;
        Ok(NodeValue { value: Rates::of(&self.projection().blocks, value, step), age })
    }

    /// Returns the estimate of the next change of the difficulty.
    ///
    /// # Errors
    /// The headers of the chain cannot be read.
    pub fn retarget(&self) -> Result<Estimate, Failure> {
        let rule = if self.network() == Network::Testnet { Rule::Testnet } else { Rule::Usual };
        let header = |height: u32| consensus::deserialize(&self.at.header(Height(height))?).ok();
        let retarget = Retarget::of_chain(self.at.tip().height.0, rule, header).ok_or_else(Failure::internal)?;
        Ok(retarget.at(clock::now()))
    }

    /// Returns the fee rate in sat/vB at which the node mines a transaction of the mempool.
    pub fn mined_rate(&self, found: &MempoolTransaction) -> f64 {
        let exact = Cluster::of(self.at.mempool(), found.txid).and_then(|cluster| cluster.rate(&found.txid));
        let projected = || self.projection().place(&found.txid).map(|place| place.rate);
        exact.or_else(projected).unwrap_or_else(|| quotient(found.fee, found.adjusted_vsize()))
    }

    /// Returns the mempool over a span of time, newest first; nothing where no history is kept. Reads the disk.
    ///
    /// # Errors
    /// The file of the history cannot be read.
    pub fn history(&self, span: Span) -> Result<Vec<Record>, Failure> {
        let Some(history) = &self.service.settings.history else { return Ok(Vec::new()) };
        let now = u32::try_from(clock::now()).unwrap_or(u32::MAX);
        history.read(span, now).map_err(|error| {
            tracing::warn!(%error, "failed to read the history of the mempool");
            Failure::internal()
        })
    }

    /// Fees of the transactions of a block; `None` beyond the tip, and where they are unknown.
    pub fn block_fees(&self, height: Height) -> Result<Option<Arc<BlockFees>>, Failure> {
        Ok(self.service.block_fees.of(self.at, height)?)
    }

    /// Broadcasts a transaction, which answers have from then on.
    ///
    /// # Errors
    /// The node refuses it or does not answer, or the server has none.
    pub fn broadcast(&self, hex: &str) -> Result<Result<Txid, NodeError>, Failure> {
        let node = self.node()?;
        let sent = node.broadcast(hex);
        if let Ok(txid) = sent
            && let Err(error) = self.service.index.admit(node, txid)
        {
            tracing::warn!(%error, "failed to add a transaction that the node has taken");
        }
        Ok(sent)
    }

    /// Asks the node if it would take a transaction, without broadcasting it.
    ///
    /// # Errors
    /// The node cannot read it or does not answer, or the server has none.
    pub fn test(&self, hex: &str) -> Result<Result<Tested, NodeError>, Failure> {
        let answer = self.node()?.test_mempool_accept(&[hex.to_owned()]);
        let [tested] = match answer {
            Ok(answer) => serde_json::from_str::<[TestedJson; 1]>(answer.get()).map_err(|_| Failure::internal())?,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(tested.into()))
    }

    /// A hash of a value with the key of this process: a client that sends both back has them from this process.
    pub fn sign(&self, value: &impl Hash) -> u64 {
        self.service.link_key.hash_one(value)
    }
}
