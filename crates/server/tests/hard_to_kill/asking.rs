//! Wallets that ask a server for scripts and transactions while it and its node are killed, and a naive model that
//! knows what every tip that the server may have makes the right answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_chain::ScriptHash;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::ledger::{Ledger, ScriptFacts};
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::{Bitcoind, Error, Result};
use bitcoin::block::Header;
use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{BlockHash, ScriptBuf};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Home;

/// Methods about a script.
const QUESTIONS: [&str; 4] = ["get_history", "listunspent", "get_balance", "subscribe"];
/// Scripts in a batch.
const SCRIPTS: usize = 12;
/// Of a thousand batches, those before a question for a transaction: an old one takes its block's way over the links.
const TRANSACTIONS_PER_MILLE: u64 = 100;
/// From one batch to the next.
const PAUSE: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_mins(2);

/// A server that wallets ask, and the right answers.
pub(super) struct Asked {
    pub(super) home: Home,
    /// Every chain that the node's peer had.
    branches: Mutex<Vec<Ledger>>,
    /// Length of the log before the last start of the server.
    started_at: AtomicUsize,
    is_over: AtomicBool,
    /// Scripts whose answers were compared.
    answers: AtomicU64,
}

/// A tip that the server told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tip {
    height: u32,
    hash: BlockHash,
}

/// The right answers at a tip.
struct Facts {
    tip: Tip,
    ledger: Ledger,
    scripts: BTreeMap<ScriptBuf, ScriptFacts>,
    /// Those of later blocks among them.
    names: Vec<ScriptBuf>,
}

/// Ends the wallets when it is dropped.
pub(super) struct Ending<'a>(&'a Asked);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Asked {
    pub(super) fn new(home: Home) -> Self {
        let (branches, started_at) = (Mutex::default(), AtomicUsize::default());
        Self { home, branches, started_at, is_over: AtomicBool::default(), answers: AtomicU64::default() }
    }

    pub(super) fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Learns the chain of the node's peer.
    pub(super) fn learn(&self, peer: &Bitcoind) {
        let mut branches = self.branches.lock();
        let mut ledger = branches.last().cloned().unwrap_or_default();
        ledger.refresh(peer).unwrap();
        branches.push(ledger);
    }

    /// Expects a new server, with lines of the log of its own.
    pub(super) fn starts(&self) {
        self.started_at.store(self.home.log().len(), Ordering::Relaxed);
    }

    fn client(&self) -> Option<Client> {
        self.home.client_since(self.started_at.load(Ordering::Relaxed))
    }

    /// Returns the tip of the server; `None` if it does not answer.
    pub(super) fn served_tip(&self) -> Option<BlockHash> {
        Some(tip(&mut self.client()?).ok()?.hash)
    }

    /// Asks until the end, and proves each answer.
    pub(super) fn ask_until_the_end(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut facts = None;
        while !self.is_over.load(Ordering::Relaxed) {
            if let Some(mut client) = self.client() {
                let lost = self.ask_while_connected(&mut client, &mut facts, &mut rng);
                assert!(!lost.to_string().contains("no answer within"), "{lost}");
            }
            sleep(POLL);
        }
    }

