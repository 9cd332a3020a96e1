//! Texts and tags of packed events. [`packed`](super) has the layout.

use crate::event::{Controls, hex, is_simple, write_string};

/// Texts shorter than this are not tested for hexadecimal.
const HEX_BYTES_MIN: usize = 8;

/// A text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text<'a> {
    /// ASCII that JSON needs not escape.
    Simple(&'a [u8]),
    Plain(&'a str),
    /// Bytes whose lowercase hexadecimal is the text.
    Hex(&'a [u8]),
}

/// Start of a tag with a letter and 32 bytes: `elements | 2 | letter | KEY | key`. Most tags are of this form without
/// more elements, and follow lists have no others.
type KeyTag = [u8; 36];

/// Constant parts of its JSON: before the digits, with the letter to be replaced; and after them, with a comma for the
/// next tag.
const KEY_TAG_HEAD: [u8; 6] = *b"[\"p\",\"";
const KEY_TAG_END: [u8; 3] = *b"\"],";
const TAG_END: &[u8] = b"],";
const KEY_TAG_JSON_BYTES: usize = KEY_TAG_HEAD.len() + 64 + KEY_TAG_END.len();

/// Count before the key of such a tag: the form of 32 bytes.
pub(super) const KEY: u8 = 2 * 32 + 1;

/// Read position in the bytes.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

/// Appends a text in its one form: equal forms are equal texts.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    if let Some(key) = hex::parse::<32>(text) {
        // The most frequent case.
        out.push(KEY);
        out.extend_from_slice(&key);
    } else if let Some(decoded) = hex_bytes(bytes) {
        put_count(out, bytes.len() + 1);
        out.extend(decoded);
    } else {
        put_count(out, bytes.len() * 2);
        out.extend_from_slice(bytes);
    }
}

/// Returns the bytes that a text is stored as, if it is stored as hexadecimal.
fn hex_bytes(text: &[u8]) -> Option<impl Iterator<Item = u8>> {
    if text.len() < HEX_BYTES_MIN { None } else { hex::read(text) }
}

