//! Parts of blocks that the node has removed, gathered while an answer is made, so that they are fetched together: one
//! after the other, each would need a turn of its own.

use birdhouse_chain::Error;
use birdhouse_chain::source::BlockPart;

use crate::api::failure::Failure;
use crate::limits::API_FETCHED_PARTS_MAX;

/// An error that may say which parts of removed blocks a read needs.
pub(super) trait Incomplete: From<Error> {
    /// Returns the missing parts.
    ///
    /// # Errors
    /// Itself, if nothing is missing.
    fn missing(self) -> Result<Vec<BlockPart>, Self>;
}

impl Incomplete for Error {
    fn missing(self) -> Result<Vec<BlockPart>, Self> {
        match self {
            Self::Removed { parts } => Ok(parts),
            other => Err(other),
        }
    }
}

impl Incomplete for Failure {
    fn missing(self) -> Result<Vec<BlockPart>, Self> {
        match self {
            Self::Removed(parts) => Ok(parts),
            other @ Self::Refused(..) => Err(other),
        }
    }
}

/// Parts of removed blocks that the reads of one answer need, at most [`API_FETCHED_PARTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Missing(Vec<BlockPart>);

impl Missing {
    /// Takes the outcome of a read; `None` if removed blocks have its answer.
    ///
    /// # Errors
    /// Another failure; and the parts so far, once they are as many as are fetched together.
    pub(super) fn take<T, E: Incomplete>(&mut self, read: Result<T, E>) -> Result<Option<T>, E> {
        let parts = match read {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error.missing()?,
        };
        for part in parts {
            if self.0.len() == API_FETCHED_PARTS_MAX {
                return Err(Error::Removed { parts: std::mem::take(&mut self.0) }.into());
            }
            if !self.0.contains(&part) {
                self.0.push(part);
            }
        }
        Ok(None)
    }

    /// Ends the reads.
    ///
    /// # Errors
    /// The missing parts, if there are any.
    pub(super) fn end(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Removed { parts: self.0 }) }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn part(number: u32) -> BlockPart {
        BlockPart { block: BlockHash::all_zeros(), offset: number, len: 1 }
    }

    fn removed(numbers: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        Err(Error::Removed { parts: numbers.into_iter().map(part).collect() })
    }

    fn parts_of(ended: Result<(), Error>) -> Vec<BlockPart> {
        match ended {
            Err(Error::Removed { parts }) => parts,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_all_reads_need_is_named_once() {
        let mut missing = Missing::default();
        assert!(matches!(missing.take(removed([1, 2])), Ok(None)));
        assert!(matches!(missing.take(Ok::<_, Error>(7)), Ok(Some(7))));
        assert!(matches!(missing.take(removed([2, 3])), Ok(None)));
        assert_eq!(parts_of(missing.end()), [1, 2, 3].map(part));
        assert!(Missing::default().end().is_ok());
    }

    #[test]
    fn no_more_are_named_than_are_fetched_together() {
        let mut missing = Missing::default();
        let max = u32::try_from(API_FETCHED_PARTS_MAX).unwrap_or(u32::MAX);
        assert!(matches!(missing.take(removed(0..max)), Ok(None)));
        assert_eq!(parts_of(missing.take(removed([max])).map(drop)), (0..max).map(part).collect::<Vec<_>>());
    }

    #[test]
    fn another_failure_ends_the_reads() {
        let mut missing = Missing::default();
        assert!(matches!(missing.take(removed([1])), Ok(None)));
        assert!(matches!(missing.take(Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled)));
    }
}
