//! The events of a relay: what keeps and finds them.
//!
//! One writer, any number of readers. What is accepted is written to the log, published, and shown, in this order; the
//! tail is sealed now and then, and segments are merged.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use birdhouse_store::Store;

use crate::audience::Audience;
use crate::dead::{Dead, Death, Deaths};
use crate::error::{Error, Result};
use crate::event::{EventId, VerifiedEvent};
use crate::filter::Filter;
use crate::judge::{self, Judge, Judgement};
use crate::log::{Log, Seq};
use crate::mark::Mark;
use crate::merge::Reader;
use crate::packed::Packed;
use crate::plan::{Plan, plan};
use crate::posting::{ListKey, Lists};
use crate::relay_url::RelayUrl;
use crate::scan::{self, Bounds, Position};
use crate::seal;
use crate::segment::{OpenSegment, SegmentArrays};
use crate::tail::Tail;

/// What an operator decides.
#[derive(Debug, Clone)]
pub struct EventsOptions {
    /// Events in memory before they are sealed.
    pub tail_events: usize,
    /// What the relay is called in requests to vanish (NIP-62), and by clients that prove who they are (NIP-42).
    pub urls: Vec<RelayUrl>,
}

impl Default for EventsOptions {
    fn default() -> Self {
        Self { tail_events: 1 << 15, urls: Vec::new() }
    }
}

/// See the module.
pub struct Events {
    store: Arc<dyn Store>,
    lists: Lists,
    log: Log,
    arrays: SegmentArrays,
    deaths: Deaths,
    options: EventsOptions,
    shown: RwLock<Shown>,
    /// What is published; `None` once a write has failed. Whoever holds it is the writer.
    mark: Mutex<Option<Mark>>,
}

/// What readers see.
struct Shown {
    tail: Tail,
    segments: Vec<Arc<OpenSegment>>,
    dead: Dead,
    end: Seq,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is kept, and durable.
    Stored(Seq),
    /// It was there.
    Duplicate,
    /// A newer version is there.
    Superseded,
    /// Its author asked for its deletion.
    Deleted,
}

/// Events of a filter, from one moment.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// What is asked for; its `limit` is the caller's affair.
    pub filter: &'a Filter,
    /// Later events are left out.
    pub end: Seq,
    /// Events that have expired by then are left out (NIP-40), seconds since 1970.
    pub now: u32,
    /// What is not for these is left out.
    pub audience: Audience<'a>,
}

impl Events {
    /// Opens what is in the store. An empty one keeps `secret`, under which its lists are named.
    pub fn open(store: Arc<dyn Store>, secret: [u8; 16], options: EventsOptions) -> Result<Self> {
        let mark = match store.mark()? {
            Some(bytes) => Mark::decode(&bytes)?,
            None => Mark::new(secret),
        };
        let lists = Lists::new(&mark.secret);
        let log = Log::open(&*store, mark.log)?;
        let arrays = SegmentArrays::open(&*store, mark.ends)?;
        arrays.sweep(&mark.segments, mark.ends)?;
        let deaths = Deaths::open(&*store, mark.dead)?;
        let segments = mark.segments.iter().map(|segment| Ok(Arc::new(arrays.segment(*segment)?)));
        let segments = segments.collect::<Result<_>>()?;
        let mut tail = Tail::new(mark.tail);
        for seq in mark.tail.0..mark.log.seq {
            tail.push(&log.event(Seq(seq))?, &lists);
        }
        let shown = Shown { tail, segments, dead: deaths.load()?, end: Seq(mark.log.seq) };
        let (shown, mark) = (RwLock::new(shown), Mutex::new(Some(mark)));
        Ok(Self { store, lists, log, arrays, deaths, options, shown, mark })
    }

    /// Later events have higher numbers.
    pub fn end(&self) -> Seq {
        self.shown().end
    }

    /// What the relay of these events is called.
    pub fn urls(&self) -> &[RelayUrl] {
        &self.options.urls
    }

    /// Events that can be found.
    pub fn live_events(&self) -> u64 {
        let shown = self.shown();
        shown.end.0 - shown.dead.count()
    }

    /// Takes events in, in their order, all or none: durable when it returns.
    ///
    /// # Errors
    /// After an error nothing more is taken in until the store is opened again: what is in memory may not be what is on the disk.
    pub fn accept(&self, events: &[&VerifiedEvent]) -> Result<Vec<Accepted>> {
        let mut writer = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mark = writer.take().ok_or(Error::Failed)?;
        let outcomes = self.write(&mut mark, events)?;
        *writer = Some(mark);
        Ok(outcomes)
    }

