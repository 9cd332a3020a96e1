//! What becomes of an event that is valid: whether it is kept, and which others it ends (NIP-01, 09, 62).
//!
//! The index answers: requests to delete an event are found among those that name it, requests to vanish and other versions
//! among its author's.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::address::Address;
use crate::audience::Audience;
use crate::deletion::{Deletion, Vanish};
use crate::error::{Error, Result};
use crate::event::{Event, EventId, Pubkey};
use crate::events::{Accepted, TagsBy};
use crate::explain::Cost;
use crate::filter::Filter;
use crate::kind::{Kind, KindClass};
use crate::log::{Head, Seq};
use crate::merge::Reader;
use crate::packed::Packed;
use crate::plan::{Check, Merge, Spans};
use crate::posting::{Common, ListKey, ListName, Lists};
use crate::relay_url::RelayUrl;
use crate::scan::{self, Bounds};
use crate::segment::OpenSegment;
use crate::tag::Letter;

/// Events are looked at in pages of so many.
const PAGE: usize = 256;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    Stored { ends: Vec<Seq> },
    Refused(Accepted),
}

/// What is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) lists: &'a Lists,
    /// What the relay is called in requests to vanish.
    pub(crate) urls: &'a [RelayUrl],
}

impl Judge<'_> {
    /// Judges an event against those that were accepted before it.
    pub(crate) fn judge(self, event: &Event) -> Result<Judgement> {
        if find(self.reader, &event.id)?.is_some() {
            return Ok(Judgement::Refused(Accepted::Duplicate));
        }
        if self.is_deleted(event)? || self.has_vanished(event)? {
            return Ok(Judgement::Refused(Accepted::Deleted));
        }
        let mut ends = Vec::new();
        if let Some(address) = event.address() {
            for (seq, other) in self.versions(&address)? {
                if !event.supersedes(&other) {
                    return Ok(Judgement::Refused(Accepted::Superseded));
                }
                ends.push(seq);
            }
        }
        if let Some(deletion) = Deletion::of(event) {
            self.deleted(&deletion, &mut ends)?;
        }
        if let Some(vanish) = Vanish::of(event, self.urls) {
            self.vanished(vanish, &mut ends)?;
        }
        ends.sort_unstable();
        ends.dedup();
        Ok(Judgement::Stored { ends })
    }

    // === what came before forbids it ===

    fn is_deleted(self, event: &Event) -> Result<bool> {
        let by_id = self.tag("e", &event.id.to_string());
        let by_address = event.address().map(|address| self.tag("a", &address.to_string()));
        let lists: Vec<ListKey> =
            [Some(by_id), by_address].into_iter().flatten().map(|name| name.of_kind(Kind::DELETION)).collect();
        let requests = self.read(&spans(&lists), Some(&owners(event)))?;
        Ok(requests.iter().filter_map(|(_, request)| Deletion::of(request)).any(|deletion| deletion.covers(event)))
    }

    fn has_vanished(self, event: &Event) -> Result<bool> {
        let list = |owner: &Pubkey| self.lists.name(Common::Author(owner)).of_kind(Kind::VANISH);
        let lists: Vec<ListKey> = owners(event).iter().map(list).collect();
        let requests = self.read(&spans(&lists), None)?;
        let vanishes = requests.iter().filter_map(|(_, request)| Vanish::of(request, self.urls));
        Ok(vanishes.into_iter().any(|vanish| vanish.covers(event)))
    }

    // === it ends what came before ===

    /// The versions at an address that can be found.
    fn versions(self, address: &Address) -> Result<Vec<(Seq, Event)>> {
        let author = address.author();
        let common = match address.kind().class() {
            KindClass::Addressable => Common::Address(&author, address.d()),
            _ => Common::Author(&author),
        };
        let list = self.lists.name(common).of_kind(address.kind());
        let mut versions = self.read(&spans(&[list]), None)?;
        versions.retain(|(_, version)| version.address().as_ref() == Some(address));
        Ok(versions)
    }

    fn deleted(self, deletion: &Deletion, ends: &mut Vec<Seq>) -> Result<()> {
        for id in &deletion.ids {
            if let Some(seq) = find(self.reader, id)?
                && deletion.covers(&self.reader.log.event(seq)?)
            {
                ends.push(seq);
            }
        }
        for address in &deletion.addresses {
            let versions = self.versions(address)?;
            ends.extend(versions.iter().filter(|(_, version)| deletion.covers(version)).map(|(seq, _)| *seq));
        }
        Ok(())
    }

    fn vanished(self, vanish: Vanish, ends: &mut Vec<Seq>) -> Result<()> {
        let said = self.lists.name(Common::Author(&vanish.author)).of_all_kinds();
        let wraps = self.tag("p", &vanish.author.to_string()).of_kind(Kind::GIFT_WRAP);
        for span in [said, (wraps, wraps)] {
            let found = self.read(&[span], None)?;
            ends.extend(found.iter().filter(|(_, event)| vanish.covers(event)).map(|(seq, _)| *seq));
        }
        Ok(())
    }

    // === reading ===

    fn tag(self, letter: &str, value: &str) -> ListName {
        self.lists.name(Common::Tag(Letter::parse(letter).expect("one letter"), value))
    }

    /// The events of some lists, by these authors.
    fn read(self, spans: &[(ListKey, ListKey)], authors: Option<&[Pubkey]>) -> Result<Vec<(Seq, Event)>> {
        let filter = Filter::default();
        let authors = authors.map(|authors| {
            let hashes = authors.iter().map(|author| self.lists.author(author));
            Check::authors(hashes)
        });
        let plan = Merge { lists: spans.to_vec().into(), check: Check { authors, kinds: None }, scan: None };
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            // What has expired counts: it is there until it is swept.
            let bounds = Bounds { rows: PAGE, from, now: 0, audience: Audience::Operator, tags: TagsBy::Event };
            let mut take = |seq, packed: Packed<'_>| {
                found.push((seq, packed.to_event()));
                ControlFlow::Continue(())
            };
            from = scan::run(self.reader, &filter, &plan, bounds, &mut Cost::default(), &mut take)?;
            if from.is_none() {
                let whole = found.into_iter().map(|(seq, event)| Ok((seq, event.ok_or(Error::CorruptEvent(seq))?)));
                return whole.collect();
            }
        }
    }
}

