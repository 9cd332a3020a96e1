//! What becomes of an event that is valid: whether it is kept, and which others it ends (NIP-01, 09, 62).
//!
//! The index answers: a deletion request is found among the events that name its target, a version among its author's.

use crate::error::Result;
use crate::event::{Event, EventId, Pubkey};
use crate::events::Accepted;
use crate::filter::Filter;
use crate::kind::{Kind, KindClass};
use crate::log::Seq;
use crate::merge::Reader;
use crate::plan::{Check, Merge};
use crate::posting::{Common, ListKey, Lists};
use crate::scan::{self, Bounds};

/// Events are looked at in pages of so many.
const PAGE: usize = 256;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    Stored { ends: Vec<Seq> },
    Refused(Accepted),
}

/// Judges an event against those that were accepted before it.
pub(crate) fn judge(event: &Event, lists: &Lists, reader: Reader<'_>) -> Result<Judgement> {
    if find(reader, &event.id)?.is_some() {
        return Ok(Judgement::Refused(Accepted::Duplicate));
    }
    let mut ends = Vec::new();
    for (seq, other) in versions(event, lists, reader)? {
        if is_newer(event, &other) {
            ends.push(seq);
        } else {
            return Ok(Judgement::Refused(Accepted::Superseded));
        }
    }
    Ok(Judgement::Stored { ends })
}

/// Whether one version of an event takes the place of another (NIP-01): the newer, of equal times the one with the lowest id.
fn is_newer(event: &Event, other: &Event) -> bool {
    (event.created_at, std::cmp::Reverse(event.id)) > (other.created_at, std::cmp::Reverse(other.id))
}

/// The versions of a replaceable or addressable event that can be found: at most one, but for hashes that meet.
fn versions(event: &Event, lists: &Lists, reader: Reader<'_>) -> Result<Vec<(Seq, Event)>> {
    let common = match event.kind.class() {
        KindClass::Replaceable => Common::Author(&event.pubkey),
        KindClass::Addressable => Common::Address(&event.pubkey, event.d()),
        KindClass::Regular | KindClass::Ephemeral => return Ok(Vec::new()),
    };
    let list = lists.name(common).of_kind(event.kind);
    let mut versions = of_list(reader, list, &event.pubkey, event.kind)?;
    versions.retain(|(_, other)| event.kind.class() == KindClass::Replaceable || other.d() == event.d());
    Ok(versions)
}

/// The events of one list by one author, the newest first.
fn of_list(reader: Reader<'_>, list: ListKey, author: &Pubkey, kind: Kind) -> Result<Vec<(Seq, Event)>> {
    let filter = Filter { authors: Some(vec![*author]), kinds: Some(vec![kind]), ..Filter::default() };
    let plan = Merge { spans: vec![(list, list)], check: Check::default(), scan: None };
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        // Expired events are still versions.
        let bounds = Bounds { rows: PAGE, from, now: 0 };
        let mut take =
            |seq, packed: crate::packed::Packed<'_>| found.extend(packed.to_event().map(|event| (seq, event)));
        from = scan::run(reader, &filter, &plan, bounds, &mut take)?;
        if from.is_none() {
            return Ok(found);
        }
    }
}

/// The number of an event that can be found.
pub(crate) fn find(reader: Reader<'_>, id: &EventId) -> Result<Option<Seq>> {
    let mut candidates: Vec<Seq> = reader.tail.find(id).into_iter().collect();
    for segment in reader.segments {
        candidates.extend(segment.candidates(id)?);
    }
    candidates.retain(|seq| *seq < reader.end && !reader.dead.contains(*seq));
    let heads = reader.log.heads(candidates.iter().copied())?;
    Ok(candidates.into_iter().zip(heads).find(|(_, head)| head.id == id.0).map(|(seq, _)| seq))
}

/// Roughly how many postings lists hold; lists that cannot be read are left to who reads them.
pub(crate) fn size(reader: Reader<'_>, spans: &[(ListKey, ListKey)]) -> u64 {
    let in_tail = spans.iter().flat_map(|(first, last)| reader.tail.lists(*first, *last)).map(|list| list.len() as u64);
    let in_segments = reader.segments.iter().filter_map(|segment| segment.runs(spans).ok()).flatten();
    in_tail.sum::<u64>() + in_segments.map(|run| run.count).sum::<u64>()
}
