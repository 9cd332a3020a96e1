//! The events of a relay: what keeps and finds them.
//!
//! One writer, any number of readers, and one who tidies. What is accepted is written to the log, shown, and published, in this
//! order: readers need not wait for the disk, whoever is told that an event is kept does. When the tail is full it is sealed into a
//! segment. Whatever takes longer waits for [`Events::tend`], which goes on beside both: segments are merged, and lists that an
//! older index did not have are added.
//!
//! Readers hold no lock while they read: what is shown is some pointers, and what they lead to is given back when nobody
//! reads it any more.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use birdhouse_store::Store;

use crate::audience::Audience;
use crate::dead::{Dead, Death, Deaths};
use crate::error::{Error, Result};
use crate::event::{EventId, VerifiedEvent};
use crate::explain::{Cost, Explanation};
use crate::filter::Filter;
use crate::judge::{self, Judge, Judgement};
use crate::log::{Log, Seq};
use crate::mark::Mark;
use crate::merge::Reader;
use crate::packed::Packed;
use crate::plan::{Plan, plan};
use crate::posting::Lists;
use crate::relay_url::RelayUrl;
use crate::scan::{self, Bounds, Position};
use crate::seal::{self, Desk};
use crate::search::{SearchIndex, SearchPlace};
use crate::segment::{OpenSegment, Segment, SegmentArrays, SegmentEnds};
use crate::tag::{Letter, Letters};
use crate::tail::Tail;

/// What an operator decides.
#[derive(Debug, Clone)]
pub struct EventsOptions {
    /// Events in memory before they are sealed.
    pub tail_events: usize,
    /// What the relay is called in requests to vanish (NIP-62), and by clients that prove who they are (NIP-42).
    pub urls: Vec<RelayUrl>,
    /// Tags by which events are found; others than these cost a look at each event that the rest of a filter leaves. `a`, `e` and
    /// `p` are always among them: deletions need them. What an index does not have is added by [`Events::tend`].
    pub letters: Letters,
    /// Where the index of words is (NIP-50).
    pub search: SearchPlace,
}

/// Tags that deletions are found by.
const LETTERS_NEEDED: [&str; 3] = ["a", "e", "p"];

impl Default for EventsOptions {
    fn default() -> Self {
        Self { tail_events: 1 << 15, urls: Vec::new(), letters: Letters::ALL, search: SearchPlace::Off }
    }
}

/// See the module.
pub struct Events {
    store: Arc<dyn Store>,
    lists: Lists,
    pub(crate) log: Log,
    arrays: SegmentArrays,
    deaths: Deaths,
    pub(crate) search: SearchIndex,
    options: EventsOptions,
    shown: RwLock<Shown>,
    /// `None` once a write has failed. Whoever holds it writes.
    writer: Mutex<Option<Writer>>,
    /// Whoever holds it tidies.
    tending: Mutex<()>,
}

/// What readers see: a clone costs some pointers.
#[derive(Clone)]
struct Shown {
    /// Of this tail only: what is accepted when it was sealed goes into another.
    tail: Arc<RwLock<Tail>>,
    segments: Arc<[Arc<OpenSegment>]>,
    dead: Dead,
    end: Seq,
}

/// What is written next.
struct Writer {
    /// What is published.
    mark: Mark,
    /// Where the next segment comes.
    ends: SegmentEnds,
    /// Segments that no mark names any more, and that some may still read.
    retired: Vec<Arc<OpenSegment>>,
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
    /// How it is found out whether an event has a tag that is asked for.
    pub tags: TagsBy,
}

/// What decides whether an event has a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagsBy {
    /// The event itself.
    Event,
    /// The list in which it was found, if it is that of the tag: for who counts events and does not show them. The tag is not looked for
    /// among the thousands that a follow list has. A list is named by 48 bits of a keyed hash: that an event which does not have the tag
    /// is counted has a chance of one in 2^48 for each list there is.
    List,
}

impl<'a> Query<'a> {
    /// All events of a filter that the operator can see, expired ones too.
    pub fn of(filter: &'a Filter) -> Self {
        Self { filter, end: Seq(u64::MAX), now: 0, audience: Audience::Operator, tags: TagsBy::Event }
    }
}

