//! Query for the documents of tombstoned events, by which tantivy deletes them.

use std::sync::Arc;

use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader, TantivyError};

use super::schema::SEQ;
use crate::event::Seq;
use crate::log::Tombstones;

/// Query that matches the documents of tombstoned events.
#[derive(Debug, Clone)]
pub(super) struct TombstoneDocs(Arc<Tombstones>);

impl TombstoneDocs {
    pub(super) fn new(tombstones: Tombstones) -> Self {
        Self(Arc::new(tombstones))
    }
}

impl Query for TombstoneDocs {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for TombstoneDocs {
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
        Err(TantivyError::InvalidArgument("tombstoned documents have no score".to_owned()))
    }
}
