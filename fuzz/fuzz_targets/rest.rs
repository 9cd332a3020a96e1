//! A request of the REST API: it is routed and read, or refused as the client's fault.
#![no_main]

libfuzzer_sys::fuzz_target!(|request: &[u8]| {
    let _ = birdhouse_esplora::fuzzing::request(request);
});
