//! The thread of a running attack.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::attackers::Attackers;
use super::kind::{Attack, Outcome};
use super::prey::Prey;
use super::target::Target;
use crate::error::{Error, Result};

/// A running attack. Dropping it ends the attack.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

impl Attack {
    /// Starts the attack from `address`.
    pub fn start(self, target: Target, address: Ipv4Addr, prey: &Prey) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (stop, prey) = (Arc::clone(&stop), prey.clone());
            thread::spawn(move || Attackers::new(self, target, address, &prey).attack(&stop))
        };
        Running { stop, thread: Some(thread) }
    }
}

impl Running {
    /// Ends the attack and returns its counts.
    pub fn stop(mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("an attack is stopped once");
        thread.join().map_err(|_| Error::Protocol("an attack panicked".into()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
