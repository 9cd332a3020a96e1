//! The form of negentropy messages (NIP-77, "Negentropy Protocol V1"). Pure.
//!
//! ```text
//! message   version (0x61) | ranges
//! range     time of the upper bound | bytes of its id, at most 32 | these bytes | mode | payload
//! payload   of mode 0: nothing; 1: a fingerprint of 16 bytes; 2: number of ids | ids of 32 bytes
//! numbers   base 128, most significant digit first, the high bit set in all but the last byte
//! ```

const VERSION: u8 = 0x61;
const FINGERPRINT_BYTES: u64 = 16;
const ID_BYTES: u64 = 32;

/// Returns true if a message ends where a range ends. One of another version, which is answered with ours, has any
/// form.
pub(super) fn is_whole(message: &[u8]) -> bool {
    let Some((version, mut rest)) = message.split_first() else { return false };
    while *version == VERSION && !rest.is_empty() {
        if skip_range(&mut rest).is_none() {
            return false;
        }
    }
    true
}

fn skip_range(rest: &mut &[u8]) -> Option<()> {
    number(rest)?;
    let id_bytes = number(rest).filter(|bytes| *bytes <= ID_BYTES)?;
    skip(rest, id_bytes)?;
    match number(rest)? {
        0 => Some(()),
        1 => skip(rest, FINGERPRINT_BYTES),
        2 => {
            let ids = number(rest)?;
            skip(rest, ids.checked_mul(ID_BYTES)?)
        }
        _ => None,
    }
}

fn skip(rest: &mut &[u8], bytes: u64) -> Option<()> {
    *rest = rest.get(usize::try_from(bytes).ok()?..)?;
    Some(())
}

/// Reads a number of 64 bits; `None` if it is cut off, or larger.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        if number > u64::MAX >> 7 {
            return None;
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use negentropy::{Id, Negentropy, NegentropyStorageVector};

    use super::*;

    /// Returns the first message of a client with this many events.
    fn first(events: u8) -> Vec<u8> {
        let mut storage = NegentropyStorageVector::new();
        for event in 0..events {
            storage.insert(1_700_000_000 + u64::from(event) * 1000, Id::from_byte_array([event; 32])).expect("open");
        }
        storage.seal().expect("open");
        Negentropy::owned(storage, 0).expect("no bound").initiate().expect("the first")
    }

    #[test]
    fn messages_of_the_library_are_whole_and_no_cut_of_a_range_is() {
        for events in [0, 1, 5, 200] {
            let message = first(events);
            assert!(is_whole(&message), "{events} events");
            // A list of ids is one range; many events are sixteen ranges with fingerprints.
            let whole = (1..message.len()).filter(|end| is_whole(&message[..*end])).count();
            assert!(whole <= 16, "{events} events: {whole} of {} cuts are at the end of a range", message.len());
        }
        assert!(is_whole(&[0x61]) && is_whole(&[0x62, 0x80]) && !is_whole(&[]));
        // The example of a client without events, and its cuts inside a range.
        assert!(is_whole(&[0x61, 0, 0, 2, 0]));
        assert!(![&[0x61, 0][..], &[0x61, 0, 0], &[0x61, 0, 0, 2]].into_iter().any(is_whole));
        // Inside of a number: a time, a length, a mode, a number of ids.
        for cut in [&[0x61, 0x86][..], &[0x61, 0, 0x80], &[0x61, 0, 0, 0x80], &[0x61, 0, 0, 2, 0x80]] {
            assert!(!is_whole(cut), "{cut:?}");
        }
        assert!(!is_whole(&[0x61, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0]), "70 bits");
    }
}
