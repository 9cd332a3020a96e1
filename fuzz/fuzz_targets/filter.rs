//! A filter as JSON, and an event: the filter is refused, or matches the event exactly when it matches its packed form.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], &[u8])| birdhouse_events::fuzzing::filter(input.0, input.1));