impl Events {
    /// Opens what is in the store. An empty one keeps `secret`, under which its lists are named.
    pub fn open(store: Arc<dyn Store>, secret: [u8; 16], options: EventsOptions) -> Result<Self> {
        let mark = match store.mark()? {
            Some(bytes) => Mark::decode(&bytes)?,
            None => Mark::new(secret),
        };
        let needed = LETTERS_NEEDED.iter().filter_map(|name| Letter::parse(name)).collect();
        let lists = Lists::new(&mark.secret, options.letters.union(needed));
        let log = Log::open(&*store, mark.log)?;
        let arrays = SegmentArrays::open(&*store, mark.ends())?;
        arrays.sweep(&mark.segments, mark.ends())?;
        let deaths = Deaths::open(&*store, mark.dead)?;
        let segments = mark.segments.iter().map(|segment| Ok(Arc::new(arrays.segment(*segment)?)));
        let segments = segments.collect::<Result<_>>()?;
        let mut tail = Tail::new(mark.tail);
        for seq in mark.tail.0..mark.log.seq {
            tail.push(&log.event(Seq(seq))?, &lists);
        }
        let tail = Arc::new(RwLock::new(tail));
        let shown = RwLock::new(Shown { tail, segments, dead: deaths.load()?, end: Seq(mark.log.seq) });
        let writer = Writer { ends: mark.ends(), mark, retired: Vec::new() };
        let (writer, tending) = (Mutex::new(Some(writer)), Mutex::new(()));
        let search = SearchIndex::new(options.search.clone());
        Ok(Self { store, lists, log, arrays, deaths, search, options, shown, writer, tending })
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

    /// Events in segments that lack lists of tags that are to have them: [`tend`](Self::tend) adds these.
    pub fn unindexed_events(&self) -> u64 {
        let shown = self.shown();
        let sizes = shown.segments.iter().map(|segment| self.size_of(segment));
        sizes.filter(|(_, lacks)| *lacks).map(|(events, _)| events).sum()
    }

    /// Takes events in, in their order, all or none: durable when it returns.
    ///
    /// # Errors
    /// After an error nothing more is taken in until the store is opened again: what is in memory may not be what is on the disk.
    pub fn accept(&self, events: &[&VerifiedEvent]) -> Result<Vec<Accepted>> {
        self.accept_and_tell(events, |_| {})
    }

    /// Takes events in, in their order, all or none: durable when it returns. `tell` is called before, as soon as they can be found.
    ///
    /// # Errors
    /// As [`accept`](Self::accept); what was told of is found no more.
    pub fn accept_and_tell(&self, events: &[&VerifiedEvent], tell: impl FnOnce(&[Accepted])) -> Result<Vec<Accepted>> {
        self.change(|writer| self.write(writer, events, tell))
    }

    /// Waits until all that was shown before is durable.
    pub(crate) fn settle(&self) -> Result<()> {
        self.change(|_| Ok(()))
    }

    /// Changes what is published. After an error nothing more is.
    fn change<T>(&self, change: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let mut place = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writer = place.take().ok_or(Error::Failed)?;
        let changed = change(&mut writer)?;
        *place = Some(writer);
        Ok(changed)
    }

    fn write(
        &self,
        Writer { mark, ends, .. }: &mut Writer,
        events: &[&VerifiedEvent],
        tell: impl FnOnce(&[Accepted]),
    ) -> Result<Vec<Accepted>> {
        let mut outcomes = Vec::with_capacity(events.len());
        let (before, mut doomed) = (mark.log, HashSet::new());
        let shown = self.shown();
        for event in events {
            let reader = Reader { doomed: Some(&doomed), ..self.reader(&shown, Seq(u64::MAX)) };
            let judgement = Judge { reader, lists: &self.lists, urls: &self.options.urls }.judge(event)?;
            outcomes.push(match judgement {
                Judgement::Refused(why) => why,
                Judgement::Stored { ends } => {
                    mark.log = self.log.append(mark.log, event)?;
                    let by = shown.tail.write().unwrap_or_else(PoisonError::into_inner).push(event, &self.lists);
                    let deaths: Vec<Death> = ends.iter().map(|of| Death { of: *of, by }).collect();
                    mark.dead = self.deaths.append(mark.dead, &deaths)?;
                    doomed.extend(ends);
                    Accepted::Stored(by)
                }
            });
        }
        if mark.log == before {
            tell(&outcomes);
            return Ok(outcomes);
        }
        self.show(Seq(mark.log.seq), |dead| doomed.iter().for_each(|seq| dead.add(*seq)));
        tell(&outcomes);
        if let Err(error) = self.store.publish(&mark.encode()) {
            self.show(Seq(before.seq), |dead| doomed.iter().for_each(|seq| dead.remove(*seq)));
            return Err(error.into());
        }
        if mark.log.seq - mark.tail.0 >= self.options.tail_events as u64 {
            self.seal(mark, ends)?;
        }
        Ok(outcomes)
    }

    /// Shows the events before `end`, and other ones as dead.
    fn show(&self, end: Seq, change: impl FnOnce(&mut Dead)) {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut shown.dead);
        shown.end = end;
    }

    /// Shows the next `rows` events of a query, or fewer if `show` has enough; where to go on, `None` at the end. In the order of
    /// NIP-01: the newest first, of equal times the lowest id first.
    pub fn page(
        &self,
        query: Query<'_>,
        from: Option<Position>,
        rows: usize,
        show: &mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Position>> {
        self.planned(query, rows, |reader, plan| {
            scan::answer(reader, query.filter, plan, Bounds::of(query, from, rows), &mut Cost::default(), show)
        })
    }

    /// Shows these events, until it is enough.
    pub fn view(&self, seqs: &[Seq], show: &mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>) -> Result<()> {
        let heads = self.log.heads(seqs.iter().copied())?;
        let events: Vec<_> = seqs.iter().copied().zip(heads).collect();
        self.log.view_many(&events, &mut |place, packed| show(seqs[place], packed))
    }

    /// How a query is answered, and what its first `rows` rows cost.
    pub fn explain(&self, query: Query<'_>, rows: usize) -> Result<Explanation> {
        self.planned(query, rows, |reader, plan| {
            let bounds = Bounds::of(query, None, rows);
            let mut cost = Cost::default();
            scan::answer(reader, query.filter, plan, bounds, &mut cost, &mut |_, _| ControlFlow::Continue(()))?;
            Ok(Explanation { steps: plan.steps(query.filter), cost })
        })
    }

    fn planned<T>(&self, query: Query<'_>, rows: usize, run: impl FnOnce(Reader<'_>, &Plan) -> Result<T>) -> Result<T> {
        let shown = self.shown();
        let reader = self.reader(&shown, query.end.min(shown.end));
        run(reader, &plan(query.filter, rows, &self.lists, |lists| judge::size(reader, lists)))
    }

