//! Regtest blocks by Core's consensus rules: BIP34 coinbase, BIP141 commitment, subsidy, proof of work.
//!
//! Sources: `GetBlockSubsidy` and `CRegTestParams` of Core,
//! [BIP34](https://github.com/bitcoin/bips/blob/master/bip-0034.mediawiki),
//! [BIP141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki#commitment-structure).

use bitcoin::block::{Header, Version};
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut,
    Witness, WitnessMerkleNode, Wtxid, absolute, merkle_tree, transaction,
};

/// Compact target of every regtest block: one hash in two meets it.
const BITS: u32 = 0x207f_ffff;
const HALVING_BLOCKS: u32 = 150;
/// Number of blocks after which a coinbase can be spent.
pub const COINBASE_MATURITY: u32 = 100;
/// Seconds between the timestamps of two generated blocks.
const SPACING_S: u32 = 600;
/// Timestamp of regtest's genesis block.
const GENESIS_TIME: u32 = 1_296_688_602;
/// BIP141: `OP_RETURN`, push of 36 bytes, and this, before the commitment.
const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Returns the subsidy of a block at this height, in satoshi.
pub fn subsidy_sat(height: u32) -> u64 {
    5_000_000_000_u64.checked_shr(height / HALVING_BLOCKS).unwrap_or(0)
}

/// Returns the timestamp of the block at this height: a function of the height alone, so that chains are reproducible.
pub fn time_at(height: u32) -> u32 {
    GENESIS_TIME + height * SPACING_S
}

/// The position of a block in a chain.
#[derive(Debug, Clone, Copy)]
pub struct BlockPosition {
    /// The block's height.
    pub height: u32,
    /// Hash of the block before it.
    pub prev: BlockHash,
    /// A number written into the coinbase: two branches with different salts share no block.
    pub salt: u32,
}

/// Makes the coinbase: `outputs`, then the commitment to `wtxids`, those of all other transactions in order.
pub fn coinbase(position: BlockPosition, mut outputs: Vec<TxOut>, wtxids: &[Wtxid]) -> Transaction {
    let script_sig = Builder::new()
        .push_int(i64::from(position.height))
        .push_slice(position.salt.to_le_bytes())
        .push_slice(b"birdhouse")
        .into_script();
    let reserved = [0_u8; 32];
    outputs.push(TxOut { value: Amount::ZERO, script_pubkey: commitment_script(wtxids, &reserved) });
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&[reserved]),
        }],
        output: outputs,
    }
}

fn commitment_script(wtxids: &[Wtxid], reserved: &[u8; 32]) -> ScriptBuf {
    let hashes = std::iter::once(Wtxid::all_zeros()).chain(wtxids.iter().copied());
    let root = merkle_tree::calculate_root(hashes.map(Wtxid::to_raw_hash)).expect("the coinbase is there");
    let root = WitnessMerkleNode::from_raw_hash(root);
    let mut preimage = [0; 64];
    preimage[..32].copy_from_slice(root.as_byte_array());
    preimage[32..].copy_from_slice(reserved);
    let mut script = COMMITMENT_PREFIX.to_vec();
    script.extend_from_slice(sha256d::Hash::hash(&preimage).as_byte_array());
    ScriptBuf::from_bytes(script)
}

/// A header with proof of work.
pub fn mine_header(position: BlockPosition, merkle_root: TxMerkleNode) -> Header {
    let mut header = Header {
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: position.prev,
        merkle_root,
        time: time_at(position.height),
        bits: CompactTarget::from_consensus(BITS),
        nonce: 0,
    };
    while !header.target().is_met_by(header.block_hash()) {
        header.nonce += 1;
    }
    header
}

/// Makes a whole block: the coinbase with these outputs, then `txs`.
pub fn assemble(position: BlockPosition, coinbase_outputs: Vec<TxOut>, txs: Vec<Transaction>) -> Block {
    let wtxids: Vec<Wtxid> = txs.iter().map(Transaction::compute_wtxid).collect();
    let mut txdata = vec![coinbase(position, coinbase_outputs, &wtxids)];
    txdata.extend(txs);
    let txids = txdata.iter().map(|tx| tx.compute_txid().to_raw_hash());
    let root = merkle_tree::calculate_root(txids).expect("the coinbase is there");
    Block { header: mine_header(position, TxMerkleNode::from_raw_hash(root)), txdata }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsidy_halves_every_150_blocks() {
        assert_eq!(subsidy_sat(149), 5_000_000_000);
        assert_eq!(subsidy_sat(150), 2_500_000_000);
        assert_eq!(subsidy_sat(150 * 33), 0);
        assert_eq!(subsidy_sat(u32::MAX), 0);
    }

    #[test]
    fn assembled_block_proves_its_transactions_and_its_work() {
        let position = BlockPosition { height: 17, prev: BlockHash::all_zeros(), salt: 3 };
        let output = TxOut { value: Amount::from_sat(1), script_pubkey: ScriptBuf::new() };
        let block = assemble(position, vec![output], Vec::new());
        assert!(block.check_merkle_root());
        assert!(block.check_witness_commitment());
        assert_eq!(block.bip34_block_height(), Ok(17));
        assert!(block.header.validate_pow(block.header.target()).is_ok());
    }
}
