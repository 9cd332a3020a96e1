//! A turn and a thread for every question.
//!
//! A question that a few rows answer is answered where it was read, if no such read has waited for the disk lately.
//! Others run on a thread that may wait, and so does everything that asks the node. Each holds a turn of its client
//! meanwhile, so a flood waits behind itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::Snapshot;
use birdhouse_net::{Meter, offload};

use crate::failure::Failure;
use crate::params::Params;
use crate::reply::Answer;
use crate::service::Service;

/// An inline read that takes longer has waited for the disk: with everything in memory it takes some tens of
/// microseconds.
const SLOW_READ: Duration = Duration::from_millis(2);

/// A request, with the view of the index that its answer sees.
pub struct Question<'a> {
    pub(crate) service: &'a Service,
    /// The view of the index that the answer sees.
    pub at: &'a Snapshot,
    /// Parts of the request.
    pub params: &'a Params,
}

/// The function that answers a question.
pub type Endpoint = fn(&Question<'_>) -> Answer;

/// The resource that an endpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Headers and mempool.
    Memory,
    /// A few rows of the index, or many.
    Index,
    /// Many rows or whole blocks, always.
    Blocks,
    /// The node.
    Node,
}

impl Service {
    /// Answers a question of a client from one snapshot.
    pub(crate) async fn answer(
        &self,
        meter: &Arc<Meter>,
        (lane, endpoint): (Lane, Endpoint),
        params: &Params,
        at: &Snapshot,
    ) -> Answer {
        let ask = |at: &Snapshot| caught(|| endpoint(&Question { service: self, at, params }));
        match lane {
            Lane::Memory => {
                let _turn = self.processors.take(meter).await;
                ask(at)
            }
            Lane::Index => {
                if let Some(answer) = self.read_inline(meter, at, ask).await {
                    return answer;
                }
                let _turn = self.disk.take(meter).await;
                offload(|| ask(at))
            }
            Lane::Blocks => {
                let _turn = self.disk.take(meter).await;
                offload(|| ask(at))
            }
            Lane::Node => {
                let _turn = self.node_calls.take(meter).await;
                offload(|| ask(at))
            }
        }
    }

    /// Answers within the read budget; `None` if the answer takes more.
    async fn read_inline(
        &self,
        meter: &Arc<Meter>,
        at: &Snapshot,
        ask: impl Fn(&Snapshot) -> Answer,
    ) -> Option<Answer> {
        let _turn = self.processors.take(meter).await;
        let began = Instant::now();
        if self.disk_stall.is_recent(began) {
            return None;
        }
        let within = at.within_budget(|at| match ask(at) {
            Err(Failure::Index(error)) => Err(error),
            answer => Ok(answer),
        });
        if began.elapsed() > SLOW_READ {
            self.disk_stall.record(Instant::now());
        }
        within.unwrap_or_else(|error| Some(Err(error.into())))
    }
}

/// Answers, and turns a panic, which is a fault of ours, into a failure. The panic hook logs it.
fn caught(work: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("request panicked");
        Err(Failure::internal())
    })
}
