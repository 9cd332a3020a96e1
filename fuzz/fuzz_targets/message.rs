//! A message of a client of the relay: it is handled, or refused in the protocol's words with a bounded answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| birdhouse_relay::fuzzing::message(text));
