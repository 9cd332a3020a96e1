//! Timings of the hot paths, each alone, with its data in memory or in the file cache: `make bench-micro`.
//!
//! They find a change of one function that the tables of BENCHMARKS.md would hide. Criterion compares each run with the
//! last one on the same machine; `make bench-micro ARGS=matcher` runs those whose names contain `matcher`.
#![forbid(unsafe_code)]

mod chain;
mod electrum;
mod events;
mod store;

fn main() {
    let mut criterion = criterion::Criterion::default().configure_from_args();
    chain::benches(&mut criterion);
    electrum::benches(&mut criterion);
    events::benches(&mut criterion);
    store::benches(&mut criterion);
    criterion.final_summary();
}
