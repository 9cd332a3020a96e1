//! Admission of valid events: stores or refuses an event, and finds the events that it replaces ([NIP-01], [NIP-09],
//! [NIP-62]).
//!
//! The index answers both questions: deletion requests are in the lists of the tags that name the event, vanish
//! requests and other versions in the lists of the author.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md
//! [NIP-09]: https://github.com/nostr-protocol/nips/blob/master/09.md
//! [NIP-62]: https://github.com/nostr-protocol/nips/blob/master/62.md

use std::ops::ControlFlow;

use crate::accepted::Accepted;
use crate::address::Address;
use crate::audience::Audience;
use crate::deletion::{Deletion, Vanish};
use crate::error::{Error, Result};
use crate::event::{Event, Pubkey};
use crate::explain::Cost;
use crate::filter::Filter;
use crate::kind::{Kind, KindClass};
use crate::lookup::find;
use crate::packed::Packed;
use crate::plan::{Check, Merge};
use crate::posting::{ListKey, ListName, ListSubject};
use crate::query::TagsBy;
use crate::reader::Reader;
use crate::relay_url::RelayUrl;
use crate::scan::{self, Bounds};
use crate::seq::Seq;
use crate::tag::Letter;

/// Events of one page.
const PAGE: usize = 256;

/// Outcome of an admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Store { replaces: Vec<Seq> },
    Refuse(Accepted),
}

/// State that an admission decision reads.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) reader: Reader<'a>,
    /// Public URLs of the relay, for vanish requests.
    pub(crate) urls: &'a [RelayUrl],
}

impl Admission<'_> {
    /// Decides on an event, given those that were accepted before it.
    pub(crate) fn decide(self, event: &Event) -> Result<Decision> {
        if find(self.reader, &event.id)?.is_some() {
            return Ok(Decision::Refuse(Accepted::Duplicate));
        }
        if self.is_deleted(event)? || self.has_vanished(event)? {
            return Ok(Decision::Refuse(Accepted::Deleted));
        }
        let mut replaces = Vec::new();
        if let Some(address) = event.address() {
            for (seq, other) in self.versions(&address)? {
                if !event.supersedes(&other) {
                    return Ok(Decision::Refuse(Accepted::Superseded));
                }
                replaces.push(seq);
            }
        }
        if let Some(deletion) = Deletion::of(event) {
            self.add_deleted(&deletion, &mut replaces)?;
        }
        if let Some(vanish) = Vanish::of(event, self.urls) {
            self.add_vanished(vanish, &mut replaces)?;
        }
        replaces.sort_unstable();
        replaces.dedup();
        Ok(Decision::Store { replaces })
    }

    // === refusals by earlier events ===

    fn is_deleted(self, event: &Event) -> Result<bool> {
        let by_id = self.tag("e", &event.id.to_string());
        let by_address = event.address().map(|address| self.tag("a", &address.to_string()));
        let lists: Vec<ListKey> =
            [Some(by_id), by_address].into_iter().flatten().map(|name| name.of_kind(Kind::DELETION)).collect();
        let requests = self.read(&spans(&lists), Some(&owners(event)))?;
        Ok(requests.iter().filter_map(|(_, request)| Deletion::of(request)).any(|deletion| deletion.covers(event)))
    }

    fn has_vanished(self, event: &Event) -> Result<bool> {
        let list = |owner: &Pubkey| self.reader.index.name(ListSubject::Author(owner)).of_kind(Kind::VANISH);
        let lists: Vec<ListKey> = owners(event).iter().map(list).collect();
        let requests = self.read(&spans(&lists), None)?;
        let vanishes = requests.iter().filter_map(|(_, request)| Vanish::of(request, self.urls));
        Ok(vanishes.into_iter().any(|vanish| vanish.covers(event)))
    }

    // === events that it replaces ===

    /// Returns the visible versions at an address.
    fn versions(self, address: &Address) -> Result<Vec<(Seq, Event)>> {
        let author = address.author();
        let common = match address.kind().class() {
            KindClass::Addressable => ListSubject::Address(&author, address.d()),
            _ => ListSubject::Author(&author),
        };
        let list = self.reader.index.name(common).of_kind(address.kind());
        let mut versions = self.read(&spans(&[list]), None)?;
        versions.retain(|(_, version)| version.address().as_ref() == Some(address));
        Ok(versions)
    }

    fn add_deleted(self, deletion: &Deletion, replaces: &mut Vec<Seq>) -> Result<()> {
        for id in &deletion.ids {
            if let Some(seq) = find(self.reader, id)?
                && deletion.covers(&self.reader.log.event(seq)?)
            {
                replaces.push(seq);
            }
        }
        for address in &deletion.addresses {
            let versions = self.versions(address)?;
            replaces.extend(versions.iter().filter(|(_, version)| deletion.covers(version)).map(|(seq, _)| *seq));
        }
        Ok(())
    }

    fn add_vanished(self, vanish: Vanish, replaces: &mut Vec<Seq>) -> Result<()> {
        let said = self.reader.index.name(ListSubject::Author(&vanish.author)).of_all_kinds();
        let wraps = self.tag("p", &vanish.author.to_string()).of_kind(Kind::GIFT_WRAP);
        for span in [said, (wraps, wraps)] {
            let found = self.read(&[span], None)?;
            replaces.extend(found.iter().filter(|(_, event)| vanish.covers(event)).map(|(seq, _)| *seq));
        }
        Ok(())
    }

    // === reading ===

    fn tag(self, letter: &str, value: &str) -> ListName {
        self.reader.index.name(ListSubject::Tag(Letter::parse(letter).expect("one letter"), value))
    }

    /// Reads the events of some lists, optionally those of certain authors only.
    fn read(self, spans: &[(ListKey, ListKey)], authors: Option<&[Pubkey]>) -> Result<Vec<(Seq, Event)>> {
        let filter = Filter::default();
        let authors = authors.map(|authors| {
            let hashes = authors.iter().map(|author| self.reader.index.author(author));
            Check::authors(hashes)
        });
        let plan = Merge { lists: spans.to_vec().into(), check: Check { authors, kinds: None }, scan: None };
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            // Expired events count until they are removed.
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

/// Returns the keys that may have an event deleted, ascending: its author, and the recipients of a gift wrap.
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
