//! Scripts whose answers a change of tip or mempool may have changed.

use std::collections::BTreeSet;

use crate::scripthash::ScriptHash;

/// Scripts whose answers may differ from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// These, sorted.
    Scripts(Vec<ScriptHash>),
    /// Any script: the node has lost a stale block, so the scripts that it touched are unknown.
    Any,
}

/// Touched scripts while a change is applied.
pub(crate) type TouchedScripts = BTreeSet<ScriptHash>;
