//! A message of a relay client: it is handled, or refused by the protocol with a bounded answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| birdhouse_relay::fuzzing::message(text));
