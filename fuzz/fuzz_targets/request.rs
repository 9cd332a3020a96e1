//! A line of an Electrum client: it becomes requests or errors, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| birdhouse_electrum::fuzzing::line(line));
