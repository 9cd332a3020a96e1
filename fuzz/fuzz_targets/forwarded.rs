//! Headers of a reverse proxy: what the client sends before them changes nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|header: &[u8]| birdhouse_clients::fuzzing::forwarded(header));
