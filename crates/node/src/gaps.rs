//! Blocks that a node lacks although they are in its chain: a UTXO snapshot whose background chain is unfinished, or
//! pruning.
//!
//! Source: Core's `getchainstates` (`rpc/blockchain.cpp`), `doc/design/assumeutxo.md`.

use birdhouse_chain::Height;
use birdhouse_chain::source::{NodeError, SourceResult};
use serde::Deserialize;
use serde_json::json;

use crate::pruning::KeptBlocks;
use crate::rpc::{Rpc, to_source_error};

/// The answer of `getchainstates`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ChainStates {
    #[serde(default)]
    headers: i64,
    chainstates: Vec<ChainState>,
}

#[derive(Debug, Deserialize)]
struct ChainState {
    blocks: u32,
    #[serde(default)]
    snapshot_blockhash: Option<String>,
    #[serde(default)]
    validated: bool,
}

impl ChainStates {
    /// Calls `getchainstates`. A node without this method (Core before 26) has one chain state.
    pub(crate) fn of(rpc: &Rpc) -> SourceResult<Self> {
        match rpc.call("getchainstates", &json!([])) {
            // RPC_METHOD_NOT_FOUND
            Err(NodeError::Rejected { code: -32601, .. }) => Ok(Self::default()),
            answer => answer.map_err(to_source_error),
        }
    }

    /// Returns the progress of the background chain; `None` where the chain has all its blocks.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let from_snapshot = self.chainstates.iter().any(|state| state.snapshot_blockhash.is_some() && !state.validated);
        let background = self.chainstates.iter().find(|state| state.snapshot_blockhash.is_none())?;
        from_snapshot.then(|| {
            format!(
                "the node began with a UTXO snapshot (assumeutxo) and still downloads the blocks below it: {} of {} \
                 blocks",
                background.blocks, self.headers
            )
        })
    }
}

/// Returns the reason for which the node lacks the block that follows `indexed`.
pub(crate) fn missing_blocks(rpc: &Rpc, indexed: Height) -> SourceResult<Option<String>> {
    if let Some(unfinished) = ChainStates::of(rpc)?.unfinished() {
        return Ok(Some(unfinished));
    }
    Ok(KeptBlocks::of(rpc)?.lost_after(Some(indexed)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn unfinished(chainstates: &str) -> Option<String> {
        let answer = format!(r#"{{"headers":840500,"chainstates":{chainstates}}}"#);
        serde_json::from_str::<ChainStates>(&answer).unwrap().unfinished()
    }

    #[test]
    fn a_background_chain_that_is_unfinished_is_named_with_its_progress() {
        let said = unfinished(
            r#"[{"blocks":410000,"bestblockhash":"00","validated":true},
                {"blocks":840500,"bestblockhash":"00","snapshot_blockhash":"00","validated":false}]"#,
        );
        assert!(
            said.unwrap().ends_with("(assumeutxo) and still downloads the blocks below it: 410000 of 840500 blocks")
        );
        let finished = r#"[{"blocks":840500,"snapshot_blockhash":"00","validated":true}]"#;
        assert_eq!(unfinished(finished), None);
        assert_eq!(unfinished(r#"[{"blocks":840500,"bestblockhash":"00","validated":true}]"#), None);
    }
}
