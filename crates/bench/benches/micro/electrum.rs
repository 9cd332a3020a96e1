//! The Electrum protocol: parsing of requests.

use std::hint::black_box;

use criterion::{Criterion, Throughput};

const BATCH: usize = 50;

pub(crate) fn benches(criterion: &mut Criterion) {
    let scripthash = "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161";
    let method = "blockchain.scripthash.get_history";
    let request = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":["{scripthash}"]}}"#);
    let batch = format!("[{}]", vec![request.as_str(); BATCH].join(","));
    let mut group = criterion.benchmark_group("electrum");
    for (name, line) in [("request, for three versions", request), ("batch of 50, for three versions", batch)] {
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| birdhouse_electrum::fuzzing::line(black_box(line.as_bytes())));
        });
    }
    group.finish();
}