    /// Whether an event of this id can be found.
    pub fn has(&self, id: &EventId) -> Result<bool> {
        let shown = self.shown();
        Ok(judge::find(self.reader(&shown, shown.end), id)?.is_some())
    }

    /// All that are dead by now.
    pub(crate) fn dead(&self) -> Dead {
        self.shown().dead
    }

    // === tidying ===

    /// Makes a segment of the tail.
    fn seal(&self, mark: &mut Mark, ends: &mut SegmentEnds) -> Result<()> {
        let shown = self.shown();
        let (segment, end) = {
            let tail = shown.tail.read().unwrap_or_else(PoisonError::into_inner);
            (self.desk(&shown).tail(&tail, *ends)?, tail.end())
        };
        (*ends, mark.tail) = (segment.ends(), end);
        mark.segments.push(segment);
        self.store.publish(&mark.encode())?;
        let opened = Arc::new(self.arrays.segment(segment)?);
        let mut now = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        now.tail = Arc::new(RwLock::new(Tail::new(end)));
        now.segments = now.segments.iter().cloned().chain([opened]).collect();
        Ok(())
    }

    /// Does one piece of what can wait, beside whoever reads and writes: merges segments, or adds to one the lists that it lacks.
    /// Whether there was something to do.
    ///
    /// # Errors
    /// As with [`accept`](Self::accept) when what was made cannot be published; all else leaves everything as it was.
    pub fn tend(&self) -> Result<bool> {
        let _alone = self.tending.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.shown();
        let sizes: Vec<(u64, bool)> = shown.segments.iter().map(|segment| self.size_of(segment)).collect();
        let Some(chosen) = seal::choose(&sizes, self.options.tail_events as u64) else { return Ok(false) };
        let chosen: Vec<Arc<OpenSegment>> =
            chosen.into_iter().map(|place| Arc::clone(&shown.segments[place])).collect();
        let added = self.desk(&shown).added(&chosen)?;
        let place = self.change(|writer| {
            let place = seal::reserve(&chosen, added, writer.ends);
            writer.ends = place.ends();
            Ok(place)
        })?;
        // If it cannot be made, its place is swept with what comes next.
        let segment = self.desk(&shown).rewrite(&chosen, added, &place)?;
        drop(shown);
        self.change(|writer| self.replace(writer, chosen, segment))?;
        Ok(true)
    }

    /// Shows a segment in the place of those that it was made of.
    fn replace(&self, writer: &mut Writer, chosen: Vec<Arc<OpenSegment>>, segment: Segment) -> Result<()> {
        let is_chosen = |segment: &Segment| chosen.iter().any(|one| one.segment == *segment);
        writer.mark.segments.retain(|segment| !is_chosen(segment));
        writer.mark.segments.push(segment);
        self.store.publish(&writer.mark.encode())?;
        let opened = Arc::new(self.arrays.segment(segment)?);
        {
            let mut now = self.shown.write().unwrap_or_else(PoisonError::into_inner);
            let kept = now.segments.iter().filter(|one| !is_chosen(&one.segment)).cloned();
            now.segments = kept.chain([opened]).collect();
        }
        writer.retired.extend(chosen);
        // What somebody still reads stays until the next time.
        writer.retired.retain(|segment| Arc::strong_count(segment) > 1);
        let retired = writer.retired.iter().map(|segment| &segment.segment);
        let used = writer.mark.segments.iter().chain(retired);
        self.arrays.sweep(used, writer.ends)
    }

    /// A segment's size in events, and whether it lacks lists.
    fn size_of(&self, segment: &OpenSegment) -> (u64, bool) {
        let Segment { ids, letters, .. } = segment.segment;
        (ids.count, !self.lists.letters.without(letters).is_empty())
    }

    fn desk<'a>(&'a self, shown: &'a Shown) -> Desk<'a> {
        Desk { log: &self.log, lists: &self.lists, arrays: &self.arrays, dead: &shown.dead }
    }

    fn reader<'a>(&'a self, shown: &'a Shown, end: Seq) -> Reader<'a> {
        Reader { log: &self.log, tail: &shown.tail, segments: &shown.segments, dead: &shown.dead, doomed: None, end }
    }

    fn shown(&self) -> Shown {
        // What changes it cannot panic halfway.
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
