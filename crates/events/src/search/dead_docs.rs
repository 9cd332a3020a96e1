//! The documents of dead events, as something that tantivy can delete.

use std::sync::Arc;

use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader, TantivyError};

use super::index::SEQ;
use crate::dead::Dead;
use crate::log::Seq;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct DeadDocs(Arc<Dead>);

impl DeadDocs {
    pub(super) fn new(dead: Dead) -> Self {
        Self(Arc::new(dead))
    }
}

impl Query for DeadDocs {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for DeadDocs {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let seqs = reader.fast_fields().column_first_or_default::<u64>(SEQ)?;
        let mut found = BitSet::with_max_value(reader.max_doc());
        for doc in 0..reader.max_doc() {
            if self.0.contains(Seq(seqs.get_val(doc))) {
                found.insert(doc);
            }
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(found), boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Err(TantivyError::InvalidArgument("the dead have no score".to_owned()))
    }
}
