//! The setup of an attack: a node with a small chain, a server, and the requests of honest clients.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use birdhouse_regtest::mix::Size;

use super::exposed::Exposed;
use super::honest_clients::HonestClients;
use super::prey::Prey;
use super::rest_asked::RestAsked;
use crate::Options;
use crate::chains::live::LiveNode;
use crate::clients::client::scripthash;
use crate::error::Result;
use crate::faults::asked::{Asked, Scripts, about};

/// A chain in which one script has a history of 300 kB.
const CHAIN: Size = Size { blocks: 5, block_txs: 4, scripts_per_form: 20, busy: &[10, 3000] };
/// Honest clients ask about scripts with fewer transactions than this.
const ORDINARY_TXS: usize = 30;
const ORDINARY_SCRIPTS: usize = 100;

/// A node, a server and requests.
#[derive(Debug)]
pub struct Setup {
    /// The server.
    pub exposed: Exposed,
    /// Its node.
    pub live: LiveNode,
    /// The costliest things to ask about.
    pub prey: Prey,
    asked: Arc<Vec<Asked>>,
    rest_asked: Arc<Vec<RestAsked>>,
}

impl Setup {
    /// Returns the address that the attackers of a round come from: a client that has spent nothing yet.
    pub fn attacker(round: u8) -> Ipv4Addr {
        Ipv4Addr::new(203, 0, 113, round)
    }

    /// Makes a chain and runs `program` on it.
    pub fn start(seed: u64, program: &Path) -> Result<Self> {
        let live = LiveNode::start(seed, CHAIN, Options::default())?;
        let scripts = live.ledger().scripts();
        let busiest = scripts.iter().max_by_key(|(_, facts)| facts.confirmed.len());
        let (heavy, _) = busiest.expect("the chain has scripts");
        let confirmed = live.ledger().chain().iter().flat_map(|mined| &mined.block.txdata);
        let largest = confirmed.max_by_key(|tx| tx.output.len()).expect("the chain has transactions");
        let prey = Prey { scripthash: scripthash(heavy.as_bytes()), txid: largest.compute_txid().to_string() };
        let is_ordinary = |confirmed: usize| confirmed < ORDINARY_TXS;
        let some: Scripts = scripts
            .into_iter()
            .filter(|(_, facts)| is_ordinary(facts.confirmed.len()))
            .take(ORDINARY_SCRIPTS)
            .collect();
        let exposed = Exposed::start(live.node(), program)?;
        let rest_asked = Arc::new(RestAsked::about(&some));
        Ok(Self { exposed, live, prey, asked: Arc::new(about(&some)), rest_asked })
    }

    /// Starts `count` honest clients on the public listener.
    pub fn honest_clients(&self, count: u8) -> HonestClients {
        HonestClients::start(count, self.exposed.public(), &self.asked)
    }

    /// Starts `count` visitors of the public listener of the REST API.
    pub fn rest_visitors(&self, count: u8) -> HonestClients {
        HonestClients::visit(count, self.exposed.public_rest(), &self.rest_asked)
    }
}
