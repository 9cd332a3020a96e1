//! A block header in the JSON of Core's REST and RPC: converted to its 80 bytes and verified by its hash.

use birdhouse_chain::source::BlockMeta;
use bitcoin::block::{Header, Version};
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, CompactTarget, TxMerkleNode};
use serde::Deserialize;

use crate::text::{Parsed, parsed};

/// The fields used of an entry of `/rest/headers` or an answer of `getblockheader`.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderJson {
    #[serde(deserialize_with = "parsed")]
    pub(crate) hash: BlockHash,
    version: i32,
    #[serde(deserialize_with = "parsed")]
    merkleroot: TxMerkleNode,
    time: u32,
    nonce: u32,
    bits: String,
    #[serde(rename = "nTx")]
    tx_count: u32,
    #[serde(default, rename = "previousblockhash")]
    previous: Option<Parsed<BlockHash>>,
}

impl HeaderJson {
    /// Converts the header for pass 0 of the build. Returns `None` when the fields do not hash to `hash`, or do not
    /// follow `previous`. The size is 0: neither REST nor RPC sends it here.
    pub(crate) fn into_meta(self, previous: Option<BlockHash>) -> Option<BlockMeta> {
        let named = self.previous.map(|Parsed(hash)| hash);
        let header = Header {
            version: Version::from_consensus(self.version),
            prev_blockhash: named.unwrap_or(BlockHash::all_zeros()),
            merkle_root: self.merkleroot,
            time: self.time,
            bits: CompactTarget::from_consensus(u32::from_str_radix(&self.bits, 16).ok()?),
            nonce: self.nonce,
        };
        let proved = header.block_hash() == self.hash && named == previous;
        let header = serialize(&header).try_into().ok()?;
        proved.then_some(BlockMeta { hash: self.hash, header, tx_count: self.tx_count, bytes: 0, position: None })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::Network;
    use bitcoin::blockdata::constants::genesis_block;

    use super::*;

    const GENESIS: &str = r#"{"hash":"000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f","height":0,
        "version":1,"merkleroot":"4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b","time":1231006505,
        "nonce":2083236893,"bits":"1d00ffff","nTx":1}"#;

    #[test]
    fn header_is_rebuilt_from_its_fields() {
        let header: HeaderJson = serde_json::from_str(GENESIS).unwrap();
        let meta = header.into_meta(None).unwrap();
        assert_eq!(meta.header.to_vec(), serialize(&genesis_block(Network::Bitcoin).header));
        assert_eq!(meta.tx_count, 1);
    }

    #[test]
    fn changed_field_or_wrong_place_is_refused() {
        let changed: HeaderJson = serde_json::from_str(&GENESIS.replace("2083236893", "2083236894")).unwrap();
        assert!(changed.into_meta(None).is_none());
        let elsewhere: HeaderJson = serde_json::from_str(GENESIS).unwrap();
        let hash = elsewhere.hash;
        assert!(elsewhere.into_meta(Some(hash)).is_none());
    }
}
