//! Marks of what the writer's threads are doing, in a file, so that they are there after SIGKILL. One is set around
//! every call of the store that writes.

use std::cell::Cell;
use std::fs::File;
use std::io::Result as IoResult;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use birdhouse_store::Result;
use birdhouse_testkit::hooked_store::{Call, Hook, Outcome};

/// The calls under way in one thread: one of [`WORK`], and one of [`WRITES`] below it.
const MARK_BYTES: u64 = 2;

/// Works of threads.
pub(crate) const WORK: [&str; 7] = ["rest", "open", "accept", "compact", "expire", "index words", "commit words"];
/// Writing calls below them. Arrays follow, in the order of [`ARRAYS`].
const WRITES: [&str; 4] = ["", "publish", "write rows", "give back"];
/// Arrays by name.
const ARRAYS: [&str; 9] = ["event", "body", "moved", "unit", "dead", "posting", "list", "id", "fence"];
/// Threads by slot.
const THREADS: usize = 3;

thread_local! {
    /// Slot of the thread, and its mark.
    static MARK: Cell<(u64, [u8; 2])> = const { Cell::new((0, [0; 2])) };
}

/// The file of marks.
#[derive(Debug, Clone)]
pub(crate) struct Marks(Arc<File>);

/// Resets a mark when it is dropped.
pub(crate) struct Marked<'a>(&'a Marks, [u8; 2]);

/// The moment of a kill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Moment(Vec<[u8; 2]>);

// === impl Marks ===

impl Marks {
    pub(crate) fn create(path: &Path) -> IoResult<Self> {
        let file = File::create(path)?;
        file.set_len(MARK_BYTES * THREADS as u64)?;
        Ok(Self(Arc::new(file)))
    }

    /// Gives the current thread its slot.
    pub(crate) fn enter(thread: u8) {
        MARK.set((thread.into(), [0; 2]));
    }

    /// Sets the work of the thread, one of [`WORK`].
    pub(crate) fn work(&self, name: &str) -> Marked<'_> {
        let work = WORK.iter().position(|work| *work == name).and_then(|work| u8::try_from(work).ok());
        let (_, before) = MARK.get();
        self.set([work.expect("a name of the list"), 0]);
        Marked(self, before)
    }

    fn write(&self, write: u8) {
        let (_, [work, _]) = MARK.get();
        self.set([work, write]);
    }

    fn set(&self, mark: [u8; 2]) {
        let (slot, _) = MARK.get();
        MARK.set((slot, mark));
        // Two bytes that one call writes are both there or none. A failure makes a coarser histogram.
        let _ = self.0.write_all_at(&mark, MARK_BYTES * slot);
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

// === impl Moment ===

impl Moment {
    /// Reads the marks that a killed process left behind.
    pub(crate) fn read(path: &Path) -> IoResult<Self> {
        Ok(Self(std::fs::read(path)?.as_chunks().0.to_vec()))
    }

    /// Returns the names of the writing calls that were under way: `accept: publish`, `compact: write posting`.
    pub(crate) fn writes(&self) -> Vec<String> {
        // The full-text index writes its files by itself, most of all in a commit.
        let writing = self.0.iter().filter(|[work, write]| *write != 0 || WORK[usize::from(*work)] == "commit words");
        writing.map(|[work, write]| name(usize::from(*work), usize::from(*write))).collect()
    }
}

fn name(work: usize, write: usize) -> String {
    let write = match write.checked_sub(WRITES.len()) {
        None => WRITES[write].to_owned(),
        Some(array) => format!("write {}", ARRAYS.get(array).unwrap_or(&"another array")),
    };
    [WORK[work], write.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

// === impl Hook ===

impl Hook for Marks {
    fn before(&self, call: Call) -> Result<()> {
        if let Some(write) = code(call) {
            self.write(write);
        }
        Ok(())
    }

    fn after(&self, call: Call, _outcome: Outcome) -> Result<()> {
        if code(call).is_some() {
            self.write(0);
        }
        Ok(())
    }
}

/// Returns the place of a writing call in [`WRITES`], or that of its array behind them.
fn code(call: Call) -> Option<u8> {
    match call {
        Call::Publish => Some(1),
        Call::WriteRows => Some(2),
        Call::Discard => Some(3),
        Call::WriteArray(name) => {
            let array = ARRAYS.iter().position(|array| *array == name).unwrap_or(ARRAYS.len());
            Some(u8::try_from(WRITES.len() + array).expect("few names"))
        }
        // The relay has no runs of rows, and empties no table.
        Call::Read | Call::FinishRun | Call::LoadRuns | Call::Clear => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn marks_name_the_calls_under_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let marks = Marks::create(file.path()).unwrap();
        Marks::enter(1);
        let now = || Moment::read(file.path()).unwrap().writes();
        assert!(now().is_empty());
        let compacting = marks.work("compact");
        assert!(now().is_empty(), "it only reads");
        let during = |call| {
            marks.before(call).unwrap();
            let writes = now();
            marks.after(call, Outcome::Done).unwrap();
            writes
        };
        assert_eq!(during(Call::WriteArray("posting")), ["compact: write posting"]);
        assert_eq!(during(Call::Publish), ["compact: publish"]);
        assert!(during(Call::Read).is_empty());
        drop(compacting);
        assert!(now().is_empty());
        let committing = marks.work("commit words");
        assert_eq!(now(), ["commit words"]);
        drop(committing);
        let _indexing = marks.work("index words");
        assert!(now().is_empty(), "most of it is in memory");
    }
}
