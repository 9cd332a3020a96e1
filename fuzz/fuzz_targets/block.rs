//! A block and the outputs it spends: any two byte strings are parsed or refused, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], &[u8])| {
    let (block, spent) = input;
    birdhouse_chain::fuzzing::block(block, spent);
});
