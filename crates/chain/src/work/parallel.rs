//! Work on a list by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

/// Items that a thread takes at a time. Neighbours of a sorted list lie close to each other on the disk.
const TAKEN: usize = 16;

/// Maps every item on this many threads; the results stand in the order of `items`. A short list is mapped by the
/// calling thread.
///
/// # Errors
/// The first error of `map` in the order of time.
pub(crate) fn map<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    map: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    in_chunks(threads, items, TAKEN, |chunk| chunk.iter().map(&map).collect())
}

/// Maps chunks of `len` items to as many results each; the results stand in the order of `items`.
///
/// # Errors
/// Those of [`map`].
pub(crate) fn in_chunks<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    len: usize,
    map: impl Fn(&[T]) -> Result<Vec<R>, E> + Sync,
) -> Result<Vec<R>, E> {
    let chunks: Vec<&[T]> = items.chunks(len).collect();
    let threads = chunks.len().min(threads);
    if threads <= 1 {
        return map(items);
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(chunks.len())));
    let work = || -> Result<(), E> {
        while let Some((at, chunk)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            chunks.get(at).map(|chunk| (at, chunk))
        } {
            let mapped = map(chunk).inspect_err(|_| next.store(chunks.len(), Ordering::Relaxed))?;
            done.lock().push((at, mapped));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().map(|other| other.join().expect("the work does not panic")).fold(own, Result::and)
    })?;
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().flat_map(|(_, mapped)| mapped).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::error::{Error, Result};

    #[test]
    fn results_stand_in_the_order_of_the_items_and_an_error_ends_the_work() {
        for len in [0_u32, 1, 15, 16, 17, 1000] {
            let items: Vec<u32> = (0..len).collect();
            let doubled: Vec<u32> = items.iter().map(|item| item * 2).collect();
            assert_eq!(map(8, &items, |item| Ok::<_, Error>(item * 2)).unwrap(), doubled);
        }
        let items: Vec<u32> = (0..1000).collect();
        let failed = map(8, &items, |item| if *item == 500 { Err(Error::NoBlocks) } else { Ok(*item) });
        assert!(matches!(failed, Err(Error::NoBlocks)));
        for threads in [1, 4] {
            let each = |work: fn(u32) -> Result<u32>, items: &[u32]| {
                in_chunks(threads, items, 1, |some| some.iter().copied().map(work).collect())
            };
            assert_eq!(each(|item| Ok(item * 2), &[1, 2, 3, 4]).unwrap(), [2, 4, 6, 8]);
            let failed = each(|item| if item == 2 { Err(Error::NoBlocks) } else { Ok(item) }, &[1, 2, 3]);
            assert!(matches!(failed, Err(Error::NoBlocks)));
            assert!(each(Ok, &[]).unwrap().is_empty());
        }
    }
}
