//! The naive model: every answer from a walk over all blocks, without the index.
//!
//! It complements the peers and generates the requests: each [`Asked`] is a request with its only right answer. Source:
//! the Electrum protocol's chapters "Basics" and "Methods".

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use birdhouse_testkit::client::scripthash;
use bitcoin::hashes::{Hash, HashEngine, sha256, sha256d};
use bitcoin::{Block, OutPoint, ScriptBuf, TxOut, Txid, consensus};
use serde_json::{Value, json};

const OP_RETURN: u8 = 0x6a;

/// A request, and the only right answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) answer: Value,
}

/// A chain, scanned.
pub(crate) struct Model<'a> {
    blocks: &'a [Block],
    /// Index = height, then position.
    txids: Vec<Vec<Txid>>,
    scripts: BTreeMap<ScriptBuf, Script>,
}

/// The facts about one script, in chain order.
#[derive(Debug, Default)]
struct Script {
    history: Vec<(usize, Txid)>,
    unspent: Vec<(usize, OutPoint, u64)>,
}

/// Returns `true` if a script can have a history: provably unspendable outputs have none.
pub(crate) fn is_indexed(script: &ScriptBuf) -> bool {
    script.as_bytes().first() != Some(&OP_RETURN)
}

impl<'a> Model<'a> {
    pub(crate) fn of(blocks: &'a [Block]) -> Self {
        let txids: Vec<Vec<Txid>> =
            blocks.iter().map(|block| block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect()).collect();
        let mut model = Self { blocks, txids, scripts: BTreeMap::new() };
        model.scan();
        model
    }

    /// The output of the genesis block can never be spent, and is not indexed.
    fn scan(&mut self) {
        let mut outputs: HashMap<OutPoint, &TxOut> = HashMap::new();
        let spent: HashSet<OutPoint> = self
            .blocks
            .iter()
            .flat_map(|block| &block.txdata)
            .flat_map(|tx| &tx.input)
            .map(|input| input.previous_output)
            .collect();
        for (height, block) in self.blocks.iter().enumerate().skip(1) {
            for (tx, &txid) in block.txdata.iter().zip(&self.txids[height]) {
                let mut touched: BTreeSet<&ScriptBuf> = tx.output.iter().map(|output| &output.script_pubkey).collect();
                let funding = tx.input.iter().filter_map(|input| outputs.get(&input.previous_output));
                touched.extend(funding.map(|output| &output.script_pubkey));
                for script in touched {
                    self.scripts.entry(script.clone()).or_default().history.push((height, txid));
                }
                for (vout, output) in (0..).zip(&tx.output) {
                    let outpoint = OutPoint { txid, vout };
                    outputs.insert(outpoint, output);
                    if !spent.contains(&outpoint) {
                        let script = self.scripts.entry(output.script_pubkey.clone()).or_default();
                        script.unspent.push((height, outpoint, output.value.to_sat()));
                    }
                }
            }
        }
    }

    fn tip(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Returns requests for history, balance, unspent outputs and status of each script.
    pub(crate) fn scripts<'s>(&self, scripts: impl IntoIterator<Item = &'s ScriptBuf>) -> Vec<Asked> {
        let unused = Script::default();
        let mut asked = Vec::new();
        for name in scripts {
            let script = self.scripts.get(name).unwrap_or(&unused);
            let params = json!([scripthash(name.as_bytes())]);
            let confirmed: u64 = script.unspent.iter().map(|(_, _, sat)| sat).sum();
            asked.extend(
                [
                    ("blockchain.scripthash.get_history", script.history()),
                    ("blockchain.scripthash.get_balance", json!({ "confirmed": confirmed, "unconfirmed": 0 })),
                    ("blockchain.scripthash.listunspent", script.unspent()),
                    ("blockchain.scripthash.subscribe", script.status()),
                ]
                .map(|(method, answer)| Asked { method, params: params.clone(), answer }),
            );
        }
        asked
    }

    /// Returns requests for every `step`th transaction and its merkle branch.
    pub(crate) fn transactions(&self, step: usize) -> Vec<Asked> {
        let mut asked = Vec::new();
        for (height, (block, txids)) in self.blocks.iter().zip(&self.txids).enumerate().skip(1) {
            for (position, (tx, txid)) in block.txdata.iter().zip(txids).enumerate().step_by(step) {
                asked.push(Asked {
                    method: "blockchain.transaction.get",
                    params: json!([txid]),
                    answer: consensus::encode::serialize_hex(tx).into(),
                });
                let merkle = merkle(txids.iter().map(hashed), position).0;
                asked.push(Asked {
                    method: "blockchain.transaction.get_merkle",
                    params: json!([txid, height]),
                    answer: json!({ "merkle": merkle, "block_height": height, "pos": position }),
                });
            }
        }
        asked
    }

