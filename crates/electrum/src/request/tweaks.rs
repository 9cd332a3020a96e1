//! Parameters of `blockchain.tweaks.*` (BIP 352), in the dialect of Cake Wallet.

use birdhouse_chain::Height;
use bitcoin::OutPoint;

use super::Query;
use crate::error::RpcError;
use crate::protocol::{Args, SpentPayments};

/// Beginning of the names of the dialect's methods.
const PREFIX: &str = "blockchain.tweaks.";

/// Blocks whose tweaks a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TweakRange {
    pub(crate) start: Height,
    /// Number of blocks, at least 1.
    pub(crate) count: u32,
    pub(crate) spent: SpentPayments,
    /// The dialect's version, which the server may not have.
    pub(crate) version: u32,
}

/// Returns true for a method of the dialect.
pub(crate) fn is_about_tweaks(method: &str) -> bool {
    method.starts_with(PREFIX)
}

/// Parses the parameters of `subscribe`.
pub(super) fn subscribe(args: &mut Args<'_>) -> Result<Query, RpcError> {
    let (start, count) = (args.required("height")?, args.optional("count", 1_u32)?.max(1));
    let spent = if args.optional("historical", false)? { SpentPayments::Sent } else { SpentPayments::LeftOut };
    let version = args.optional("version", 1)?;
    Ok(Query::TweaksSubscribe(TweakRange { start, count, spent, version }))
}

/// Parses the parameters of `get`. An outpoint names an output on any chain, so the height is not needed.
pub(super) fn get(args: &mut Args<'_>) -> Result<Query, RpcError> {
    let outpoint = OutPoint { txid: args.required("txid")?, vout: args.required("vout")? };
    args.optional("height", Height(0))?;
    Ok(Query::TweaksGet(outpoint))
}
