//! CPU time and duration of a request: figures for `docs/cluster.md`.

use std::time::{Duration, Instant};

use birdhouse_testkit::asked::{Cost, about, cost};
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::usage::Usage;

use super::TINY;
use super::world::{FRONTS, PATIENCE, World};

/// Requests by which CPU time is measured.
const MEASURED_REQUESTS: usize = 8_000;
/// Requests of wallets about one script, in `asked`.
const REQUESTS_PER_SCRIPT: usize = 5;

impl World {
    /// CPU time of all nodes.
    fn cpu_of_nodes(&self) -> Duration {
        let pids = (0..self.cassandra.node_count()).map(|number| self.cassandra.pid(number).unwrap());
        pids.map(|pid| Usage::of(pid).unwrap().cpu).sum()
    }

    /// The number of requests that [`Self::cost`] sends.
    fn requests_of_a_measurement(&self) -> u32 {
        let round = 2 * about(&self.live.ledger().scripts()).len();
        u32::try_from(MEASURED_REQUESTS.next_multiple_of(round)).unwrap()
    }

    fn cost(&self, server: &Peer) -> Cost {
        cost(server, &about(&self.live.ledger().scripts()), MEASURED_REQUESTS, PATIENCE).unwrap()
    }
}

/// Prints figures for `docs/cluster.md`: run with `--ignored --nocapture measure`.
#[test]
#[ignore = "a measurement: make cluster-test"]
fn measure_requests_through_front_ends() {
    let Some((world, _indexer)) = World::start(3, TINY, "measurements on three nodes") else { return };
    let Cost { cpu, wall } = world.cost(&world.embedded);
    println!("files: {cpu:?} of CPU time and {wall:?} a request, {REQUESTS_PER_SCRIPT} requests a script");
    for count in 1..=FRONTS {
        let fronts = &world.fronts[..count];
        let (before, began) = (world.cpu_of_nodes(), Instant::now());
        let costs: Vec<Cost> = std::thread::scope(|scope| {
            let asking: Vec<_> = fronts.iter().map(|front| scope.spawn(|| world.cost(front))).collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).collect()
        });
        let (took, fronts) = (began.elapsed(), u32::try_from(count).unwrap());
        let nodes = world.cpu_of_nodes().saturating_sub(before) / (fronts * world.requests_of_a_measurement());
        let cpu = costs.iter().map(|cost| cost.cpu).sum::<Duration>() / fronts;
        let wall = costs.iter().map(|cost| cost.wall).sum::<Duration>() / fronts;
        println!(
            "{count} front ends: {cpu:?} of their CPU time, {nodes:?} of that of the nodes, and {wall:?} a request; all \
             took {took:?}"
        );
        assert!(cpu > Duration::ZERO);
    }
}
