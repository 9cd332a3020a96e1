//! The thread on which work is done that keeps a processor busy: the thread at hand, or that one without its other
//! tasks.
//!
//! Handing the thread's other tasks to another thread takes two wake-ups, longer than most work takes here. Work that
//! is likely to be long, or to wait for the disk, is worth them.
//!
//! The threads that move bytes never work for milliseconds at a time: if all of them were busy, no socket would be
//! read, and every client would wait. Callers decide which work is long.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// The choice between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// The thread at hand; its other tasks wait.
    Inline,
    /// The thread at hand, while another one takes over its other tasks.
    Offload,
}

impl Executor {
    /// Offloads work on more bytes than `inline_max`.
    pub fn for_bytes(bytes: usize, inline_max: usize) -> Self {
        if bytes > inline_max { Self::Offload } else { Self::Inline }
    }

    /// Does the work.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Inline => work(),
            Self::Offload => offload(work),
        }
    }
}

/// Does work that takes longer than a thread of the runtime may be kept from all other clients.
pub fn offload<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        // One thread serves all tasks: there is no other one to take them.
        _ => work(),
    }
}

/// Returns `true` where offloaded work may wait for what other tasks do: another thread goes on with them.
pub fn can_wait_offloaded() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Waits in offloaded work, on its thread.
///
/// # Panics
/// On a runtime of one thread, see [`can_wait_offloaded`].
pub fn wait_offloaded<T>(future: impl Future<Output = T>) -> T {
    Handle::current().block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_meanwhile() {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let busy = tokio::spawn(async move { offload(|| receive.recv_timeout(Duration::from_secs(30))) });
        let start = Instant::now();
        tokio::spawn(async move { send.send(()) }).await.expect("no panic").expect("somebody listens");
        assert_eq!(busy.await.expect("no panic"), Ok(()));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn work_on_many_bytes_is_offloaded() {
        assert_eq!([Executor::for_bytes(10, 10), Executor::for_bytes(11, 10)], [Executor::Inline, Executor::Offload]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_waits_for_other_tasks() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let busy = tokio::spawn(async move { can_wait_offloaded().then(|| offload(|| wait_offloaded(receive))) });
        tokio::spawn(async move { send.send(7) }).await.expect("no panic").expect("somebody listens");
        assert_eq!(busy.await.expect("no panic"), Some(Ok(7)));
    }

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        assert_eq!((offload(|| 7), can_wait_offloaded()), (7, false));
    }
}
