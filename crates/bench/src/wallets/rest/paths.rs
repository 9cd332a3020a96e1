//! Paths to request, read from the server before anything is measured.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use birdhouse_testkit::http_client::{HttpClient, rest_path};
use serde_json::Value;

use crate::wallets::latency::{Script, class};
use crate::wallets::samples::Samples;

/// Transactions on a page.
const PAGE: u64 = 25;
/// Transactions and blocks to request over many connections.
const TXIDS: usize = 2000;
const BLOCKS: u64 = 40;

/// The pages of one script.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) txs: u64,
    pub(super) stats: String,
    pub(super) first: String,
    /// The page with the oldest transactions; that of a script of one page is the first.
    pub(super) last: String,
    pub(super) summary: String,
}

/// Paths by kind.
#[derive(Debug)]
pub(super) struct Paths {
    /// Addresses by class of the number of transactions.
    pub(super) addresses: BTreeMap<(u64, u64), Vec<Address>>,
    /// Scripts of a wallet, of one or a few transactions.
    pub(super) wallet: Vec<String>,
    pub(super) txids: Vec<String>,
    pub(super) blocks: Vec<String>,
}

impl Paths {
    pub(super) fn collect(http: &mut HttpClient, scripts: &[Script], samples: &Samples) -> Result<Self> {
        let mut addresses: BTreeMap<_, Vec<Address>> = BTreeMap::new();
        for script in scripts {
            addresses.entry(class(script.txs)).or_default().push(address(http, script)?);
        }
        let wallet: Vec<String> = samples.simple.iter().map(|scripthash| rest_path(scripthash)).collect();
        let mut txids = Vec::new();
        for path in &wallet {
            if txids.len() >= TXIDS {
                break;
            }
            txids.extend(txids_of(&http.json(&format!("{path}/txs"))?)?);
        }
        Ok(Self { addresses, wallet, txids, blocks: blocks(http)? })
    }
}

fn address(http: &mut HttpClient, script: &Script) -> Result<Address> {
    let stats = rest_path(&script.scripthash);
    let first = format!("{stats}/txs/chain");
    let last = oldest(http, &stats, script.txs)?.map_or_else(|| first.clone(), |txid| format!("{first}/{txid}"));
    Ok(Address { txs: script.txs, summary: format!("{stats}/txs/summary"), stats, first, last })
}

/// Returns the transaction before the last page; `None` for a script of one page.
fn oldest(http: &mut HttpClient, stats: &str, txs: u64) -> Result<Option<String>> {
    if txs <= PAGE {
        return Ok(None);
    }
    let (mut left, mut before) = (txs, None::<String>);
    loop {
        let page =
            http.json(&format!("{stats}/txs/summary{}", before.map_or_else(String::new, |txid| format!("/{txid}"))))?;
        let page = page.as_array().context("no list of changes")?;
        let count = page.len() as u64;
        // The oldest 25 follow after this one.
        if left - count.min(left) <= PAGE {
            let index = usize::try_from(left - PAGE - 1)?.min(page.len() - 1);
            return Ok(page[index]["txid"].as_str().map(str::to_owned));
        }
        left -= count;
        before = page.last().and_then(|entry| entry["txid"].as_str()).map(str::to_owned);
    }
}

fn blocks(http: &mut HttpClient) -> Result<Vec<String>> {
    let tip: u64 = http.text("/blocks/tip/height")?.parse().context("the height of the tip is no number")?;
    let step = (tip / BLOCKS).max(1);
    (1..=BLOCKS.min(tip)).map(|index| Ok(http.text(&format!("/block-height/{}", index * step))?)).collect()
}

fn txids_of(page: &Value) -> Result<Vec<String>> {
    let txs = page.as_array().context("no list of transactions")?;
    Ok(txs.iter().filter_map(|tx| Some(tx["txid"].as_str()?.to_owned())).collect())
}
