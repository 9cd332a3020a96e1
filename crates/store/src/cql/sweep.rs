//! Generations that nobody reads any more, and their deletion.
//!
//! A generation is *retired* when its table is cleared. It is deleted once no published manifest has named it for the
//! time of grace, because a reader reads with a manifest for less than that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;

use super::cluster::{Link, REQUESTS_AT_ONCE};
use super::epoch::Epoch;
use super::layout;
use super::rows::{TableRef, at};
use crate::error::Result;

/// Name of a table and a generation of it.
type Generation = (String, i64);

/// The retired generations of a store.
#[derive(Debug)]
pub(super) struct Sweeper {
    grace: Duration,
    retired: Vec<Retired>,
    /// Generations that were deleted since the last publish.
    deleted: Arc<Mutex<Vec<Generation>>>,
}

#[derive(Debug)]
struct Retired {
    generation: Generation,
    since: Since,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    /// The published manifest names it still.
    Unpublished,
    /// No manifest names it since then.
    Published(Instant),
    /// It is being deleted.
    Begun,
}

/// Generations to be deleted now.
pub(super) struct Due {
    generations: Vec<Generation>,
    deleted: Arc<Mutex<Vec<Generation>>>,
}

// === impl Sweeper ===

impl Sweeper {
    /// Takes the generations that the last owner of the lease retired. When it did is unknown, so the next publish
    /// counts.
    pub(super) fn new(retired: Vec<Generation>, grace: Duration) -> Self {
        let retired = retired.into_iter().map(|generation| Retired { generation, since: Since::Unpublished });
        Self { grace, retired: retired.collect(), deleted: Arc::default() }
    }

    pub(super) fn retire(&mut self, table: &str, generation: i64) {
        self.retired.push(Retired { generation: (table.to_owned(), generation), since: Since::Unpublished });
    }

    /// The generations to publish as retired.
    pub(super) fn all(&mut self) -> Vec<Generation> {
        let deleted = std::mem::take(&mut *self.deleted.lock());
        self.retired.retain(|retired| !deleted.contains(&retired.generation));
        self.retired.iter().map(|retired| retired.generation.clone()).collect()
    }

    /// Notes a publish, and returns what is to be deleted.
    pub(super) fn published(&mut self, now: Instant) -> Due {
        let mut generations = Vec::new();
        for retired in &mut self.retired {
            match retired.since {
                Since::Unpublished => retired.since = Since::Published(now),
                Since::Published(since) if now.duration_since(since) >= self.grace => {
                    retired.since = Since::Begun;
                    generations.push(retired.generation.clone());
                }
                Since::Published(_) | Since::Begun => {}
            }
        }
        Due { generations, deleted: Arc::clone(&self.deleted) }
    }
}

// === impl Due ===

impl Due {
    /// Deletes the generations beside the calls of the store. One that fails is tried again by the next process.
    pub(super) fn begin(self, epoch: &Epoch, place: &str) {
        let (place, timestamp) = (place.to_owned(), epoch.next_timestamp());
        if self.generations.is_empty() {
            return;
        }
        epoch.cluster.spawn(|link| async move {
            for generation in self.generations {
                match delete(&link, &place, &generation, timestamp).await {
                    Ok(()) => self.deleted.lock().push(generation),
                    Err(error) => tracing::warn!(%error, "failed to delete rows that nobody reads"),
                }
            }
        });
    }
}

async fn delete(link: &Link, place: &str, (table, generation): &Generation, timestamp: i64) -> Result<()> {
    let name: Arc<str> = layout::name_of(place, table).into();
    // Only the names of buckets are read, whatever their length.
    let table = TableRef { name: Arc::clone(&name), generation: *generation, bucket_bytes: 1 };
    let statement = at(&link.statements.delete_bucket_rows, timestamp);
    let delete = |bucket: Vec<u8>| {
        let (name, statement) = (&name, &statement);
        async move { link.send("delete rows", statement, (&**name, *generation, bucket)).await.map(drop) }
    };
    let buckets = table.all_buckets(link).await?;
    let deleted = stream::iter(buckets.into_iter().map(delete)).buffer_unordered(REQUESTS_AT_ONCE);
    deleted.try_collect::<()>().await?;
    let statement = at(&link.statements.delete_buckets, timestamp);
    link.send("delete the names of buckets", &statement, (&*name, *generation)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_deleted_after_the_grace_that_follows_its_last_manifest() {
        let (start, grace) = (Instant::now(), Duration::from_mins(1));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sweeper = Sweeper::new(vec![("old".to_owned(), 1)], grace);
        sweeper.retire("rows", 7);
        assert!(sweeper.published(at(1000)).generations.is_empty(), "a reader may have the manifest before this one");
        assert!(sweeper.published(at(1059)).generations.is_empty());
        let due = sweeper.published(at(1060));
        assert_eq!(due.generations, [("old".to_owned(), 1), ("rows".to_owned(), 7)]);
        assert!(sweeper.published(at(2000)).generations.is_empty(), "it is deleted once");
        assert_eq!(sweeper.all().len(), 2, "they are still there");
        due.deleted.lock().push(("old".to_owned(), 1));
        assert_eq!(sweeper.all(), [("rows".to_owned(), 7)]);
    }
}
