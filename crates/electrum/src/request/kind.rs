//! Kinds of requests, for counting: the variants of every lane's enum, as one numbered set.

use strum::{EnumCount as _, IntoEnumIterator as _};

use super::{ConnectionKind, FeeKind, IndexRequest, LookupKind, MemoryKind, NodeKind, QueryKind, Request};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Connection(ConnectionKind),
    Memory(MemoryKind),
    Lookup(LookupKind),
    Query(QueryKind),
    Fee(FeeKind),
    Node(NodeKind),
}

/// Number of the first kind of each lane.
const MEMORY: usize = ConnectionKind::COUNT;
const LOOKUP: usize = MEMORY + MemoryKind::COUNT;
const QUERY: usize = LOOKUP + LookupKind::COUNT;
const FEE: usize = QUERY + QueryKind::COUNT;
const NODE: usize = FEE + FeeKind::COUNT;

impl RequestKind {
    /// Number of kinds.
    pub(crate) const COUNT: usize = NODE + NodeKind::COUNT;

    /// Returns the number of the kind, below [`Self::COUNT`].
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Connection(kind) => kind as usize,
            Self::Memory(kind) => MEMORY + kind as usize,
            Self::Lookup(kind) => LOOKUP + kind as usize,
            Self::Query(kind) => QUERY + kind as usize,
            Self::Fee(kind) => FEE + kind as usize,
            Self::Node(kind) => NODE + kind as usize,
        }
    }

    /// Returns the kind's name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connection(kind) => kind.into(),
            Self::Memory(kind) => kind.into(),
            Self::Lookup(kind) => kind.into(),
            Self::Query(kind) => kind.into(),
            Self::Fee(kind) => kind.into(),
            Self::Node(kind) => kind.into(),
        }
    }

    /// Returns every kind, in the order of their numbers.
    pub(crate) fn iter() -> impl Iterator<Item = Self> {
        let connection = ConnectionKind::iter().map(Self::Connection);
        let memory = MemoryKind::iter().map(Self::Memory);
        let lookup = LookupKind::iter().map(Self::Lookup);
        let query = QueryKind::iter().map(Self::Query);
        let fee = FeeKind::iter().map(Self::Fee);
        let node = NodeKind::iter().map(Self::Node);
        connection.chain(memory).chain(lookup).chain(query).chain(fee).chain(node)
    }
}

impl From<&Request> for RequestKind {
    fn from(request: &Request) -> Self {
        match request {
            Request::Connection(request) => Self::Connection(request.into()),
            Request::Memory(request) => Self::Memory(request.into()),
            Request::Index(IndexRequest::Lookup(lookup)) => Self::Lookup(lookup.into()),
            Request::Index(IndexRequest::Query(query)) => Self::Query(query.into()),
            Request::Index(IndexRequest::Fees(query)) => Self::Fee(query.into()),
            Request::Node(request) => Self::Node(request.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_own_number_and_name() {
        assert!(RequestKind::iter().map(RequestKind::index).eq(0..RequestKind::COUNT));
        let names: BTreeSet<_> = RequestKind::iter().map(RequestKind::name).collect();
        assert_eq!(names.len(), RequestKind::COUNT);
    }
}
