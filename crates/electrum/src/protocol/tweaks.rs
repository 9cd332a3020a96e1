//! Streams of tweaks as values: the form in which blocks are sent, and the blocks that are left.

use bitcoin::BlockHash;

/// Form of the blocks of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TweakForm {
    pub(crate) coding: TweakCoding,
    pub(crate) spent: SpentPayments,
}

/// Coding of a block: the dialect's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TweakCoding {
    /// Version 1, with values, and the spenders of spent outputs.
    Json,
    /// Version 2.
    Binary,
}

/// Transactions whose taproot outputs are all spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpentPayments {
    LeftOut,
    /// The whole past is asked for.
    Sent,
}

/// The part of a stream that follows the reply, which has the first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TweakStream {
    pub(crate) form: TweakForm,
    /// Height of the first block.
    pub(crate) start: u32,
    /// Its hash, which shows a reorg before the second one is sent.
    pub(crate) first: BlockHash,
    /// Height after the last block.
    pub(crate) end: u32,
}
