//! A message of a negentropy session: it is refused, or gets an answer within its bound.
#![no_main]

libfuzzer_sys::fuzz_target!(|message: &[u8]| birdhouse_relay::fuzzing::negentropy(message));
