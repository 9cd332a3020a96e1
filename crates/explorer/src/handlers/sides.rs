//! Inputs and outputs of a transaction in short.

use birdhouse_chain::{ResolvedTransaction, ScriptHash};
use birdhouse_esplora::script::{address_of, type_of};
use bitcoin::{Network, TxOut};

use crate::views::sides::{Owner, Party, Side, Sides};

/// Parties of one side of a transaction in a list.
const PARTIES_MAX: usize = 6;

/// Returns the first parties of both sides. Those with a script of the page's own are not named.
pub(super) fn sides(found: &ResolvedTransaction, network: Network, is_own: impl Fn(&ScriptHash) -> bool) -> Sides {
    let owner = |output: &TxOut| {
        let script = &output.script_pubkey;
        if is_own(&ScriptHash::of(script.as_bytes())) {
            return Owner::Own;
        }
        address_of(script, network).map_or_else(|| Owner::Kind(type_of(script)), Owner::Address)
    };
    let side = |outputs: &[TxOut]| {
        let shown = outputs.iter().take(PARTIES_MAX);
        let parties = shown.map(|output| Party { owner: owner(output), value: output.value.to_sat() }).collect();
        Side { parties, count: outputs.len() }
    };
    let unknown = || Side { parties: Vec::new(), count: found.transaction.input.len() };
    let inputs = if found.is_unresolved() { unknown() } else { side(&found.prevouts) };
    Sides { inputs, outputs: side(&found.transaction.output) }
}
