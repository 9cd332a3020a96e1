//! A filter as JSON, with an event: it is refused, or decides alike of the event whole and packed.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], &[u8])| birdhouse_events::fuzzing::filter(input.0, input.1));
