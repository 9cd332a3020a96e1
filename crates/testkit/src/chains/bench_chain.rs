//! The large chain of benchmarks: millions of transactions in minutes, with the sizes and shapes of real ones.
//!
//! Nothing is signed: by consensus anyone can spend every output ([`scripts`]), and inputs have random bytes in place
//! of signatures and keys. A node with all checks on accepts the chain. The pool of coins ([`COINS_MAX`]) bounds
//! memory; a coin that leaves the pool is never spent, as on the real chain. The chain is a function of its [`Plan`].

mod coins;
mod encode;
mod files;
mod scripts;
mod stats;
mod undo;

use std::collections::VecDeque;
use std::io;

use birdhouse_regtest::block::{BlockPosition, COINBASE_MATURITY, coinbase, mine_header, subsidy_sat};
use birdhouse_regtest::rng::Rng;
use bitcoin::hashes::Hash;
use bitcoin::{Amount, BlockHash, ScriptBuf, TxMerkleNode, TxOut, Txid, Wtxid, consensus, constants, merkle_tree};

use self::coins::{Coin, Coins};
use self::encode::TxBytes;
pub use self::files::{BlockFilesWriter, BlockSink, LoadBlock};
use self::scripts::{ScriptId, Scripts};
pub use self::stats::{Sample, Samples, Stats};
use self::undo::UndoBytes;

use crate::chains::core_coding::compact_size;

/// Most coins that may still be spent, of 56 bytes each.
const COINS_MAX: usize = 2_000_000;
/// With fewer coins than this, transactions have 100 outputs.
const COINS_FEW: usize = 20_000;
/// Weight of the transactions in a block: Core's limit of 4 000 000 less room for coinbase and header.
const WEIGHT_MAX: usize = 3_990_000;
const FEE_SAT: u64 = 200;

/// Size and seed of a chain.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed: the same plan gives the same chain.
    pub seed: u64,
    /// Number of blocks after the genesis block; more when the transactions do not fit.
    pub blocks: u32,
    /// Number of transactions besides coinbases.
    pub txs: u64,
}

/// Writes the chain of `plan` to `out`.
pub fn generate(plan: Plan, out: &mut impl BlockSink) -> io::Result<Stats> {
    let mut chain = Generator::new(plan);
    let genesis = constants::genesis_block(bitcoin::Network::Regtest);
    chain.stats.bytes +=
        out.push(BlockHash::all_zeros(), &consensus::serialize(&genesis), &UndoBytes::default().finish())?;
    chain.prev = genesis.block_hash();
    while chain.stats.blocks < u64::from(plan.blocks) || chain.stats.txs < plan.txs {
        chain.next_block(out)?;
    }
    chain.stats.scripts = chain.scripts.distinct();
    chain.stats.samples = chain.scripts.samples();
    chain.stats.tip = Some(chain.prev);
    Ok(chain.stats)
}

struct Generator {
    plan: Plan,
    rng: Rng,
    scripts: Scripts,
    coins: Coins,
    /// Coinbases, with the height from which they may be spent.
    immature: VecDeque<(u32, Coin)>,
    prev: BlockHash,
    stats: Stats,
    tx: TxBytes,
    undo: UndoBytes,
}

/// Numbers of inputs and outputs of a transaction.
struct Shape {
    inputs: usize,
    outputs: usize,
}

