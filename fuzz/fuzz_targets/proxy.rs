//! The first bytes of a reverse proxy: they become an address or a refusal, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|header: &[u8]| birdhouse_net::fuzzing::proxy(header));
