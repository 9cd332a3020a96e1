//! What a WebSocket client of the relay sends: it becomes the same messages however it arrives, or a refusal, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| birdhouse_relay::fuzzing::frames(bytes));
