//! A chain of any size that needs no disk: a block source whose blocks and undo data are made again from the height
//! whenever they are read, with the shape of mainnet by epoch.
//!
//! | file | what lives there |
//! |---|---|
//! | [`numbers`] | keyed hashes, permutations with their inverse, running numbers |
//! | [`epochs`] | the shape of mainnet by epoch |
//! | [`cell`] | orders of the transactions of a cell |
//! | [`places`] | names of transactions, outputs and scripts by numbers |
//! | [`queues`], [`reuse`] | which output an input spends, which script an output pays; both ways |
//! | [`layout`] | the chain as numbers |
//! | [`scripts`], [`encode`] | bytes of scripts, transactions, blocks and undo data |
//! | [`source`] | [`VirtualNode`], the block source |
//! | [`answers`] | what an index must answer, from the numbers alone |
//!
//! Each output is spent at most once, and each input has its output: both are permutations over windows of running
//! numbers, so there is no table of coins. A block costs what it takes to write it; so does a script's history,
//! whatever the size of the chain.
//!
//! # What it cannot check
//!
//! A txid depends on those of all ancestors, which nobody can keep for a chain that is not stored. So an input names
//! its transaction by a keyed hash of the transaction's number ([`BlockSource::outpoint_txids`]). The first build
//! matches inputs and outputs by this name, and never looks one up. Each transaction's own txid, merkle roots and
//! headers are true. Hence history, balance, unspent outputs, headers and merkle proofs can be compared. Spenders of
//! outputs, and the outputs that a transaction spends, cannot: they are found by the txid in an input. Nor can blocks
//! be appended at the tip, which looks up what they spend. Values are random: a transaction may pay out more than it
//! takes in. Coinbases have no witness, and commit to noise.
//!
//! [`BlockSource::outpoint_txids`]: birdhouse_chain::source::BlockSource::outpoint_txids

mod answers;
mod cell;
mod encode;
mod epochs;
mod layout;
mod numbers;
mod places;
mod queues;
mod reuse;
mod scripts;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use self::answers::{Answer, Sample};
pub(crate) use self::layout::Layout;
pub(crate) use self::source::VirtualNode;
