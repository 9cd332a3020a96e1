//! Shows the first build: a bar on a terminal, a line now and then otherwise.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::sync::Arc;

use birdhouse_chain::{Index, Phase};
use indicatif::{ProgressBar, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A thread that shows the build's progress until it is dropped.
pub(crate) struct Shown {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to show the progress of `index`'s build.
pub(crate) fn show(index: &Arc<Index>) -> Shown {
    let (stop, stopped) = sync_channel::<()>(0);
    let index = Arc::clone(index);
    let thread = std::thread::spawn(move || {
        let mut view: Box<dyn View> =
            if std::io::stderr().is_terminal() { Box::new(Bar::new()) } else { Box::new(Lines::new()) };
        while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            view.update(&index);
        }
        view.finish();
    });
    Shown { stop: Some(stop), thread: Some(thread) }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A view that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

trait View {
    fn update(&mut self, index: &Index);
    fn finish(&mut self);
}

struct Bar {
    bar: ProgressBar,
    phase: Option<Phase>,
}

impl Bar {
    fn new() -> Self {
        Self { bar: ProgressBar::new_spinner(), phase: None }
    }
}

impl View for Bar {
    fn update(&mut self, index: &Index) {
        let progress = index.progress();
        let (done, total) = progress.done();
        if self.phase != Some(progress.phase()) {
            self.phase = Some(progress.phase());
            let template = match progress.phase() {
                Phase::Scanning => "{spinner} looking for blocks",
                Phase::Reading => "reading blocks {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg} eta {eta}",
                Phase::Sorting => "sorting {wide_bar} {pos}/{len} eta {eta}",
            };
            self.bar.set_style(ProgressStyle::with_template(template).expect("a fixed template"));
            self.bar.reset();
        }
        let (blocks, blocks_total) = progress.blocks();
        self.bar.set_message(format!("block {blocks}/{blocks_total}"));
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.tick();
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct Lines {
    last: Instant,
    started: Instant,
}

impl Lines {
    fn new() -> Self {
        Self { last: Instant::now(), started: Instant::now() }
    }
}

impl View for Lines {
    fn update(&mut self, index: &Index) {
        if self.last.elapsed() < LINE_EVERY {
            return;
        }
        self.last = Instant::now();
        let progress = index.progress();
        let ((done, total), (blocks, blocks_total)) = (progress.done(), progress.blocks());
        match progress.phase() {
            Phase::Scanning => tracing::info!("looking for blocks"),
            Phase::Reading => {
                let elapsed = self.started.elapsed().as_secs().max(1);
                let (mb, mb_per_s) = (done / 1_000_000, done / 1_000_000 / elapsed);
                let left_s = if done == 0 { 0 } else { (total - done.min(total)) / (done / elapsed).max(1) };
                tracing::info!(blocks, blocks_total, mb, mb_per_s, left_s, "reading blocks");
            }
            Phase::Sorting => tracing::info!(done, total, "sorting"),
        }
    }

    fn finish(&mut self) {}
}
