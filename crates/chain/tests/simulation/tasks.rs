//! Work that runs beside the follower: on the same thread, at a moment that the simulation chooses.

use std::time::Duration;

use parking_lot::Mutex;

/// Work that runs once.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

struct Task {
    number: usize,
    /// `None` once it has run.
    work: Option<Work>,
    run_at: Duration,
    done_at: Duration,
}

/// All work that nobody has taken the result of yet.
#[derive(Default)]
pub(crate) struct Tasks {
    state: Mutex<(usize, Vec<Task>)>,
}

impl Tasks {
    pub(crate) fn push(&self, work: Work, run_at: Duration, done_at: Duration) -> usize {
        let mut state = self.state.lock();
        state.0 += 1;
        let number = state.0;
        state.1.push(Task { number, work: Some(work), run_at, done_at });
        number
    }

    /// Runs what is due.
    pub(crate) fn run_due(&self, now: Duration) {
        loop {
            let next = self.state.lock().1.iter_mut().find_map(|task| {
                let is_due = task.run_at <= now;
                if is_due { task.work.take() } else { None }
            });
            let Some(work) = next else { return };
            work();
        }
    }

    /// Time of the next event of any of them.
    pub(crate) fn next(&self) -> Option<Duration> {
        let state = self.state.lock();
        state.1.iter().filter(|task| task.work.is_some()).map(|task| task.run_at).min()
    }

    pub(crate) fn is_finished(&self, number: usize, now: Duration) -> bool {
        let state = self.state.lock();
        let task = state.1.iter().find(|task| task.number == number);
        task.is_none_or(|task| task.work.is_none() && task.done_at <= now)
    }

    /// Forgets one: what has not run yet never will.
    pub(crate) fn remove(&self, number: usize) {
        let mut state = self.state.lock();
        let at = state.1.iter().position(|task| task.number == number);
        let task = at.map(|at| state.1.remove(at));
        drop(state);
        drop(task);
    }

    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut self.state.lock().1);
        drop(tasks);
    }
}
