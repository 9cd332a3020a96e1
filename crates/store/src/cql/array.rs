//! Records of arrays, in chunks.
//!
//! The writer keeps chunks that a write covered in part in memory until the next publish; whole ones are sent at once.
//! Records from the length on do not count, whatever a chunk holds there: an earlier epoch, or a cut, may have left
//! them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;

use super::chunk_cache::ChunkCache;
use super::cluster::{Cluster, Link, REQUESTS_AT_ONCE};
use super::epoch::Epoch;
use super::layout::{self, PART_CHUNKS};
use super::published::ArrayState;
use super::rows::{at, rows_of, send_batch};
use crate::array::extents::Extents;
use crate::error::{Result, past_end, written_after_cut};
use crate::store::Array;
use crate::table::ArraySpec;

/// Chunks that are kept in memory until the next publish. More are sent before it.
const KEPT_CHUNKS_MAX: usize = 256;
/// Chunks in one message.
const MESSAGE_CHUNKS: usize = 8;

/// Chunks by their number.
type Chunks = BTreeMap<u64, Vec<u8>>;
/// Chunks that were read.
type Found = BTreeMap<u64, Arc<[u8]>>;
/// Runs of records, each by its first number and its count.
type Runs<'a> = &'a [(u64, usize)];

/// The name and shape of an array in the cluster.
#[derive(Debug, Clone)]
pub(super) struct ArrayRef {
    /// Place and name.
    name: Arc<str>,
    spec: ArraySpec,
    cache: Arc<ChunkCache>,
}

/// Knowledge of an array that is not in the cluster: the times that it was cut, and some chunks.
#[derive(Default)]
pub(super) struct Known {
    pub(super) cuts: u32,
    pub(super) chunks: Chunks,
}

/// An array of the writer.
pub(super) struct WrittenArray {
    array: ArrayRef,
    state: Mutex<State>,
}

struct State {
    len: u64,
    cuts: u32,
    /// True between a cut and its publish.
    is_cut: bool,
    freed: Extents,
    /// Bytes to be freed by the next publish.
    discarded: Vec<Range<u64>>,
    /// Chunks that are deleted, or will be.
    deleted: Extents,
    /// Chunks to be deleted once nobody reads them, the oldest first.
    deleting: VecDeque<Deleting>,
    /// Chunks that the cluster does not have yet.
    kept: Chunks,
}

/// Chunks that no manifest has named since a publish.
struct Deleting {
    since: Instant,
    /// That of their deletion, so that what is written there later stays.
    timestamp: i64,
    chunks: Range<u64>,
}

// === impl ArrayRef ===

impl ArrayRef {
    pub(super) fn new(place: &str, spec: ArraySpec, cache: Arc<ChunkCache>) -> Self {
        Self { name: layout::name_of(place, spec.name).into(), spec, cache }
    }