    /// Asks until the connection is lost, or the end.
    fn ask_while_connected(&self, client: &mut Client, facts: &mut Option<Arc<Facts>>, rng: &mut Rng) -> Error {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return Error::Protocol("the end".to_owned());
            }
            if let Err(lost) = self.ask(client, facts, rng) {
                return lost;
            }
            // Others need the processors, too.
            sleep(PAUSE);
        }
    }

    fn ask(&self, client: &mut Client, known: &mut Option<Arc<Facts>>, rng: &mut Rng) -> Result<()> {
        let at = tip(client)?;
        // While the index is built, headers are the node's.
        let Some(facts) = known.take().filter(|facts| facts.tip == at).or_else(|| self.facts(at)) else {
            sleep(POLL);
            return Ok(());
        };
        *known = Some(Arc::clone(&facts));
        self.ask_scripts(client, &facts, rng)?;
        if rng.per_mille(TRANSACTIONS_PER_MILLE) {
            ask_transaction(client, &facts, rng)?;
        }
        Ok(())
    }

    fn ask_scripts(&self, client: &mut Client, facts: &Facts, rng: &mut Rng) -> Result<()> {
        let scripts: Vec<&ScriptBuf> = (0..SCRIPTS).map(|_| rng.pick(&facts.names)).collect();
        let questions = |script: &&ScriptBuf| {
            let hash = ScriptHash::of(script.as_bytes()).to_string();
            QUESTIONS.map(|method| (method, json!([hash])))
        };
        let questions: Vec<(String, Value)> = scripts
            .iter()
            .flat_map(questions)
            .map(|(method, params)| (format!("blockchain.scripthash.{method}"), params))
            .collect();
        let asked: Vec<(&str, Value)> =
            questions.iter().map(|(method, params)| (method.as_str(), params.clone())).collect();
        let answers = client.batch(&asked)?;
        // The tip may have moved, and back only to a tip with other blocks.
        if tip(client)? != facts.tip {
            return Ok(());
        }
        for (script, answers) in scripts.iter().zip(answers.chunks(QUESTIONS.len())) {
            let answers: std::result::Result<Vec<Value>, Value> = answers.iter().cloned().collect();
            match answers {
                Ok(answers) => facts.prove(script, &answers),
                Err(refused) if refused.to_string().contains("indexing, ") => {
                    sleep(POLL);
                    return Ok(());
                }
                Err(refused) => panic!("{script:x} at {:?}: {refused}", facts.tip),
            }
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The right answers at a tip; `None` for one that the node's peer never had.
    fn facts(&self, at: Tip) -> Option<Arc<Facts>> {
        let has = |ledger: &&Ledger| ledger.chain().get(at.height as usize).is_some_and(|block| block.hash == at.hash);
        let began = Instant::now();
        let whole = loop {
            if let Some(found) = self.branches.lock().iter().rev().find(has) {
                break found.clone();
            }
            // The node has a block as soon as its peer has it, and is faster than the model.
            assert!(began.elapsed() < PATIENCE, "nobody mined {at:?}");
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            sleep(POLL);
        };
        let ledger = whole.up_to(at.height);
        let (scripts, names) = (ledger.scripts(), whole.scripts().into_keys().collect());
        Some(Arc::new(Facts { tip: at, ledger, scripts, names }))
    }
}

impl Facts {
    /// Asserts that the answers to [`QUESTIONS`] are right. In the middle of a reorg the node's mempool has
    /// transactions of stale blocks; where one touches the script, the confirmed part is compared.
    fn prove(&self, script: &ScriptBuf, answers: &[Value]) {
        let nothing = ScriptFacts::default();
        let facts = self.scripts.get(script).unwrap_or(&nothing);
        let (mut history, mut balance) = (answers[0].clone(), answers[2].clone());
        let entries = history.as_array_mut().unwrap();
        let is_confirmed = |entry: &Value| entry["height"].as_i64().unwrap() > 0;
        let has_unconfirmed = !entries.iter().all(is_confirmed);
        entries.retain(is_confirmed);
        let context = format!("{script:x} at {:?}", self.tip);
        assert_eq!(history, facts.history(), "{context}");
        if has_unconfirmed {
            balance["unconfirmed"] = json!(0);
        } else {
            assert_eq!(answers[1], facts.unspent(), "{context}");
            assert_eq!(answers[3], facts.status(), "{context}");
        }
        assert_eq!(balance, facts.balance(), "{context}");
    }
}

/// Asks for a transaction. It may be refused: the node is away, or has deleted the block and has no peer.
fn ask_transaction(client: &mut Client, facts: &Facts, rng: &mut Rng) -> Result<()> {
    let mined = rng.pick(facts.ledger.chain());
    let place = rng.index(mined.txids.len());
    let (txid, right) = (mined.txids[place], serialize_hex(&mined.block.txdata[place]));
    match client.call("blockchain.transaction.get", json!([txid.to_string()])) {
        Ok(raw) => assert_eq!(raw, right, "{txid}"),
        Err(Error::Electrum { error, .. }) => {
            let is_unknown = error.to_string().contains("No such");
            assert!(!is_unknown || tip(client)? != facts.tip, "{txid}, {:?}: {error}", facts.tip);
        }
        Err(lost) => return Err(lost),
    }
    Ok(())
}

fn tip(client: &mut Client) -> Result<Tip> {
    let answer = client.call("blockchain.headers.subscribe", json!([]))?;
    let header = answer["hex"].as_str().and_then(|hex| deserialize_hex::<Header>(hex).ok()).unwrap();
    Ok(Tip { height: u32::try_from(answer["height"].as_u64().unwrap()).unwrap(), hash: header.block_hash() })
}
