//! What a client of the relay says: it is followed, or answered in words of the protocol that are no longer than its own.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| birdhouse_relay::fuzzing::message(text));
