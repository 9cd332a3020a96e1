//! Places in memory that are fetched into the cache before they are written, so that no store waits for them.
//!
//! The build appends each record to one of 256 buffers, which the second cache cannot hold together. Without this,
//! filling them took 1.0 s of CPU time of a build of 11 s, and with it 0.7 s.

use std::mem::MaybeUninit;

/// Fetches the place at `index`, if there is one, where a value will be written soon. It changes nothing else.
#[inline]
pub(crate) fn to_write<T>(places: &[MaybeUninit<T>], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(place) = places.get(index) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let place = std::ptr::from_ref(place);
        #[expect(unsafe_code, reason = "the standard library offers this instruction for pointers alone")]
        // SAFETY: the instruction reads and writes no memory, and the place exists.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(place.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (places, index);
}