    fn write(&self, mark: &mut Mark, events: &[&VerifiedEvent]) -> Result<Vec<Accepted>> {
        let mut outcomes = Vec::with_capacity(events.len());
        let (before, mut doomed) = (mark.log, HashSet::new());
        for event in events {
            let judgement = {
                let shown = self.shown();
                let reader = Reader { doomed: Some(&doomed), ..self.reader(&shown, Seq(u64::MAX)) };
                Judge { reader, lists: &self.lists, urls: &self.options.urls }.judge(event)?
            };
            outcomes.push(match judgement {
                Judgement::Refused(why) => why,
                Judgement::Stored { ends } => {
                    mark.log = self.log.append(mark.log, event)?;
                    let by = self.change().tail.push(event, &self.lists);
                    let deaths: Vec<Death> = ends.iter().map(|of| Death { of: *of, by }).collect();
                    mark.dead = self.deaths.append(mark.dead, &deaths)?;
                    doomed.extend(ends);
                    Accepted::Stored(by)
                }
            });
        }
        if mark.log == before {
            return Ok(outcomes);
        }
        self.store.publish(&mark.encode())?;
        {
            let mut shown = self.change();
            for seq in doomed {
                shown.dead.add(seq);
            }
            shown.end = Seq(mark.log.seq);
        }
        if self.shown().tail.len() >= self.options.tail_events {
            self.seal(mark)?;
        }
        Ok(outcomes)
    }

    /// Shows the next `rows` events of a query; where to go on, `None` at the end. In the order of NIP-01: the newest first, of
    /// equal times the lowest id first.
    pub fn page(
        &self,
        query: Query<'_>,
        from: Option<Position>,
        rows: usize,
        show: &mut dyn FnMut(Seq, Packed<'_>),
    ) -> Result<Option<Position>> {
        let shown = self.shown();
        let reader = self.reader(&shown, query.end.min(shown.end));
        let size = |spans: &[(ListKey, ListKey)]| judge::size(reader, spans);
        let bounds = Bounds { rows, from, now: query.now, audience: query.audience };
        match plan(query.filter, rows, &self.lists, size) {
            Plan::Nothing => Ok(None),
            Plan::Ids(ids) => scan::ids(reader, query.filter, &ids, bounds, show),
            Plan::Merge(merge) => scan::run(reader, query.filter, &merge, bounds, show),
        }
    }

    /// Whether an event of this id can be found.
    pub fn has(&self, id: &EventId) -> Result<bool> {
        let shown = self.shown();
        Ok(judge::find(self.reader(&shown, shown.end), id)?.is_some())
    }

    /// Makes a segment of the tail, and one of several when there are enough.
    fn seal(&self, mark: &mut Mark) -> Result<()> {
        let (tail_end, mut segments) = {
            let shown = self.shown();
            let (segment, ends) = seal::tail(&shown.tail, &shown.dead, &self.arrays, mark.ends)?;
            (mark.segments, mark.ends) = ([mark.segments.as_slice(), &[segment]].concat(), ends);
            let opened = Arc::new(self.arrays.segment(segment)?);
            (shown.tail.end(), [shown.segments.as_slice(), &[opened]].concat())
        };
        mark.tail = tail_end;
        while let Some(chosen) = seal::choose(&sizes(mark), self.options.tail_events as u64) {
            let merged: Vec<_> = chosen.iter().map(|place| Arc::clone(&segments[*place])).collect();
            let (segment, ends) = seal::segments(&merged, &self.shown().dead, &self.log, &self.arrays, mark.ends)?;
            for place in chosen.iter().rev() {
                mark.segments.remove(*place);
                segments.remove(*place);
            }
            (mark.segments, mark.ends) = ([mark.segments.as_slice(), &[segment]].concat(), ends);
            segments.push(Arc::new(self.arrays.segment(segment)?));
        }
        self.store.publish(&mark.encode())?;
        {
            let mut shown = self.change();
            shown.tail = Tail::new(tail_end);
            shown.segments = segments;
        }
        // Only now: nobody reads what was merged any more, and no mark leads to it.
        self.arrays.sweep(&mark.segments, mark.ends)
    }

    fn reader<'a>(&'a self, shown: &'a Shown, end: Seq) -> Reader<'a> {
        Reader { log: &self.log, tail: &shown.tail, segments: &shown.segments, dead: &shown.dead, doomed: None, end }
    }

    fn shown(&self) -> RwLockReadGuard<'_, Shown> {
        // What changes it cannot panic halfway.
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Shown> {
        self.shown.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sizes(mark: &Mark) -> Vec<u64> {
    mark.segments.iter().map(|segment| segment.ids.count).collect()
}
