//! A block or undo file: its records are found, each inside the file, and the scan ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| birdhouse_node::fuzzing::records(file));
