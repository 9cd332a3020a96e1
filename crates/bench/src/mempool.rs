//! CPU time of projecting the blocks of a large mempool: by chunks of clusters, as for nodes from Core 31 on, and by
//! sets of ancestors, as for older ones. No node is asked.

use std::hint::black_box;
use std::time::Duration;

use birdhouse_chain::source::Ranking;
use birdhouse_esplora::bench::{Payment, Payments};
use birdhouse_regtest::rng::Rng;
use birdhouse_testkit::usage::own_cpu;

use crate::machine::args::at_least_one;
use crate::report::durations::seconds;
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

const SEED: u64 = 31;
/// The most relatives that nodes before Core 31 accept, the transaction itself included.
const RELATIVES_MAX: usize = 25;
/// The most transactions of a cluster.
const CLUSTER_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Transactions of the mempool.
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least_one::<usize>())]
    transactions: usize,
    /// Turns of each measurement, of which the median counts.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<usize>())]
    turns: usize,
}

/// The clusters of a mempool.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Nobody spends from anybody.
    Single,
    /// Of ten transactions six alone, two in pairs, one in a chain of 25, one beside or below a parent of 24.
    Mixed,
    /// Chains of 25.
    Chains,
    /// Parents with 24 children.
    Fans,
    /// Clusters of 25, each transaction with up to three random parents.
    Tangles,
    /// Clusters of 64, each transaction with up to three random parents. Nodes before Core 31 have none of these.
    LargeTangles,
}

impl Shape {
    const ALL: [Self; 6] = [Self::Single, Self::Mixed, Self::Chains, Self::Fans, Self::Tangles, Self::LargeTangles];

    fn name(self) -> &'static str {
        match self {
            Self::Single => "unrelated",
            Self::Mixed => "mixed",
            Self::Chains => "chains of 25",
            Self::Fans => "parents with 24 children",
            Self::Tangles => "clusters of 25, up to three parents",
            Self::LargeTangles => "clusters of 64, up to three parents",
        }
    }

    /// Returns the parents of each transaction of one cluster, by their number in it.
    fn cluster(self, rng: &mut Rng) -> Vec<Vec<usize>> {
        let chain = |len: usize| (0..len).map(|at| at.checked_sub(1).into_iter().collect()).collect();
        let fan = |len: usize| (0..len).map(|at| if at == 0 { Vec::new() } else { vec![0] }).collect();
        match self {
            Self::Single => chain(1),
            Self::Chains => chain(RELATIVES_MAX),
            Self::Fans => fan(RELATIVES_MAX),
            Self::Tangles => tangle(RELATIVES_MAX, rng),
            Self::LargeTangles => tangle(CLUSTER_MAX, rng),
            // 600 transactions alone, 100 pairs, and 100 transactions each in chains and below parents.
            Self::Mixed => match rng.below(708) {
                0..600 => chain(1),
                600..700 => chain(2),
                700..704 => chain(RELATIVES_MAX),
                _ => fan(RELATIVES_MAX),
            },
        }
    }

    /// Makes a mempool of at least as many transactions, in a random order.
    fn payments(self, transactions: usize) -> Vec<Payment> {
        let mut rng = Rng::new(SEED);
        let mut payments: Vec<Payment> = Vec::with_capacity(transactions + CLUSTER_MAX);
        while payments.len() < transactions {
            let first = payments.len();
            for parents in self.cluster(&mut rng) {
                let vsize = 110 + rng.below_u32(900);
                // 0.1 to 100 sat/vB, more of them low.
                let rate = 1 + rng.below_u32(1000) * rng.below_u32(1000) / 1000;
                let parents = parents.into_iter().map(|parent| first + parent).collect();
                payments.push(Payment { fee: vsize * rate / 10, vsize, parents });
            }
        }
        shuffled(&payments, &mut rng)
    }
}

fn tangle(len: usize, rng: &mut Rng) -> Vec<Vec<usize>> {
    let parents = |at: usize| {
        let mut parents: Vec<usize> = (0..at.min(1 + rng.index(3))).map(|_| rng.index(at)).collect();
        parents.sort_unstable();
        parents.dedup();
        parents
    };
    (0..len).map(parents).collect()
}

fn shuffled(payments: &[Payment], rng: &mut Rng) -> Vec<Payment> {
    let mut order: Vec<usize> = (0..payments.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.index(at + 1));
    }
    let mut place = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        place[*from] = to;
    }
    let moved = |from: &usize| {
        let mut payment = payments[*from].clone();
        payment.parents.iter_mut().for_each(|parent| *parent = place[*parent]);
        payment
    };
    order.iter().map(moved).collect()
}

pub(crate) fn run(plan: &Plan) -> Record {
    let mut record = Record::begin("Projected blocks", &std::env::temp_dir());
    record.servers = vec![Measured::new("birdhouse", Some(env!("CARGO_PKG_VERSION")), "")];
    let meaning = format!(
        "CPU seconds of projecting a mempool of {} transactions once, the median of {} turns.",
        plan.transactions, plan.turns
    );
    let columns = [("by chunks", Unit::Seconds), ("by ancestors", Unit::Seconds), ("blocks", Unit::Count)];
    let mut table = Table::new("A large mempool", meaning, Layout::OneServer, columns);
    for shape in Shape::ALL {
        let payments = Payments::of(shape.payments(plan.transactions));
        let blocks = payments.project(Ranking::Chunks).len();
        let [chunks, ancestors] =
            [Ranking::Chunks, Ranking::Ancestors].map(|ranking| median(plan.turns, &payments, ranking));
        eprintln!("mempool: {}: by chunks {chunks:?}, by ancestors {ancestors:?}", shape.name());
        table.push(shape.name(), [seconds(Some(chunks)), seconds(Some(ancestors)), Cell::count(blocks as u64)]);
    }
    record.tables.push(table);
    record
}

fn median(turns: usize, payments: &Payments, ranking: Ranking) -> Duration {
    let turn = |_| {
        let before = own_cpu();
        black_box(payments.project(ranking));
        own_cpu().saturating_sub(before)
    };
    let mut all: Vec<Duration> = (0..turns).map(turn).collect();
    all.sort_unstable();
    all[turns / 2]
}
