//! The basic filter of a block: the scripts of its outputs, without those that begin with `OP_RETURN`, and of the
//! outputs that it spends. Pure.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;

use siphasher::sip::SipHasher24;

use super::golomb;
use crate::block::{ProvedBlock, is_indexed};
use crate::names::{Hash256, sha256d};

/// Computes the filter of a proved block.
pub(super) fn of_block(hash: BlockHash, block: &ProvedBlock<'_>) -> Vec<u8> {
    of_scripts(hash, block.funded_scripts(), block.spent_scripts())
}

fn of_scripts<'a>(
    hash: BlockHash,
    funded: impl Iterator<Item = &'a [u8]>,
    spent: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let funded = funded.filter(|script| is_indexed(script));
    let mut elements: Vec<&[u8]> = funded.chain(spent).filter(|script| !script.is_empty()).collect();
    elements.sort_unstable();
    elements.dedup();
    let key = hash.as_byte_array().first_chunk().expect("32 bytes");
    golomb::encode(&SipHasher24::new_with_key(key), &elements)
}

/// Returns the header of a filter after the one before it.
pub(super) fn header(filter_hash: &Hash256, before: &Hash256) -> Hash256 {
    sha256d(&[&filter_hash[..], &before[..]].concat())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::hex::FromHex as _;
    use serde_json::Value;

    use super::*;
    use crate::block::{Block, BlockError};
    use crate::outside::SpentBytes;

    /// The table of BIP 158 (`bip-0158/testnet-19.json`): height, hash, block, scripts of the spent outputs, header
    /// before, filter, header, note.
    const VECTORS: &str = include_str!("../../tests/data/bip-0158-testnet-19.json");

    fn filter(hash: BlockHash, block: &[u8], spent: SpentBytes<'_>) -> Result<Vec<u8>, BlockError> {
        Ok(of_block(hash, &ProvedBlock::of(block, spent)?))
    }

    fn bytes(value: &Value) -> Vec<u8> {
        Vec::from_hex(value.as_str().unwrap()).unwrap()
    }

    fn hash(value: &Value) -> Hash256 {
        let mut bytes = bytes(value);
        bytes.reverse();
        bytes.try_into().unwrap()
    }

    #[test]
    fn filters_and_headers_are_those_of_the_bip() {
        let rows: Vec<Vec<Value>> = serde_json::from_str(VECTORS).unwrap();
        assert_eq!(rows.len(), 11);
        for row in &rows[1..] {
            let [_, block_hash, block, spent, before, expected, header_expected, note] = &row[..] else {
                panic!("{row:?}")
            };
            let (block_hash, block) = (BlockHash::from_byte_array(hash(block_hash)), bytes(block));
            let spent: Vec<Vec<u8>> = spent.as_array().unwrap().iter().map(bytes).collect();
            let parsed = Block::parse(&block).unwrap();
            let funded = parsed.outputs.iter().map(|output| output.script);
            let filter = of_scripts(block_hash, funded, spent.iter().map(Vec::as_slice));
            assert_eq!(filter, bytes(expected), "{note}");
            assert_eq!(header(&sha256d(&filter), &hash(before)), hash(header_expected), "{note}");
        }
    }

    #[test]
    fn a_block_that_is_not_what_its_header_commits_to_has_no_filter() {
        let mut block = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let hash = block.block_hash();
        let bytes = bitcoin::consensus::serialize(&block);
        assert_eq!(filter(hash, &bytes, SpentBytes::Undo(&[])).unwrap()[0], 1);
        block.txdata[0].lock_time = bitcoin::absolute::LockTime::from_consensus(1);
        let bytes = bitcoin::consensus::serialize(&block);
        assert!(matches!(filter(hash, &bytes, SpentBytes::Undo(&[])), Err(BlockError::MerkleRoot)));
    }
}
