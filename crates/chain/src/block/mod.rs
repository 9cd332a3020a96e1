//! Blocks: bytes to transactions, spent outputs, and the scripts that both touch. Pure.
//!
//! May use `names` and `outside`.

mod bytes;
pub(crate) mod merkle;
mod parse;
pub(crate) mod prefetch;
mod proved;
mod sigops;
mod spent;
mod touches;
mod undo;

pub use self::bytes::Malformed;
pub(crate) use self::bytes::{
    Cursor, compress_amount, decompress_amount, put_first, put_leb128, put_uint_le, uint_width,
};
pub(crate) use self::parse::{Block, is_indexed, outpoints_of, output_of, txid_of};
pub use self::parse::{BlockError, proved_txids};
pub use self::proved::ProvedBlock;
pub(crate) use self::proved::ProvedTransaction;
pub(crate) use self::sigops::{Program, sigop_cost};
pub(crate) use self::spent::{Origin, SpentOutputs};
pub(crate) use self::touches::{BlockTouches, Funded, SpendingInput};
pub use self::undo::UndoOwner;