impl Generator {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            rng: Rng::new(plan.seed),
            scripts: Scripts::new(plan.seed, plan.txs),
            coins: Coins::new(COINS_MAX),
            immature: VecDeque::new(),
            prev: BlockHash::all_zeros(),
            stats: Stats::default(),
            tx: TxBytes::default(),
            undo: UndoBytes::default(),
        }
    }

    fn next_block(&mut self, out: &mut impl BlockSink) -> io::Result<()> {
        let height = u32::try_from(self.stats.blocks).expect("fewer than 2^32 blocks") + 1;
        self.ripen(height);
        let (mut body, mut txids, mut wtxids) = (Vec::new(), vec![Txid::all_zeros()], Vec::new());
        let (mut weight, wanted) = (0, self.block_txs());
        while (wtxids.len() as u64) < wanted && weight < WEIGHT_MAX && !self.coins.is_empty() {
            self.next_tx(height);
            weight += self.tx.weight();
            if weight > WEIGHT_MAX + 200_000 {
                self.undo.take_back();
                break;
            }
            body.extend_from_slice(&self.tx.full);
            txids.push(self.tx.txid);
            wtxids.push(self.tx.wtxid);
        }
        self.finish(height, &body, txids, &wtxids, out)
    }

    fn finish(
        &mut self,
        height: u32,
        body: &[u8],
        mut txids: Vec<Txid>,
        wtxids: &[Wtxid],
        out: &mut impl BlockSink,
    ) -> io::Result<()> {
        let position = BlockPosition { height, prev: self.prev, salt: 0 };
        let (script, value) = (self.scripts.fresh(), subsidy_sat(height));
        let reward = TxOut {
            value: Amount::from_sat(value),
            script_pubkey: ScriptBuf::from_bytes(self.scripts.script_pubkey(script)),
        };
        let coinbase = coinbase(position, vec![reward], wtxids);
        txids[0] = coinbase.compute_txid();
        let txid = txids[0].to_byte_array();
        let coin = Coin { txid, vout: 0, script, value, height, is_coinbase: true };
        self.immature.push_back((height + COINBASE_MATURITY, coin));
        let root =
            merkle_tree::calculate_root_inline(&mut txids.iter().map(|txid| txid.to_raw_hash()).collect::<Vec<_>>())
                .expect("the coinbase is there");
        let header = mine_header(position, TxMerkleNode::from_raw_hash(root));
        let mut block = consensus::serialize(&header);
        compact_size(&mut block, txids.len());
        block.extend(consensus::serialize(&coinbase));
        block.extend_from_slice(body);
        self.stats.bytes += out.push(self.prev, &block, &self.undo.finish())?;
        self.stats.blocks += 1;
        self.prev = header.block_hash();
        Ok(())
    }

    fn ripen(&mut self, height: u32) {
        while self.immature.front().is_some_and(|&(ripe, _)| ripe <= height) {
            let (_, coin) = self.immature.pop_front().expect("there is a front");
            self.coins.add(coin, &mut self.rng);
        }
    }

    /// Returns the number of transactions of the next block: the remaining ones spread unevenly over the remaining
    /// blocks; one block in 100 is empty.
    fn block_txs(&mut self) -> u64 {
        let left = self.plan.txs - self.stats.txs;
        let blocks_left = u64::from(self.plan.blocks).saturating_sub(self.stats.blocks);
        if blocks_left <= 1 {
            return left;
        }
        if self.rng.per_mille(10) {
            return 0;
        }
        (left * (500 + self.rng.below(1000)) / 1000 / blocks_left).min(left)
    }

    fn shape(&mut self) -> Shape {
        if self.coins.len() < COINS_FEW {
            return Shape { inputs: 1, outputs: 100 };
        }
        let (inputs, outputs) = match self.rng.below(100) {
            0..60 => (1, 2),
            60..85 => (2, 2),
            85..90 => (1, 1),
            90..95 => (2 + self.rng.index(11), 1),
            _ => (1, 3 + self.rng.index(36)),
        };
        Shape { inputs, outputs }
    }

    fn next_tx(&mut self, height: u32) {
        let shape = self.shape();
        self.tx.begin();
        let mut total = 0;
        let inputs = shape.inputs.min(self.coins.len());
        let mut spent = Vec::with_capacity(inputs);
        for _ in 0..inputs {
            let coin = self.coins.take(&mut self.rng);
            total += coin.value;
            self.scripts.touched(coin.script, self.stats.txs);
            spent.push(coin);
        }
        let outputs = self.outputs(shape.outputs, total.saturating_sub(FEE_SAT));
        self.undo.push(&spent, &self.scripts);
        self.tx.build(&spent, &outputs, &self.scripts, &mut self.rng);
        for (vout, &(script, value)) in outputs.iter().enumerate() {
            let Some(script) = script else { continue };
            self.scripts.touched(script, self.stats.txs);
            let vout = u32::try_from(vout).expect("few outputs");
            let coin = Coin { txid: self.tx.txid.to_byte_array(), vout, script, value, height, is_coinbase: false };
            self.coins.add(coin, &mut self.rng);
        }
        self.stats.txs += 1;
        self.stats.inputs += inputs as u64;
        self.stats.outputs += outputs.len() as u64;
    }

    /// Splits `total` among outputs; one transaction in 50 has an `OP_RETURN` (`None`) besides.
    fn outputs(&mut self, count: usize, total: u64) -> Vec<(Option<ScriptId>, u64)> {
        let mut left = total;
        let mut outputs = Vec::with_capacity(count + 1);
        for others in (0..count as u64).rev() {
            let value = if others == 0 { left } else { left * (500 + self.rng.below(1000)) / 1000 / (others + 1) };
            left -= value;
            outputs.push((Some(self.scripts.choose(&mut self.rng)), value));
        }
        if self.rng.per_mille(20) {
            outputs.push((None, 0));
        }
        outputs
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_regtest::loadblock::read_blocks;

    use super::*;

    const SMALL: Plan = Plan { seed: 5, blocks: 130, txs: 3000 };

    #[test]
    fn same_plan_gives_the_same_bytes() {
        let (mut once, mut again) = (Vec::new(), Vec::new());
        generate(SMALL, &mut LoadBlock(&mut once)).unwrap();
        generate(SMALL, &mut LoadBlock(&mut again)).unwrap();
        assert_eq!(once, again);
    }

    #[test]
    fn stats_count_what_the_file_holds() {
        let mut file = Vec::new();
        let stats = generate(SMALL, &mut LoadBlock(&mut file)).unwrap();
        let blocks = read_blocks(&file[..]).unwrap();
        let txs = blocks.iter().map(|block| block.txdata.len() as u64).sum::<u64>();
        assert_eq!(stats.blocks, blocks.len() as u64 - 1);
        assert_eq!(stats.txs, txs - blocks.len() as u64);
        assert_eq!(stats.bytes, file.len() as u64);
        assert!(blocks[1..].iter().all(|block| block.check_merkle_root() && block.check_witness_commitment()));
        let spends = blocks.iter().flat_map(|block| &block.txdata[1..]).map(|tx| tx.input.len() as u64);
        assert_eq!(stats.inputs, spends.sum::<u64>());
    }
}
