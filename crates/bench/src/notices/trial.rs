//! The measurement of one program, on a node of its own.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use birdhouse_testkit::rng::Rng;

use super::chain::Chain;
use super::hook::Hook;
use super::plan::{Plan, Program, Subject};
use super::teller::{Cost, Teller};
use crate::report::durations::Durations;

/// Payments between two blocks.
const OF_A_BLOCK: u32 = 20;
/// Longest pause before a payment, so that it comes at any moment of the program's own rhythm.
const PAUSE_MS_MAX: u64 = 300;
/// Transactions of a large block that pay watched scripts: fewer than a digest sums up.
const WATCHED: usize = 10;
/// Time without a notice after which no more is awaited.
const QUIET: Duration = Duration::from_secs(10);
/// Time in which the server that a program asks learns what happened while the program was down.
const DOWN: Duration = Duration::from_secs(5);
/// Time after a block in which its work ends.
const SETTLE: Duration = Duration::from_secs(1);

/// The figures of one program.
#[derive(Debug)]
pub(super) struct Trial {
    /// From the call of the node to the command.
    pub(super) delays: Durations,
    /// Memory with all scripts known.
    pub(super) memory: Cost,
    /// CPU seconds a second of program and server, while nothing changes.
    pub(super) idle: [f64; 2],
    pub(super) blocks: Blocks,
    pub(super) restart: Restart,
}

/// Cost of large blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// From the block to the command for its last watched transaction.
    pub(super) delays: Durations,
    /// CPU seconds of program and server from each block until [`SETTLE`] after its last notice.
    pub(super) cpu_s: [f64; 2],
}

/// Notices after a time in which the program was down.
#[derive(Debug, Default)]
pub(super) struct Restart {
    /// Payments while it was down, and those of them that were announced.
    pub(super) payments: u32,
    pub(super) announced: u32,
    /// Notices of earlier transactions.
    pub(super) repeated: u32,
}

impl Trial {
    pub(super) fn run(subject: Subject, plan: &Plan) -> Result<Self> {
        let chain = Chain::start(plan.scripts, plan.transactions, subject.feed)?;
        let mut under_way = UnderWay {
            plan,
            program: subject.program,
            patience: Duration::from_secs(plan.patience_s),
            teller: Teller::new(subject, plan, chain.live.node())?,
            hook: Hook::start()?,
            chain,
            rng: Rng::new(1),
        };
        under_way.measure()
    }
}

/// A measurement under way. The program is dropped before its node.
struct UnderWay<'a> {
    plan: &'a Plan,
    program: Program,
    patience: Duration,
    teller: Teller<'a>,
    hook: Hook,
    chain: Chain,
    rng: Rng,
}

impl UnderWay<'_> {
    fn measure(&mut self) -> Result<Trial> {
        self.teller.start(self.chain.live.node(), &self.hook)?;
        self.pay_and_wait()?;
        self.hook.settle(QUIET)?;
        let (before, started) = (self.teller.cost()?, Instant::now());
        sleep(Duration::from_secs(self.plan.idle_s));
        let memory = self.teller.cost()?;
        let wall_s = started.elapsed().as_secs_f64();
        let idle = memory.cpu_s_since(&before).map(|cpu_s| cpu_s / wall_s);
        let delays = self.delays()?;
        let blocks = self.blocks()?;
        let restart = self.restart()?;
        Ok(Trial { delays, memory, idle, blocks, restart })
    }

    fn tells(&self) -> bool {
        self.program != Program::Unwatched
    }

    /// Pays a watched script, and waits for the notice; returns its delay.
    fn pay_and_wait(&mut self) -> Result<Duration> {
        let txid = self.chain.pay()?;
        if !self.tells() {
            return Ok(Duration::ZERO);
        }
        let noticed = self.hook.wait_for(&txid, self.patience)?;
        Ok(noticed.saturating_duration_since(self.chain.live.given_at()))
    }

    fn delays(&mut self) -> Result<Durations> {
        let mut delays = Durations::default();
        for number in 0..self.plan.payments {
            if !self.tells() {
                break;
            }
            if number % OF_A_BLOCK == 0 {
                self.chain.live.mine()?;
            }
            sleep(Duration::from_millis(self.rng.below(PAUSE_MS_MAX)));
            delays.add(self.pay_and_wait()?);
        }
        Ok(delays)
    }

    fn blocks(&mut self) -> Result<Blocks> {
        self.chain.live.mine()?;
        self.hook.settle(QUIET)?;
        let mut blocks = Blocks::default();
        for _ in 0..self.plan.blocks {
            let txs = self.chain.large_block(WATCHED);
            let watched: Vec<String> = txs.iter().take(WATCHED).map(|tx| tx.compute_txid().to_string()).collect();
            let before = self.teller.cost()?;
            self.chain.live.mine_these(txs)?;
            self.teller.wait_for_tip(self.chain.live.node())?;
            if self.tells() {
                blocks.delays.add(self.last_of(&watched)?);
            }
            sleep(SETTLE);
            for (sum, cpu_s) in blocks.cpu_s.iter_mut().zip(self.teller.cost()?.cpu_s_since(&before)) {
                *sum += cpu_s / f64::from(self.plan.blocks);
            }
        }
        Ok(blocks)
    }

    /// Waits for notices of all of these; returns the time since the node's last change.
    fn last_of(&mut self, txids: &[String]) -> Result<Duration> {
        let mut last = self.chain.live.given_at();
        for txid in txids {
            if self.hook.times(txid) == 0 {
                last = last.max(self.hook.wait_for(txid, self.patience)?);
            }
        }
        Ok(last - self.chain.live.given_at())
    }

    fn restart(&mut self) -> Result<Restart> {
        if !self.tells() {
            return Ok(Restart::default());
        }
        self.hook.settle(QUIET)?;
        self.teller.kill();
        let before = self.hook.total();
        let mut missed = Vec::new();
        for number in 0..self.plan.missed {
            if number % OF_A_BLOCK == OF_A_BLOCK / 2 {
                self.chain.live.mine()?;
            }
            missed.push(self.chain.pay()?);
        }
        sleep(DOWN);
        self.teller.start(self.chain.live.node(), &self.hook)?;
        // It is at work again when it announces a payment that comes now.
        self.pay_and_wait()?;
        self.hook.settle(QUIET)?;
        let announced = missed.iter().filter(|txid| self.hook.times(txid) > 0).count();
        let (payments, announced) = (self.plan.missed, u32::try_from(announced)?);
        Ok(Restart { payments, announced, repeated: self.hook.total() - before - announced - 1 })
    }
}
