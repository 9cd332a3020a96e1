//! Progress of the first build: a bar on a terminal, otherwise a log line every ten seconds.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use birdhouse_chain::{Index, Phase};
use indicatif::{ProgressBar, ProgressStyle};

const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// A thread that reports the build's progress until this is dropped.
pub(super) struct Reporter {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to report the progress of `index`'s build.
pub(super) fn report(index: &Arc<Index>) -> Reporter {
    let (stop, stopped) = sync_channel::<()>(0);
    let index = Arc::clone(index);
    let thread = std::thread::spawn(move || {
        let mut view: Box<dyn View> =
            if std::io::stderr().is_terminal() { Box::new(Bar::new()) } else { Box::new(Lines::new()) };
        while stopped.recv_timeout(REDRAW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            view.update(&index);
        }
        view.finish();
    });
    Reporter { stop: Some(stop), thread: Some(thread) }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed.
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
                Phase::Scanning => "{spinner} scanning block files",
                Phase::Reading => "reading blocks {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg} eta {eta}",
                Phase::Sorting => "sorting {wide_bar} {pos}/{len} eta {eta}",
            };
            self.bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
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
        if self.last.elapsed() < LINE_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let progress = index.progress();
        let ((done, total), (blocks, blocks_total)) = (progress.done(), progress.blocks());
        match progress.phase() {
            Phase::Scanning => tracing::info!("scanning block files"),
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