    /// Returns requests for the txid at every position of every `step`th block. (`ElectrumX` has no transaction in the
    /// genesis block.)
    pub(crate) fn positions(&self, step: usize) -> Vec<Asked> {
        let method = "blockchain.transaction.id_from_pos";
        let mut asked = Vec::new();
        for (height, txids) in self.txids.iter().enumerate().skip(1).step_by(step) {
            for (position, txid) in txids.iter().enumerate() {
                let merkle = merkle(txids.iter().map(hashed), position).0;
                asked.push(Asked { method, params: json!([height, position, false]), answer: json!(txid) });
                asked.push(Asked {
                    method,
                    params: json!([height, position, true]),
                    answer: json!({ "tx_hash": txid, "merkle": merkle }),
                });
            }
        }
        asked
    }

    /// Returns requests for every header, and for ranges of headers, also beyond the tip.
    pub(crate) fn headers(&self) -> Vec<Asked> {
        let single = (0..=self.tip()).map(|height| Asked {
            method: "blockchain.block.header",
            params: json!([height]),
            answer: self.header(height).into(),
        });
        let tip = self.tip();
        let ranges = [(0, 2016), (0, 1), (7, 0), (tip - 50, 20), (tip - 3, 10), (tip, 1), (tip + 1, 5)];
        let ranges = ranges.into_iter().map(|(start, count)| {
            let headers = self.range(start, count);
            Asked {
                method: "blockchain.block.headers",
                params: json!([start, count]),
                answer: json!({ "count": headers.len(), "headers": headers }),
            }
        });
        single.chain(ranges).collect()
    }

    /// Returns requests for headers with proofs up to checkpoints.
    pub(crate) fn header_proofs(&self) -> Vec<Asked> {
        let tip = self.tip();
        let mut asked = Vec::new();
        for checkpoint in [1, 2, 7, 8, 100, tip - 1, tip] {
            for height in spread(0..=checkpoint) {
                let (branch, root) = self.proof(height, checkpoint);
                asked.push(Asked {
                    method: "blockchain.block.header",
                    params: json!([height, checkpoint]),
                    answer: json!({ "branch": branch, "header": self.header(height), "root": root }),
                });
                let headers = self.range(height, (checkpoint - height + 1).min(5));
                let (branch, root) = self.proof(height + headers.len() - 1, checkpoint);
                asked.push(Asked {
                    method: "blockchain.block.headers",
                    params: json!([height, headers.len(), checkpoint]),
                    answer: json!({ "count": headers.len(), "headers": headers, "branch": branch, "root": root }),
                });
            }
        }
        asked
    }

    fn header(&self, height: usize) -> String {
        consensus::encode::serialize_hex(&self.blocks[height].header)
    }

    fn range(&self, start: usize, count: usize) -> Vec<String> {
        (start..self.blocks.len()).take(count).map(|height| self.header(height)).collect()
    }

    fn proof(&self, height: usize, checkpoint: usize) -> (Vec<String>, String) {
        let hashes = self.blocks[..=checkpoint].iter().map(|block| block.block_hash().to_raw_hash());
        merkle(hashes, height)
    }
}

impl Script {
    fn history(&self) -> Value {
        self.history.iter().map(|(height, txid)| json!({ "height": height, "tx_hash": txid })).collect()
    }

    fn unspent(&self) -> Value {
        let entry = |(height, outpoint, sat): &(usize, OutPoint, u64)| json!({ "height": height, "tx_hash": outpoint.txid, "tx_pos": outpoint.vout, "value": sat });
        self.unspent.iter().map(entry).collect()
    }

    fn status(&self) -> Value {
        if self.history.is_empty() {
            return Value::Null;
        }
        let lines: Vec<String> = self.history.iter().map(|(height, txid)| format!("{txid}:{height}:")).collect();
        let text = lines.concat();
        sha256::Hash::hash(text.as_bytes()).to_string().into()
    }
}

fn hashed(txid: &Txid) -> sha256d::Hash {
    txid.to_raw_hash()
}

/// Returns the first and last dozen numbers, and some between.
fn spread(range: RangeInclusive<usize>) -> impl Iterator<Item = usize> {
    let last = *range.end();
    range.filter(move |number| *number < 12 || last - number < 12 || number % 17 == 0)
}

/// Returns the branch from the leaf at `position` to the root, and the root; a level of odd length repeats its last
/// hash.
fn merkle(leaves: impl Iterator<Item = sha256d::Hash>, mut position: usize) -> (Vec<String>, String) {
    let mut level: Vec<sha256d::Hash> = leaves.collect();
    let mut branch = Vec::new();
    while level.len() > 1 {
        if level.len() % 2 == 1 {
            level.extend(level.last().copied());
        }
        branch.push(level[position ^ 1].to_string());
        level = level.chunks(2).map(|pair| joined(pair[0], pair[1])).collect();
        position /= 2;
    }
    (branch, level[0].to_string())
}

fn joined(left: sha256d::Hash, right: sha256d::Hash) -> sha256d::Hash {
    let mut engine = sha256d::Hash::engine();
    engine.input(left.as_byte_array());
    engine.input(right.as_byte_array());
    sha256d::Hash::from_engine(engine)
}
