//! Bytes of a WebSocket client: they become messages or a refusal, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| birdhouse_net::fuzzing::frames(bytes));