/// Who may have an event deleted: its author, and of a gift wrap those it is for. Ascending.
fn owners(event: &Event) -> Vec<Pubkey> {
    let mut owners = vec![event.pubkey];
    if event.kind == Kind::GIFT_WRAP {
        owners.extend(event.values("p").filter_map(Pubkey::parse));
        owners.sort_unstable();
        owners.dedup();
    }
    owners
}

fn spans(lists: &[ListKey]) -> Vec<(ListKey, ListKey)> {
    let mut spans: Vec<_> = lists.iter().map(|list| (*list, *list)).collect();
    spans.sort_unstable();
    spans
}

/// The number of an event that can be found.
pub(crate) fn find(reader: Reader<'_>, id: &EventId) -> Result<Option<Seq>> {
    Ok(find_many(reader, std::slice::from_ref(id))?.remove(0).map(|(seq, _)| seq))
}

/// The same of several, with their heads.
pub(crate) fn find_many(reader: Reader<'_>, ids: &[EventId]) -> Result<Vec<Option<(Seq, Head)>>> {
    let mut candidates: Vec<(usize, Seq)> = {
        let tail = reader.tail();
        ids.iter().enumerate().filter_map(|(place, id)| Some((place, tail.find(id)?))).collect()
    };
    for segment in reader.segments {
        segment.candidates(ids, &mut candidates)?;
    }
    candidates.retain(|(_, seq)| reader.shows(*seq));
    let heads = reader.log.heads(candidates.iter().map(|(_, seq)| *seq))?;
    let mut found = vec![None; ids.len()];
    for ((place, seq), head) in candidates.into_iter().zip(heads) {
        if head.id == ids[place].0 {
            found[place] = Some((seq, head));
        }
    }
    Ok(found)
}

/// Roughly how many postings lists hold; lists that cannot be read are left to who reads them.
pub(crate) fn size(reader: Reader<'_>, lists: &Spans) -> u64 {
    let in_tail: u64 = {
        let tail = reader.tail();
        lists.ranges.iter().map(|range| tail.count(*range)).sum()
    };
    let runs = |segment: &Arc<OpenSegment>| segment.runs(lists.among(segment.segment.letters)).ok();
    let in_segments = reader.segments.iter().filter_map(runs).flatten();
    in_tail + in_segments.map(|run| run.count).sum::<u64>()
}
