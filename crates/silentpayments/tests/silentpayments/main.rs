//! The rules of BIP 352 on the BIP's own vectors and on cases that these miss. A slow model, written from the BIP,
//! gives the expected values; it also makes every mistake of a list, and each mistake must be found by a case.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod addresses;
mod cases;
mod disassembly;
mod kernel;
mod mistakes;
mod model;
mod second_oracle;
mod vectors;
