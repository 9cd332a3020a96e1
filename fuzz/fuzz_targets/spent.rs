//! Undo data and the answer of `/rest/spenttxouts`, for transactions with any number of inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], &[u8])| {
    let (inputs, bytes) = input;
    birdhouse_chain::fuzzing::spent(bytes, inputs);
});
