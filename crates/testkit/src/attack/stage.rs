//! Where attacks take place: a node with a small chain, a server, and what visitors ask it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use birdhouse_regtest::mix::Size;

use super::{Exposed, Visitors};
use crate::Options;
use crate::asked::{Asked, Scripts, about};
use crate::client::scripthash;
use crate::error::Result;
use crate::live::LiveNode;

/// One script has a reply of 300 kB.
const CHAIN: Size = Size { blocks: 5, block_txs: 4, scripts_per_form: 20, busy: &[10, 3000] };
/// What wallets ask for are scripts with short histories.
const ORDINARY_TXS: usize = 30;
const ORDINARY_SCRIPTS: usize = 100;

/// The stage.
#[derive(Debug)]
pub struct Stage {
    /// The server.
    pub exposed: Exposed,
    /// Its node.
    pub live: LiveNode,
    /// Script hash of the script with the longest history.
    pub heavy: String,
    asked: Arc<Vec<Asked>>,
}

impl Stage {
    /// Where all attackers come from.
    pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);

    /// Makes a chain, and runs `program` on it.
    pub fn start(seed: u64, program: &Path) -> Result<Self> {
        let live = LiveNode::start(seed, CHAIN, Options::default())?;
        let scripts = live.ledger().scripts();
        let busiest = scripts.iter().max_by_key(|(_, facts)| facts.confirmed.len());
        let (heavy, _) = busiest.expect("the chain has scripts");
        let heavy = scripthash(heavy.as_bytes());
        let is_ordinary = |confirmed: usize| confirmed < ORDINARY_TXS;
        let some: Scripts = scripts
            .into_iter()
            .filter(|(_, facts)| is_ordinary(facts.confirmed.len()))
            .take(ORDINARY_SCRIPTS)
            .collect();
        let exposed = Exposed::start(live.node(), program)?;
        Ok(Self { exposed, live, heavy, asked: Arc::new(about(&some)) })
    }

    /// So many visitors among the strangers.
    pub fn visitors(&self, count: u8) -> Visitors {
        Visitors::start(count, self.exposed.strangers(), &self.asked)
    }
}
