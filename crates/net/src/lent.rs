//! Small buffers that connections borrow from the thread while they have bytes to put into them.
//!
//! Of ten thousand connections a few have sent something that is not answered yet: those have a buffer each. The
//! buffers that are spare are as many as one thread fills in one go.

use std::cell::RefCell;

/// Capacity of a buffer.
pub(crate) const BUFFER_BYTES: usize = 4 * 1024;
/// Spare buffers of a thread.
const BUFFERS_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer of [`BUFFER_BYTES`]. Its memory may have been used by other connections.
pub(crate) fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Takes a buffer back, from whomever. One of another capacity is freed.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() != BUFFER_BYTES {
        return;
    }
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < BUFFERS_MAX {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_of_one_size_and_not_without_bound() {
        let lent: Vec<_> = (0..2 * BUFFERS_MAX).map(|_| take()).collect();
        for mut buffer in lent {
            buffer.push(1);
            give(buffer);
        }
        give(Vec::with_capacity(2 * BUFFER_BYTES));
        assert_eq!(SPARE.with_borrow(Vec::len), BUFFERS_MAX);
        let again = take();
        assert_eq!((again.len(), again.capacity()), (0, BUFFER_BYTES));
    }
}
