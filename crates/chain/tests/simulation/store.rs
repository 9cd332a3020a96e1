//! The engine in memory with what happens to a disk: the simulation decides which reads and writes fail, and what else
//! happens between two of them.

use birdhouse_store::{Error, Result};
use birdhouse_testkit::hooked_store::{Call, Hook, Outcome};

use crate::sim::Sim;

impl Hook for Sim {
    fn before(&self, call: Call) -> Result<()> {
        if call == Call::Read && self.read_fails() {
            let cause = std::io::Error::other("simulated fault");
            return Err(Error::Io { action: "read in memory".to_owned(), cause });
        }
        if call.is_change() {
            self.before_write();
        }
        Ok(())
    }

    fn after(&self, call: Call, outcome: Outcome) -> Result<()> {
        match (call, outcome) {
            (Call::Publish, Outcome::Done) => self.published(),
            (Call::Read, _) | (_, Outcome::Done) => {}
            (_, Outcome::Failed) => self.write_failed(),
        }
        Ok(())
    }

    fn free_bytes(&self, _free: Option<u64>) -> Option<u64> {
        Some(if self.is_disk_scarce() { 0 } else { u64::MAX })
    }
}
