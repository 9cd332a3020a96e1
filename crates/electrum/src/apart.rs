//! Work that takes longer than a thread of the runtime may be kept from all other clients.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs it here, while another thread takes over what this one had yet to do.
pub(crate) fn apart<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        // One thread serves all of them: it has nobody to hand over to.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_meanwhile() {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let busy = tokio::spawn(async move { apart(|| told.recv_timeout(Duration::from_secs(30))) });
        let start = Instant::now();
        tokio::spawn(async move { tell.send(()) }).await.expect("no panic").expect("somebody listens");
        assert_eq!(busy.await.expect("no panic"), Ok(()));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_single_thread_does_it_itself() {
        assert_eq!(apart(|| 7), 7);
    }
}