pub(super) fn put_count(out: &mut Vec<u8>, mut count: usize) {
    loop {
        let low = u8::try_from(count & 0x7f).expect("seven bits");
        count >>= 7;
        if count == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Appends tags of a letter and a key as JSON, with a comma after each.
fn write_key_tags(out: &mut Vec<u8>, tags: &[KeyTag]) {
    let before = out.len();
    // Each part is written to its final place: rereading bytes that were just written in other pieces stalls the
    // processor.
    out.resize(before + KEY_TAG_JSON_BYTES * tags.len(), 0);
    let (slots, _) = out[before..].as_chunks_mut::<KEY_TAG_JSON_BYTES>();
    for (slot, [_, _, letter, _, key @ ..]) in slots.iter_mut().zip(tags) {
        let (head, rest) = slot.split_at_mut(KEY_TAG_HEAD.len());
        let (digits, end) = rest.split_at_mut(2 * key.len());
        head.copy_from_slice(&KEY_TAG_HEAD);
        head[2] = *letter;
        const_hex::encode_to_slice(key, digits).expect("there is room for two digits a byte");
        end.copy_from_slice(&KEY_TAG_END);
    }
}

// === impl Text ===

impl Text<'_> {
    pub(super) fn to_text(self) -> String {
        match self {
            Self::Simple(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Plain(text) => text.to_owned(),
            Self::Hex(bytes) => hex::string(bytes),
        }
    }

    pub(super) fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => {
                out.reserve(text.len() + 2);
                out.push(b'"');
                out.extend_from_slice(text);
                out.push(b'"');
            }
            Self::Plain(text) => write_string(out, text.as_bytes(), Controls::Escaped),
            Self::Hex(bytes) => {
                out.push(b'"');
                hex::write(out, bytes);
                out.push(b'"');
            }
        }
    }
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(super) fn count(&mut self) -> Option<usize> {
        // Most counts have one byte.
        if let [count @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Some(usize::from(*count));
        }
        let mut count = 0_usize;
        for shift in (0..35).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            count |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                // A count has one form, too.
                return (*byte != 0 || shift == 0).then_some(count);
            }
        }
        None
    }

    /// Reads the next text; `None` if its form is never written.
    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        let count = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(count / 2)?;
        self.0 = rest;
        if count % 2 == 1 {
            return (2 * bytes.len() >= HEX_BYTES_MIN).then_some(Text::Hex(bytes));
        }
        if is_simple(bytes) {
            return hex_bytes(bytes).is_none().then_some(Text::Simple(bytes));
        }
        // Not ASCII, so not digits.
        std::str::from_utf8(bytes).ok().map(Text::Plain)
    }

    /// Reads the form of the next text.
    fn form(&mut self) -> Option<&'a [u8]> {
        let whole = self.0;
        let count = self.count()?;
        self.0 = self.0.get(count / 2..)?;
        whole.get(..whole.len() - self.0.len())
    }

    /// Returns the rest in the size of key tags, up to a number of tags.
    fn pieces(&self, tags: usize) -> &'a [KeyTag] {
        let (pieces, _) = self.0.as_chunks();
        &pieces[..tags.min(pieces.len())]
    }

    /// Reads the next tags, up to a number of them, as far as they are a letter and a key.
    fn key_tags(&mut self, tags: usize) -> &'a [KeyTag] {
        let pieces = self.pieces(tags);
        let run = pieces.iter().position(|piece| !is_key_tag(piece)).unwrap_or(pieces.len());
        self.0 = &self.0[run * size_of::<KeyTag>()..];
        &pieces[..run]
    }

    /// Reads the next tag of any form; returns the forms of its name and first value, empty where it has none.
    fn tag(&mut self) -> Option<[&'a [u8]; 2]> {
        let mut forms: [&[u8]; 2] = [&[]; 2];
        for index in 0..self.count()? {
            let form = self.form()?;
            if let Some(kept) = forms.get_mut(index) {
                *kept = form;
            }
        }
        Some(forms)
    }

    /// Appends the next tag as JSON, with a comma.
    fn write_tag(&mut self, out: &mut Vec<u8>) -> Option<()> {
        if let Some(tag) = self.0.first_chunk().filter(|tag| begins_with_key(tag)) {
            // Tags that name an event often add a relay and a marker.
            write_key_tags(out, std::slice::from_ref(tag));
            out.truncate(out.len() - TAG_END.len());
            self.0 = &self.0[tag.len()..];
            for _ in 2..tag[0] {
                out.push(b',');
                self.text()?.write_json(out);
            }
        } else {
            out.push(b'[');
            for element in 0..self.count()? {
                if element > 0 {
                    out.push(b',');
                }
                self.text()?.write_json(out);
            }
        }
        out.extend_from_slice(TAG_END);
        Some(())
    }

    /// Appends all tags as JSON.
    pub(super) fn write_tags(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let tags = self.count()?;
        out.push(b'[');
        let mut left = tags;
        while left > 0 {
            let run = self.key_tags(left);
            write_key_tags(out, run);
            left -= run.len();
            if left > 0 {
                self.write_tag(out)?;
                left -= 1;
            }
        }
        if tags > 0 {
            out.pop(); // the last comma
        }
        out.push(b']');
        Some(())
    }

    /// Returns true if one of the tags satisfies `is_so`, which gets the letter and the form of the first value. Skips
    /// tags without a letter or a value.
    pub(super) fn any_tag(&mut self, mut is_so: impl FnMut(u8, &[u8]) -> bool) -> Option<bool> {
        let mut left = self.count()?;
        while left > 0 {
            let mut run = 0;
            for [_, _, letter, value @ ..] in self.pieces(left).iter().take_while(|piece| is_key_tag(piece)) {
                if is_so(*letter, value) {
                    return Some(true);
                }
                run += 1;
            }
            self.0 = &self.0[run * size_of::<KeyTag>()..];
            left -= run;
            if left > 0 {
                if let [&[2, letter], value @ [_, ..]] = self.tag()?
                    && letter.is_ascii_alphabetic()
                    && is_so(letter, value)
                {
                    return Some(true);
                }
                left -= 1;
            }
        }
        Some(false)
    }
}

/// Returns true if a tag is a letter and a key.
fn is_key_tag(tag: &KeyTag) -> bool {
    tag[0] == 2 && begins_with_key(tag)
}

/// Returns true if a tag begins with a letter and a key. Its number of elements must fit one byte.
fn begins_with_key([elements, name, letter, value, ..]: &KeyTag) -> bool {
    matches!(elements, 2..0x80) && (*name, *value) == (2, KEY) && letter.is_ascii_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_form() {
        for text in ["", "a", "abcdef", "deadbeef", "DEADBEEF", "deadbeefs", "a text"] {
            let mut form = Vec::new();
            put_text(&mut form, text);
            assert_eq!(Cursor(&form).text().map(Text::to_text).as_deref(), Some(text));
        }
        let of = |count: &[u8], bytes: &[u8]| Cursor(&[count, bytes].concat()).text().map(Text::to_text);
        assert_eq!(of(&[2 * 8], b"deadbeef"), None, "digits as text");
        assert_eq!(of(&[2 * 3 + 1], &[0xab; 3]), None, "so few bytes as digits");
        assert_eq!(of(&[0x82, 0], b"a"), None, "a longer count");
    }
}
