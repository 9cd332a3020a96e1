//! Records of arrays, in chunks.
//!
//! The writer keeps chunks that a write covered in part in memory until the next publish; whole ones are sent at once.
//! Records from the length on do not count, whatever a chunk holds there: an earlier epoch, or a cut, may have left
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;

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

/// The name and shape of an array in the cluster.
#[derive(Debug, Clone)]
pub(super) struct ArrayRef {
    /// Place and name.
    name: Arc<str>,
    spec: ArraySpec,
}

/// An array of the writer.
pub(super) struct WrittenArray {
    array: ArrayRef,
    state: Mutex<State>,
}

struct State {
    len: u64,
    /// True between a cut and its publish.
    is_cut: bool,
    freed: Extents,
    /// Bytes to be freed by the next publish.
    discarded: Vec<Range<u64>>,
    /// Chunks that the cluster does not have yet.
    kept: Chunks,
}

// === impl ArrayRef ===

impl ArrayRef {
    pub(super) fn new(place: &str, spec: ArraySpec) -> Self {
        Self { name: layout::name_of(place, spec.name).into(), spec }
    }

    /// Returns the records with these numbers. Chunks in `known` are not read.
    pub(super) fn records(&self, cluster: &Cluster, numbers: &[u64], known: Chunks) -> Result<Vec<u8>> {
        let per_chunk = layout::records_per_chunk(self.spec);
        let wanted: BTreeSet<u64> = numbers.iter().map(|number| number / per_chunk).collect();
        let chunks = self.chunks(cluster, &wanted, known)?;
        let mut out = Vec::with_capacity(numbers.len() * self.spec.record_bytes);
        for number in numbers {
            self.copy(&chunks, *number, 1, &mut out);
        }
        Ok(out)
    }

    /// Returns consecutive records.
    pub(super) fn run(&self, cluster: &Cluster, first: u64, count: usize, known: Chunks) -> Result<Vec<u8>> {
        let wanted = self.covered(first, count as u64).collect();
        let chunks = self.chunks(cluster, &wanted, known)?;
        let mut out = Vec::with_capacity(count * self.spec.record_bytes);
        self.copy(&chunks, first, count as u64, &mut out);
        Ok(out)
    }

    /// The chunks that have some of these records.
    fn covered(&self, first: u64, count: u64) -> Range<u64> {
        let per_chunk = layout::records_per_chunk(self.spec);
        first / per_chunk..(first + count).div_ceil(per_chunk).max(first / per_chunk)
    }

    /// Appends records to `out`. Those that no chunk has are zeros.
    fn copy(&self, chunks: &Chunks, mut first: u64, count: u64, out: &mut Vec<u8>) {
        let (per_chunk, end) = (layout::records_per_chunk(self.spec), first + count);
        while first < end {
            let (chunk, inside) = (first / per_chunk, first % per_chunk);
            let some = (per_chunk - inside).min(end - first);
            let wanted = self.bytes(inside)..self.bytes(inside + some);
            let bytes = chunks.get(&chunk).map_or(&[][..], Vec::as_slice);
            let found = &bytes[wanted.start.min(bytes.len())..wanted.end.min(bytes.len())];
            out.extend_from_slice(found);
            out.resize(out.len() + wanted.len() - found.len(), 0);
            first += some;
        }
    }

    fn bytes(&self, records: u64) -> usize {
        usize::try_from(records).expect("records of one answer") * self.spec.record_bytes
    }

    fn chunks(&self, cluster: &Cluster, wanted: &BTreeSet<u64>, mut known: Chunks) -> Result<Chunks> {
        let unknown: Vec<u64> = wanted.iter().filter(|chunk| !known.contains_key(chunk)).copied().collect();
        if !unknown.is_empty() {
            let array = self.clone();
            known.extend(cluster.wait(|link| async move { array.fetch(&link, runs(&unknown)).await })?);
        }
        Ok(known)
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
    pub(super) fn new(place: &str, spec: ArraySpec, state: ArrayState) -> Self {
        let ArrayState { len, freed, .. } = state;
        let state = State { len, is_cut: false, freed, discarded: Vec::new(), kept: Chunks::new() };
        Self { array: ArrayRef::new(place, spec), state: Mutex::new(state) }
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
        Ok((ArrayState { record_bytes: self.record_bytes(), len: state.len, freed }, deleted))
    }

    /// Notes that a publish made `published` current, and deletes chunks.
    pub(super) fn published(&self, epoch: &Epoch, published: ArrayState, deleted: Vec<Range<u64>>) -> Result<()> {
        let mut state = self.state.lock();
        (state.freed, state.is_cut) = (published.freed, false);
        state.discarded.clear();
        let (array, timestamp) = (self.array.clone(), epoch.next_timestamp());
        if deleted.is_empty() {
            return Ok(());
        }
        epoch.cluster.wait(|link| async move {
            for chunks in deleted {
                array.delete(&link, chunks, timestamp).await?;
            }
            Ok(())
        })
    }

    /// Bytes that take space.
    pub(super) fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        let (record_bytes, freed) = (self.record_bytes(), state.freed.clone());
        ArrayState { record_bytes, len: state.len, freed }.used_bytes()
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
        chunks.for_each(|chunk| drop(state.kept.remove(&chunk)));
        state.kept.append(&mut bytes_of);
        state.len = state.len.max(end);
        state.freed.remove(first * record_bytes..end * record_bytes);
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
        let used = chunks.iter().filter(|chunk| *chunk * per_chunk < state.len).copied().collect();
        let mut found = self.array.chunks(&epoch.cluster, &used, some_of(&state.kept, used.iter()))?;
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

    /// The length, and those of some chunks that the cluster lacks.
    fn kept(&self, chunks: impl Iterator<Item = u64>) -> (u64, Chunks) {
        let state = self.state.lock();
        let chunks: BTreeSet<u64> = chunks.collect();
        (state.len, some_of(&state.kept, chunks.iter()))
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
        let (len, kept) = self.array.kept(numbers.iter().map(|number| number / per_chunk));
        check_numbers(self.array.array.spec, numbers, len)?;
        self.array.array.records(&self.epoch.cluster, numbers, kept)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        check_run(self.array.array.spec, first, count, self.len())?;
        let (_, kept) = self.array.kept(self.array.array.covered(first, count as u64));
        self.array.array.run(&self.epoch.cluster, first, count, kept)
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
            (state.len, state.is_cut) = (len, true);
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
