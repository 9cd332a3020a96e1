//! An event as JSON: it is refused, or round-trips through JSON and the packed form.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| birdhouse_events::fuzzing::event(text));
