//! Prints the history of an address from an index on disk, without a server. The server, which locks the store, must be
//! stopped.
//!
//! ```text
//! cargo run -p birdhouse --example history -- ~/.birdhouse/bitcoin ~/.bitcoin/blocks ADDRESS
//! ```
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use birdhouse_chain::{Index, Profile, ScriptHash, Secret, TABLES};
use birdhouse_node::BlockFiles;
use birdhouse_store::{SegmentOptions, SegmentStore};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{Address, Network};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [index_dir, blocks_dir, address] = &arguments[..] else { anyhow::bail!("usage: history INDEX BLOCKS ADDRESS") };
    let script = address.parse::<Address<_>>()?.require_network(Network::Bitcoin)?.script_pubkey();

    let store = SegmentStore::open(Path::new(index_dir), &TABLES, SegmentOptions::default())?;
    let blocks = BlockFiles::open(Path::new(blocks_dir), Network::Bitcoin)?;
    let genesis = genesis_block(Network::Bitcoin).block_hash();
    // The secret is used for a new index only; this one exists.
    let index = Index::open(Arc::new(store), Arc::new(blocks), genesis, Profile::Full, Secret([0; 16]))?;
    let snapshot = index.snapshot().context("the first build is not finished")?;
    for entry in snapshot.history(&ScriptHash::of(script.as_bytes()))? {
        println!("{} {}", entry.height.0, entry.txid);
    }
    Ok(())
}
