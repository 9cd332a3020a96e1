//! Names of funding transactions in the records of the build. Inputs name the outputs that they spend by txid, so a
//! record has the name of the funding transaction, made of the keyed hash of its txid. Pure.
//!
//! ```text
//! by hash     hash 64
//! by place    0 | height 23 | hash 40         coinbases: 1 | hash 63
//! ```
//!
//! By place, height and output number alone tell nearly all outputs of one script apart, so runs leave names out
//! ([`ScriptState::encode`](super::script_state::ScriptState::encode)). A coinbase is known by its hash alone, for two
//! of 2010 have the txids of earlier ones.

use crate::block::Origin;
use crate::names::{Height, TxNum};
use crate::outside::BlockSource;

/// The name of a coin whose run left it out.
pub(super) const UNNAMED: u64 = 0;

const COINBASE: u64 = 1 << 63;
const HASH_BITS: u32 = 40;
/// No name by place is below, for nothing can spend an output of the genesis block. So a txnum can be told from a name.
pub(crate) const NUMBERS_END: u64 = 1 << HASH_BITS;
const _: () = assert!(TxNum::LIMIT <= NUMBERS_END);
const HEIGHT_LIMIT: u32 = 1 << (63 - HASH_BITS);

/// The form of all names of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    Hash,
    /// For sources with undo data.
    Place,
}

impl Naming {
    pub(super) fn of(source: &dyn BlockSource) -> Self {
        if source.gives_undo_data() { Self::Place } else { Self::Hash }
    }

    /// Returns a name, which is never [`UNNAMED`]; `None` if it takes a place, and there is none.
    #[inline]
    pub(super) fn name(self, hash: u64, origin: Option<Origin>) -> Option<u64> {
        match self {
            Self::Hash => Some(hash.max(1)),
            Self::Place => match origin? {
                Origin { is_coinbase: true, .. } => Some(COINBASE | hash),
                Origin { height, .. } if height.0 < HEIGHT_LIMIT => {
                    Some(u64::from(height.0) << HASH_BITS | hash >> (64 - HASH_BITS))
                }
                Origin { .. } => None,
            },
        }
    }

    /// Returns the height in a name.
    #[inline]
    pub(super) fn height(self, name: u64) -> Option<Height> {
        let height = u32::try_from(name >> HASH_BITS).ok().filter(|height| *height < HEIGHT_LIMIT);
        height.filter(|_| self == Self::Place).map(Height)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_name_by_place_has_the_height_but_for_coinbases() {
        let origin = |height, is_coinbase| Some(Origin { height: Height(height), is_coinbase });
        let name = Naming::Place.name(u64::MAX, origin(930_000, false)).unwrap();
        assert_eq!(name, 930_000 << 40 | 0xff_ffff_ffff);
        assert_eq!(Naming::Place.height(name), Some(Height(930_000)));
        let coinbase = Naming::Place.name(5, origin(930_000, true)).unwrap();
        assert_eq!((coinbase, Naming::Place.height(coinbase)), (1 << 63 | 5, None));
        assert_eq!(Naming::Place.name(5, None), None);
        assert_eq!(Naming::Place.name(5, origin(HEIGHT_LIMIT, false)), None);
        assert_eq!((Naming::Hash.name(5, None), Naming::Hash.height(5)), (Some(5), None));
    }
}
