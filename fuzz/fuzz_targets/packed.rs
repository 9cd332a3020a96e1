//! A packed event from the disk: it is reported as damaged, or round-trips through JSON and packing.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: ([u8; 32], &[u8])| birdhouse_events::fuzzing::packed_event(input.0, input.1));
