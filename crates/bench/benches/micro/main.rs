//! Timings of the hot paths, each alone in memory: `make bench-micro`.
//!
//! They find a change of one function that the tables of BENCHMARKS.md would hide. Criterion compares each run with the
//! last one on the same machine; `make bench-micro ARGS=matcher` runs those whose names contain `matcher`.
#![forbid(unsafe_code)]

mod chain;
mod electrum;
mod events;

fn main() {
    let mut criterion = criterion::Criterion::default().configure_from_args();
    chain::benches(&mut criterion);
    electrum::benches(&mut criterion);
    events::benches(&mut criterion);
    criterion.final_summary();
}
