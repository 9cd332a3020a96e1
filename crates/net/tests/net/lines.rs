//! Messages in lines.

use birdhouse_net::{CloseCode, Lines, Next};
use proptest::prelude::*;

use crate::all;

#[tokio::test]
async fn lines_come_however_the_bytes_are_cut() {
    let (lines, end) = all(Lines::default(), &[b"on", b"e\ntw", b"o\r\n\nthree\nla", b"st"], 5).await;
    assert_eq!(lines, [&b"one"[..], b"two", b"", b"three", b"last"]);
    assert_eq!(end, Next::End(CloseCode::Normal));
}

#[tokio::test]
async fn a_line_at_the_bound_passes_and_one_byte_more_does_not() {
    let too_long = || Next::Refused(CloseCode::Size);
    assert_eq!(all(Lines::default(), &[b"12345\n"], 5).await, (vec![b"12345".to_vec()], Next::End(CloseCode::Normal)));
    assert_eq!(all(Lines::default(), &[b"ok\n123456\n"], 5).await, (vec![b"ok".to_vec()], too_long()));
    assert_eq!(all(Lines::default(), &[b"123", b"456"], 5).await, (Vec::new(), too_long()));
}

proptest! {
    #[test]
    fn lines_are_those_of_split(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
                                cut in 0usize..300) {
        let cut = cut.min(bytes.len());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (lines, end) = runtime.block_on(all(Lines::default(), &[&bytes[..cut], &bytes[cut..]], 1000));
        let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if expected.last().is_some_and(|last| last.is_empty()) {
            expected.pop();
        }
        let expected: Vec<_> = expected.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        prop_assert_eq!(end, Next::End(CloseCode::Normal));
        prop_assert_eq!(lines, expected);
    }
}
