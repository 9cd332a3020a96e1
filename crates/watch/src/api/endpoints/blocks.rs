//! `/block`, `/mempool` and `/fee-estimate`.

use birdhouse_chain::{Height, Snapshot};
use bitcoin::block::Header;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{BlockHash, Network, Work, consensus};
use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::parts::insert;
use crate::api::reply::{Answer, Reply, TEXT};
use crate::api::routes::Route;
use crate::api::service::Question;

/// Blocks for which the node estimates fees, at most.
const TARGET_MAX: u16 = 1008;
/// Headers that are read at once.
const HEADERS_AT_ONCE: u32 = 2016;
/// sat/vB in one BTC/kvB.
const SAT_VB: f64 = 100_000.0;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/block/tip", tip, "The tip of the chain."),
    Route::get(
        "/block/{hash}",
        block,
        "A header by the block's hash, as getblockheader shows it; by its height, a redirection to that.",
    ),
    Route::get("/block/{hash}/hex", hex, "A block's header, in hexadecimal.").with(TEXT),
    Route::get("/mempool/histogram", histogram, "Virtual bytes of the mempool by fee rate, the highest first."),
    Route::get(
        "/fee-estimate/{blocks}",
        fee,
        "The fee rate in sat/vB for confirmation within some blocks; null if none is known.",
    )
    .by_node(),
];

fn no_block() -> Failure {
    Failure::not_found("Block not found")
}

fn tip(question: &Question<'_>) -> Answer {
    let tip = question.at.tip();
    Reply::json(&json!({ "height": tip.height.0, "hash": tip.hash.to_string() }))
}

fn block(question: &Question<'_>) -> Answer {
    let text = question.params.part("hash");
    if text.len() == 64 {
        return Reply::json(&header_json(question.at, height_of(question)?)?);
    }
    let height = text.parse().map(Height).map_err(|_| Failure::bad_request("Invalid block hash or height"))?;
    let hash = question.at.block_hash(height).ok_or_else(no_block)?;
    Reply::elsewhere(format!("/block/{hash}"), hash.to_string())
}

fn height_of(question: &Question<'_>) -> Result<Height, Failure> {
    let hash: BlockHash = question.params.hash()?;
    question.at.block_height(&hash).ok_or_else(no_block)
}

fn hex(question: &Question<'_>) -> Answer {
    let header = question.at.header(height_of(question)?).ok_or_else(no_block)?;
    Reply::text(TEXT, header.to_lower_hex_string())
}

/// Returns the header of a block of the chain as Core shows it.
fn header_json(at: &Snapshot, height: Height) -> Result<Value, Failure> {
    let block = at.block_summary(height).ok_or_else(no_block)?;
    let header: Header = consensus::deserialize(&block.header).map_err(|_| Failure::internal())?;
    let next = at.block_hash(Height(height.0 + 1));
    let mut shape = Map::new();
    insert(
        &mut shape,
        [
            ("hash", json!(block.id.hash.to_string())),
            ("confirmations", json!(at.tip().height.0 + 1 - height.0)),
            ("height", json!(height.0)),
            ("version", json!(header.version.to_consensus())),
            ("versionHex", json!(format!("{:08x}", header.version.to_consensus().cast_unsigned()))),
            ("merkleroot", json!(header.merkle_root.to_string())),
            ("time", json!(header.time)),
            ("mediantime", json!(at.median_time(height))),
            ("nonce", json!(header.nonce)),
            ("bits", json!(format!("{:08x}", header.bits.to_consensus()))),
            ("target", json!(format!("{:x}", header.target()))),
            ("difficulty", json!(header.difficulty_float())),
            ("chainwork", json!(format!("{:x}", chain_work(at, height)?))),
            ("nTx", json!(block.tx_count)),
        ],
    );
    if height.0 > 0 {
        insert(&mut shape, [("previousblockhash", json!(header.prev_blockhash.to_string()))]);
    }
    if let Some(next) = next {
        insert(&mut shape, [("nextblockhash", json!(next.to_string()))]);
    }
    Ok(Value::Object(shape))
}

/// Returns the work in all blocks up to a height: some ten milliseconds of sums on mainnet.
fn chain_work(at: &Snapshot, height: Height) -> Result<Work, Failure> {
    let mut work: Option<Work> = None;
    for start in (0..=height.0).step_by(HEADERS_AT_ONCE as usize) {
        at.charge_step()?;
        let count = HEADERS_AT_ONCE.min(height.0 + 1 - start);
        for header in at.headers(Height(start), count) {
            let header: Header = consensus::deserialize(&header).map_err(|_| Failure::internal())?;
            work = Some(work.map_or_else(|| header.work(), |work| work + header.work()));
        }
    }
    work.ok_or_else(no_block)
}

fn histogram(question: &Question<'_>) -> Answer {
    Reply::json(&json!(question.at.mempool().fee_histogram()))
}

/// A regtest node has no estimates; there it is the rate from which on it relays, as BWT has it.
fn fee(question: &Question<'_>) -> Answer {
    let blocks = question.params.part("blocks").parse().ok().filter(|blocks| (1..=TARGET_MAX).contains(blocks));
    let blocks: u16 =
        blocks.ok_or_else(|| Failure::bad_request(format!("the target must be 1 to {TARGET_MAX} blocks")))?;
    let node = question.node()?;
    let rate = match question.network() {
        Network::Regtest => Some(node.relay_fee()?),
        _ => node.estimate_fee(blocks, None)?,
    };
    // Core's rates are whole satoshis for 1000 virtual bytes.
    Reply::json(&json!(rate.map(|rate| (rate * SAT_VB * 1000.0).round() / 1000.0)))
}
