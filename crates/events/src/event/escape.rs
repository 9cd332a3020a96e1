//! Quoted strings in the two forms of [NIP-01].
//!
//! NIP-01 lists seven characters to escape. Everything else is verbatim in the form that is hashed, including other
//! control characters. JSON allows no raw control characters, so the form on the wire has `\u00XX` for these.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

/// Form of the control characters for which NIP-01 has no escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controls {
    /// Verbatim: the form that is hashed.
    Verbatim,
    /// `\u00XX`: the form that is JSON.
    Escaped,
}

/// Marks a byte that is verbatim.
const PLAIN: u8 = 0;
/// Marks a control character without an escape of its own.
const CONTROL: u8 = 1;
/// `PLAIN`, `CONTROL`, or the letter after the backslash, for each byte. Bytes of multi-byte characters are plain.
const ESCAPES: [u8; 256] = {
    let mut escapes = [PLAIN; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = CONTROL;
        byte += 1;
    }
    escapes[b'\n' as usize] = b'n';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'\r' as usize] = b'r';
    escapes[b'\t' as usize] = b't';
    escapes[0x08] = b'b';
    escapes[0x0c] = b'f';
    escapes
};

/// Bytes that are tested together.
const CHUNK: usize = 16;

/// Returns true if the two forms of the text differ.
pub(super) fn has_unlisted_control(text: &str) -> bool {
    text.bytes().any(|byte| ESCAPES[usize::from(byte)] == CONTROL)
}

/// Returns true if the bytes are ASCII text that is verbatim in both forms.
pub(crate) fn is_simple(bytes: &[u8]) -> bool {
    let are_simple = |bytes: &[u8]| !any(bytes, |byte| is_special(byte) || !byte.is_ascii());
    match bytes.last_chunk::<CHUNK>() {
        // The last chunk may overlap the one before it; testing it whole is faster than byte by byte.
        Some(last) => are_simple(last) && bytes.as_chunks::<CHUNK>().0.iter().all(|chunk| are_simple(chunk)),
        None => are_simple(bytes),
    }
}

/// Appends text with its quotation marks.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &[u8], controls: Controls) {
    let mut rest = text;
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_bytes(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        rest = after;
        match ESCAPES[usize::from(*byte)] {
            CONTROL if controls == Controls::Escaped => {
                out.extend_from_slice(b"\\u00");
                crate::event::hex::write(out, &[*byte]);
            }
            CONTROL => out.push(*byte),
            escape => out.extend_from_slice(&[b'\\', escape]),
        }
    }
    out.push(b'"');
}

/// Returns the number of leading bytes that are verbatim.
fn plain_bytes(bytes: &[u8]) -> usize {
    let (chunks, _) = bytes.as_chunks::<CHUNK>();
    let whole = chunks.iter().take_while(|chunk| !any(&chunk[..], is_special)).count() * CHUNK;
    let rest = &bytes[whole..];
    whole + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

/// Returns true if [`ESCAPES`] marks the byte. Written as comparisons, so that the compiler vectorises them.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns true if `is_so` holds for any byte. Tests all of them, without a branch.
fn any(bytes: &[u8], is_so: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(false, |any, byte| any | is_so(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, controls: Controls) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text.as_bytes(), controls);
        String::from_utf8(out).expect("whole characters stay whole")
    }

    #[test]
    fn seven_characters_are_escaped_in_both_forms() {
        for controls in [Controls::Verbatim, Controls::Escaped] {
            let text = "a\n\"\\\r\t\u{8}\u{c}z";
            assert_eq!(written(text, controls), r#""a\n\"\\\r\t\b\fz""#);
        }
    }

    #[test]
    fn other_control_characters_are_raw_where_hashed_and_escaped_where_json() {
        let text = "\0\u{1}\u{b}\u{1f}\u{7f}";
        assert_eq!(written(text, Controls::Verbatim), format!("\"{text}\""));
        assert_eq!(written(text, Controls::Escaped), "\"\\u0000\\u0001\\u000b\\u001f\u{7f}\"");
    }

    #[test]
    fn what_is_escaped_is_found_at_every_place() {
        assert!((0..=u8::MAX).all(|byte| (plain_bytes(&[byte]) == 0) == (ESCAPES[usize::from(byte)] != PLAIN)));
        for length in 1..40 {
            for at in 0..length {
                let mut text = vec![b'a'; length];
                text[at] = b'"';
                assert_eq!(plain_bytes(&text), at, "of {length}");
            }
        }
    }

    #[test]
    fn what_is_simple_is_found_out_of_any_length() {
        assert!(
            (0..=u8::MAX).all(|byte| is_simple(&[byte]) == (byte.is_ascii() && ESCAPES[usize::from(byte)] == PLAIN))
        );
        for length in 0..40 {
            let text = vec![b'a'; length];
            assert!(is_simple(&text));
            for (at, byte) in (0..length).flat_map(|at| [(at, b'\\'), (at, 0xc3)]) {
                let mut text = text.clone();
                text[at] = byte;
                assert!(!is_simple(&text), "{at} of {length}");
            }
        }
    }

    #[test]
    fn slashes_separators_and_characters_beyond_the_basic_plane_are_verbatim() {
        let text = "/\u{2028}\u{2029}\u{fffe}\u{ffff}\u{1f600}\u{80}";
        assert_eq!(written(text, Controls::Verbatim), format!("\"{text}\""));
        assert_eq!(written(text, Controls::Escaped), format!("\"{text}\""));
    }
}
