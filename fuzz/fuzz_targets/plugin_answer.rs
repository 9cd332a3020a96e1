//! A line of an operator's plugin: it is ignored, or becomes an answer of the protocol.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| birdhouse_relay::fuzzing::plugin_answer(line));
