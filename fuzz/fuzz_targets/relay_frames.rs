//! Bytes of a WebSocket client of the relay: the same messages however they are split, or a refusal, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| birdhouse_relay::fuzzing::frames(bytes));
