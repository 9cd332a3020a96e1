//! A line of a question about wallets: an address, an extended key or a descriptor. Its scripts are derived.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    let _ = birdhouse_explorer::fuzzing::line(line);
});
