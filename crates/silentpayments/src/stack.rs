//! Copies of a key on the stack of a thread.

use std::hint::black_box;

use zeroize::Zeroize as _;

/// Bytes that the deepest computation with a key takes, with a margin.
const WIPED_BYTES: usize = 64 * 1024;

/// Overwrites what calls of this thread have left on its stack below the caller. Values that were moved, and those of
/// the libraries for hashes and curve points, leave copies there that nobody else overwrites.
#[inline(never)]
#[expect(clippy::large_stack_arrays, reason = "the stack is what it is about")]
pub fn wipe_stack() {
    let mut below = [0_u8; WIPED_BYTES];
    below.zeroize();
    black_box(&mut below);
}
