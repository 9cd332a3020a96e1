//! Buffers of pages, used again: fresh memory for a page costs as much as writing the page.

use std::cell::RefCell;

/// Spare buffers of a thread.
const BUFFERS_MAX: usize = 2;
/// Of one of them; a larger one is given back to the system.
const BUFFER_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, perhaps with room.
pub(crate) fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a buffer to whoever takes the next.
pub(crate) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        if buffer.capacity() <= BUFFER_BYTES_MAX && spare.len() < BUFFERS_MAX {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_not_without_bound() {
        for bytes in [1000, 2000, 3000, 2 * BUFFER_BYTES_MAX] {
            give(vec![1; bytes]);
        }
        let [first, second, third] = [take(), take(), take()];
        assert!(first.is_empty() && second.is_empty());
        assert_eq!((first.capacity(), second.capacity(), third.capacity()), (2000, 1000, 0));
    }
}