    /// Returns the records with these numbers.
    pub(super) fn records(&self, cluster: &Cluster, numbers: &[u64], known: Known) -> Result<Vec<u8>> {
        let runs: Vec<(u64, usize)> = numbers.iter().map(|number| (*number, 1)).collect();
        let mut out = Vec::with_capacity(numbers.len() * self.spec.record_bytes);
        self.visit(cluster, &runs, known, &mut |bytes| {
            out.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    /// Returns consecutive records.
    pub(super) fn run(&self, cluster: &Cluster, first: u64, count: usize, known: Known) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.visit(cluster, &[(first, count)], known, &mut |bytes| {
            bytes.clone_into(&mut out);
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    /// Reads the chunks of all runs together, and visits the runs in their order until `Break`. What lies between two
    /// runs of a chunk must be covered by a manifest where both are.
    pub(super) fn visit(
        &self,
        cluster: &Cluster,
        runs: Runs<'_>,
        known: Known,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut asked = BTreeMap::<u64, Range<usize>>::new();
        for (first, count) in runs {
            for (chunk, inside) in self.parts(*first, *count as u64) {
                let both = asked.entry(chunk).or_insert_with(|| inside.clone());
                *both = both.start.min(inside.start)..both.end.max(inside.end);
            }
        }
        let (found, mut out) = (self.chunks(cluster, &asked, known)?, Vec::new());
        for (first, count) in runs {
            out.clear();
            for (chunk, inside) in self.parts(*first, *count as u64) {
                let bytes = found.get(&chunk).map_or(&[][..], AsRef::as_ref);
                let there = &bytes[inside.start.min(bytes.len())..inside.end.min(bytes.len())];
                out.extend_from_slice(there);
                // Records that no chunk has are zeros.
                out.resize(out.len() + inside.len() - there.len(), 0);
            }
            if visit(&out).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The chunks that have some of these records, and the bytes of them there.
    fn parts(&self, first: u64, count: u64) -> impl Iterator<Item = (u64, Range<usize>)> + '_ {
        let per_chunk = layout::records_per_chunk(self.spec);
        self.covered(first, count).filter(move |_| count > 0).map(move |chunk| {
            let start = chunk * per_chunk;
            let (from, to) = (first.max(start), (first + count).min(start + per_chunk));
            (chunk, self.bytes(from - start)..self.bytes(to - start))
        })
    }

    /// The chunks that have some of these records.
    fn covered(&self, first: u64, count: u64) -> Range<u64> {
        let per_chunk = layout::records_per_chunk(self.spec);
        first / per_chunk..(first + count).div_ceil(per_chunk).max(first / per_chunk)
    }

    fn bytes(&self, records: u64) -> usize {
        usize::try_from(records).expect("records of one answer") * self.spec.record_bytes
    }

    fn chunks(&self, cluster: &Cluster, asked: &BTreeMap<u64, Range<usize>>, known: Known) -> Result<Found> {
        let Known { cuts, mut chunks } = known;
        let (mut found, mut missing) = (Found::new(), Vec::new());
        for (chunk, bytes) in asked {
            let id = (Arc::clone(&self.name), cuts, *chunk);
            match chunks.remove(chunk).map(Arc::from).or_else(|| self.cache.get(&id, bytes)) {
                Some(bytes) => drop(found.insert(*chunk, bytes)),
                None => missing.push(*chunk),
            }
        }
        if !missing.is_empty() {
            let array = self.clone();
            for (chunk, bytes) in cluster.wait(|link| async move { array.fetch(&link, runs(&missing)).await })? {
                let bytes = Arc::from(bytes);
                if let Some(asked) = asked.get(&chunk) {
                    self.cache.insert((Arc::clone(&self.name), cuts, chunk), asked.clone(), &bytes);
                }
                found.insert(chunk, bytes);
            }
        }
        Ok(found)
    }

    async fn fetch(&self, link: &Link, runs: Vec<Range<u64>>) -> Result<Chunks> {
        let read = |run: Range<u64>| async move {
            let values = (&*self.name, number(part(run.start)), number(run.start), number(run.end));
            rows_of::<(i64, Vec<u8>)>(link.send("read records", &link.statements.chunks, values).await?)
        };
        let found: Vec<Vec<(i64, Vec<u8>)>> =
            stream::iter(runs.into_iter().map(read)).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().map(|(chunk, records)| (chunk.cast_unsigned(), records)).collect())
    }

    async fn send(&self, link: &Link, chunks: Chunks, timestamp: i64) -> Result<()> {
        let chunks: Vec<(u64, Vec<u8>)> = chunks.into_iter().collect();
        let messages = chunks.chunk_by(|(one, _), (other, _)| part(*one) == part(*other));
        let messages = messages.flat_map(|chunks| chunks.chunks(MESSAGE_CHUNKS));
        let send = |chunks: &[(u64, Vec<u8>)]| {
            let row = |(chunk, records): &(u64, Vec<u8>)| {
                (self.name.to_string(), number(part(*chunk)), number(*chunk), records.clone())
            };
            send_batch(link, &link.statements.put_chunk, chunks.iter().map(row).collect(), timestamp)
        };
        let sent: Vec<_> = messages.map(send).collect();
        stream::iter(sent).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }

    async fn delete(&self, link: &Link, chunks: Range<u64>, timestamp: i64) -> Result<()> {
        let statement = at(&link.statements.delete_chunks, timestamp);
        let delete = |part: u64| {
            let (start, end) = (chunks.start.max(part * PART_CHUNKS), chunks.end.min((part + 1) * PART_CHUNKS));
            let statement = &statement;
            async move {
                let values = (&*self.name, number(part), number(start), number(end));
                link.send("delete records", statement, values).await.map(drop)
            }
        };
        let parts = part(chunks.start)..chunks.end.div_ceil(PART_CHUNKS);
        stream::iter(parts.map(delete)).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }
}

fn part(chunk: u64) -> u64 {
    chunk / PART_CHUNKS
}

/// A number as the cluster has it.
fn number(number: u64) -> i64 {
    number.cast_signed()
}

/// Joins consecutive chunks of one part. `chunks` ascend.
fn runs(chunks: &[u64]) -> Vec<Range<u64>> {
    let runs = chunks.chunk_by(|one, other| one + 1 == *other && part(*one) == part(*other));
    runs.map(|run| run[0]..run[run.len() - 1] + 1).collect()
}

// === impl WrittenArray ===

impl WrittenArray {
    pub(super) fn new(array: ArrayRef, state: ArrayState) -> Self {
        let ArrayState { len, cuts, freed, .. } = state;
        let state = State {
            len,
            cuts,
            is_cut: false,
            freed,
            discarded: Vec::new(),
            deleted: Extents::default(),
            deleting: VecDeque::new(),
            kept: Chunks::new(),
        };
        Self { array, state: Mutex::new(state) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.array.spec.name
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.array.spec.record_bytes
    }

    /// Sends what the cluster lacks. Returns the state to publish, and the chunks that are then to be deleted.
    pub(super) fn prepare(&self, epoch: &Epoch) -> Result<(ArrayState, Vec<Range<u64>>)> {
        let mut state = self.state.lock();
        self.flush(epoch, &mut state)?;
        let chunk_bytes = layout::records_per_chunk(self.array.spec) * self.array.spec.record_bytes as u64;
        let (mut freed, mut deleted) = (state.freed.clone(), Vec::new());
        for range in &state.discarded {
            let whole = range.start.div_ceil(chunk_bytes)..range.end / chunk_bytes;
            if whole.start < whole.end {
                freed.insert(whole.start * chunk_bytes..whole.end * chunk_bytes);
                deleted.push(whole);
            }
        }
        Ok((ArrayState { record_bytes: self.record_bytes(), len: state.len, cuts: state.cuts, freed }, deleted))
    }

    /// Notes that a publish made `published` current, and that nobody reads `unused` chunks after the time of grace.
    /// Begins to delete those whose time has come. If that fails, the space is lost until another process discards
    /// them again.
    pub(super) fn published(&self, epoch: &Epoch, published: ArrayState, unused: Vec<Range<u64>>, grace: Duration) {
        let mut state = self.state.lock();
        (state.freed, state.is_cut) = (published.freed, false);
        state.discarded.clear();
        let (now, timestamp) = (Instant::now(), epoch.next_timestamp());
        for range in unused {
            let mut new = Extents::default();
            new.insert(range.clone());
            state.deleted.within(range.clone()).for_each(|known| new.remove(known));
            state.deleting.extend(new.iter().map(|chunks| Deleting { since: now, timestamp, chunks }));
            state.deleted.insert(range);
        }
        let due = state.deleting.iter().take_while(|one| now.duration_since(one.since) >= grace).count();
        let due: Vec<Deleting> = state.deleting.drain(..due).collect();
        if due.is_empty() {
            return;
        }
        let array = self.array.clone();
        epoch.cluster.spawn(|link| async move {
            for Deleting { timestamp, chunks, .. } in due {
                if let Err(error) = array.delete(&link, chunks, timestamp).await {
                    tracing::warn!(%error, "failed to delete records that nobody reads");
                }
            }
        });
    }

    /// Bytes that take space.
    pub(super) fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        let (record_bytes, freed) = (self.record_bytes(), state.freed.clone());
        ArrayState { record_bytes, len: state.len, cuts: state.cuts, freed }.used_bytes()
    }

    fn flush(&self, epoch: &Epoch, state: &mut State) -> Result<()> {
        if !state.kept.is_empty() {
            let (array, kept, timestamp) = (self.array.clone(), state.kept.clone(), epoch.next_timestamp());
            epoch.cluster.wait(|link| async move { array.send(&link, kept, timestamp).await })?;
            state.kept.clear();
        }
        Ok(())
    }

    fn write(&self, epoch: &Epoch, first: u64, records: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_cut {
            return Err(written_after_cut(self.array.spec.name));
        }
        let record_bytes = self.record_bytes() as u64;
        let end = first + records.len() as u64 / record_bytes;
        let chunks = self.array.covered(first, end - first);
        let mut partial = self.partial_chunks(&state, first, end);
        let mut bytes_of = self.current_chunks(epoch, &state, &partial)?;
        for chunk in chunks.clone() {
            let start = chunk * layout::records_per_chunk(self.array.spec);
            let (from, to) = (first.max(start), end.min(start + layout::records_per_chunk(self.array.spec)));
            let written = &records[self.array.bytes(from - first)..self.array.bytes(to - first)];
            overlay(bytes_of.entry(chunk).or_default(), self.array.bytes(from - start), written);
        }
        // Whatever lies between is older than a cut, or of an earlier epoch.
        let gap = state.len.div_ceil(layout::records_per_chunk(self.array.spec))..chunks.start;
        let whole = bytes_of.extract_if(.., |chunk, _| !partial.remove(chunk)).collect();
        self.replace(epoch, gap, whole)?;
        chunks.clone().for_each(|chunk| drop(state.kept.remove(&chunk)));
        state.kept.append(&mut bytes_of);
        state.len = state.len.max(end);
        state.freed.remove(first * record_bytes..end * record_bytes);
        state.deleted.remove(chunks.clone());
        if state.kept.len() > KEPT_CHUNKS_MAX { self.flush(epoch, &mut state) } else { Ok(()) }
    }

    /// The chunks of which a write keeps some records: its first and last one, and the last one of the array.
    fn partial_chunks(&self, state: &State, first: u64, end: u64) -> BTreeSet<u64> {
        let per_chunk = layout::records_per_chunk(self.array.spec);
        let edges = [first, end, if first > state.len { state.len } else { first }];
        edges.into_iter().filter(|edge| edge % per_chunk != 0).map(|edge| edge / per_chunk).collect()
    }

    /// The records of some chunks that are below the length.
    fn current_chunks(&self, epoch: &Epoch, state: &State, chunks: &BTreeSet<u64>) -> Result<Chunks> {
        let per_chunk = layout::records_per_chunk(self.array.spec);
        let used: Vec<u64> = chunks.iter().filter(|chunk| *chunk * per_chunk < state.len).copied().collect();
        let mut found = some_of(&state.kept, used.iter());
        let missing: Vec<u64> = used.iter().filter(|chunk| !found.contains_key(chunk)).copied().collect();
        if !missing.is_empty() {
            let array = self.array.clone();
            found.extend(epoch.cluster.wait(|link| async move { array.fetch(&link, runs(&missing)).await })?);
        }
        for chunk in used {
            let len = self.array.bytes((state.len - chunk * per_chunk).min(per_chunk));
            found.entry(chunk).or_default().resize(len, 0);
        }
        Ok(found)
    }

    /// Deletes the chunks of a gap, and sends others.
    fn replace(&self, epoch: &Epoch, gap: Range<u64>, whole: Chunks) -> Result<()> {
        if gap.is_empty() && whole.is_empty() {
            return Ok(());
        }
        let (array, deleted_at, sent_at) = (self.array.clone(), epoch.next_timestamp(), epoch.next_timestamp());
        epoch.cluster.wait(|link| async move {
            if !gap.is_empty() {
                array.delete(&link, gap, deleted_at).await?;
            }
            array.send(&link, whole, sent_at).await
        })
    }

    /// The length, and what the cluster lacks of some chunks.
    fn known(&self, chunks: impl Iterator<Item = u64>) -> (u64, Known) {
        let state = self.state.lock();
        let chunks = if state.kept.is_empty() { BTreeSet::new() } else { chunks.collect() };
        (state.len, Known { cuts: state.cuts, chunks: some_of(&state.kept, chunks.iter()) })
    }
}

fn some_of<'a>(kept: &Chunks, chunks: impl Iterator<Item = &'a u64>) -> Chunks {
    chunks.filter_map(|chunk| Some((*chunk, kept.get(chunk)?.clone()))).collect()
}

/// Writes `written` at an offset; a gap becomes zeros.
fn overlay(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
    bytes.resize(bytes.len().max(at + written.len()), 0);
    bytes[at..at + written.len()].copy_from_slice(written);
}

/// A handle of an array of the writer.
pub(super) struct WriterArray {
    pub(super) epoch: Arc<Epoch>,
    pub(super) array: Arc<WrittenArray>,
}

impl Array for WriterArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        let per_chunk = layout::records_per_chunk(self.array.array.spec);
        let (len, known) = self.array.known(numbers.iter().map(|number| number / per_chunk));
        check_numbers(self.array.array.spec, numbers, len)?;
        self.array.array.records(&self.epoch.cluster, numbers, known)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        check_run(self.array.array.spec, first, count, self.len())?;
        let (_, known) = self.array.known(self.array.array.covered(first, count as u64));
        self.array.array.run(&self.epoch.cluster, first, count, known)
    }

    fn visit_runs(&self, runs: Runs<'_>, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        let array = &self.array.array;
        let (len, known) =
            self.array.known(runs.iter().flat_map(|(first, count)| array.covered(*first, *count as u64)));
        check_runs(array.spec, runs, len)?;
        array.visit(&self.epoch.cluster, runs, known, visit)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        if self.array.array.spec.count(records)? == 0 {
            return Ok(());
        }
        self.epoch.check()?;
        self.array.write(&self.epoch, first, records)
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        let record_bytes = self.array.record_bytes() as u64;
        let mut state = self.array.state.lock();
        let end = first.saturating_add(count).min(state.len);
        if first < end {
            state.discarded.push(first * record_bytes..end * record_bytes);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.array.state.lock().len
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut state = self.array.state.lock();
        if len > state.len {
            return Err(past_end(self.array.array.spec.name, len - 1, state.len));
        }
        if len < state.len {
            let chunks = len.div_ceil(layout::records_per_chunk(self.array.array.spec));
            state.kept.retain(|chunk, _| *chunk < chunks);
            (state.len, state.is_cut, state.cuts) = (len, true, state.cuts + 1);
        }
        Ok(())
    }
}

/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) when a number is at or past the length.
pub(super) fn check_numbers(spec: ArraySpec, numbers: &[u64], len: u64) -> Result<()> {
    match numbers.iter().find(|number| **number >= len) {
        Some(number) => Err(past_end(spec.name, *number, len)),
        None => Ok(()),
    }
}

/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) when the run reaches past the length.
pub(super) fn check_run(spec: ArraySpec, first: u64, count: usize, len: u64) -> Result<()> {
    match first.checked_add(count as u64) {
        Some(end) if end <= len => Ok(()),
        _ => Err(past_end(spec.name, first.max(len), len)),
    }
}

/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) when a run reaches past the length.
pub(super) fn check_runs(spec: ArraySpec, runs: Runs<'_>, len: u64) -> Result<()> {
    runs.iter().try_for_each(|(first, count)| check_run(spec, *first, *count, len))
}
