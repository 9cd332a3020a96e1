//! Text -> words, by the same rules for events, queries and live subscriptions. Pure.
//!
//! A word is a run of letters and digits, in lower case. Scripts that are written without spaces have no such runs.
//! There, every letter of an event and every pair of neighbours are words, and a query of several letters consists of
//! its pairs.

/// Bytes of a word. A longer word is cut.
const WORD_BYTES_MAX: usize = 64;

/// Origin of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Event,
    Query,
}

/// Reader of the words of a text, in its order.
#[derive(Debug, Clone)]
pub(crate) struct Words<'a> {
    side: Side,
    /// The text behind the run that is being read.
    rest: &'a str,
    /// The rest of a run without spaces.
    run: &'a str,
    /// Its first letter was a word; next is the pair of it and its neighbour.
    is_pair: bool,
    /// Its pairs alone are words.
    has_pairs_only: bool,
}

/// Returns the words of a text, in its order.
pub(crate) fn words(text: &str, side: Side) -> Vec<String> {
    let (mut words, mut reader, mut word) = (Vec::new(), Words::new(text, side), String::new());
    while reader.next_into(&mut word) {
        words.push(word.clone());
    }
    words
}

// === impl Words ===

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str, side: Side) -> Self {
        Self { side, rest: text, run: "", is_pair: false, has_pairs_only: false }
    }

    /// Replaces `word` by the next word; returns false at the end of the text.
    pub(crate) fn next_into(&mut self, word: &mut String) -> bool {
        loop {
            while let Some(is_pair) = self.next_of_run(word) {
                if is_pair || !self.has_pairs_only {
                    return true;
                }
            }
            let Some(start) = self.rest.find(char::is_alphanumeric) else { return false };
            let rest = &self.rest[start..];
            let is_spaced = rest.chars().next().is_some_and(is_spaced);
            let end = rest.find(|letter: char| !letter.is_alphanumeric() || self::is_spaced(letter) != is_spaced);
            let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.rest = after;
            if is_spaced {
                put_word(run, word);
                return true;
            }
            self.run = run;
            self.has_pairs_only = self.side == Side::Query && run.chars().nth(1).is_some();
        }
    }

    /// Replaces `word` by the next letter of a run without spaces, or by the pair of it and its neighbour; returns true
    /// for a pair, and `None` at the end of the run.
    fn next_of_run(&mut self, word: &mut String) -> Option<bool> {
        let mut letters = self.run.chars();
        let (first, second) = (letters.next()?, letters.next());
        let is_pair = self.is_pair;
        word.clear();
        word.push(first);
        if is_pair {
            word.extend(second);
        }
        if is_pair || second.is_none() {
            self.run = &self.run[first.len_utf8()..];
        }
        self.is_pair = !is_pair && second.is_some();
        Some(is_pair)
    }
}

/// Replaces `word` by a run of letters and digits, in lower case and not too long.
fn put_word(run: &str, word: &mut String) {
    word.clear();
    // A letter becomes one or several in lower case, each of a byte or more.
    word.extend(run.chars().take(WORD_BYTES_MAX).flat_map(char::to_lowercase));
    word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
}

/// Returns true for a letter of a script that is written with spaces: not Thai, Lao, Myanmar, Khmer, Chinese or
/// Japanese.
fn is_spaced(letter: char) -> bool {
    !matches!(
        letter,
        '\u{0e00}'..='\u{0eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        assert_eq!(words("Käfer, #Bitcoin—2x! nostr:npub1", Side::Event), ["käfer", "bitcoin", "2x", "nostr", "npub1"]);
        assert!(words(" \n,.—🤙\u{1}", Side::Event).is_empty());
        let long = "é".repeat(40);
        assert_eq!(words(&long, Side::Query), ["é".repeat(32)]);
    }

    #[test]
    fn where_words_have_no_spaces_neighbours_are_words() {
        assert_eq!(words("ab日本語c", Side::Event), ["ab", "日", "日本", "本", "本語", "語", "c"]);
        assert_eq!(words("日本語", Side::Query), ["日本", "本語"]);
        assert_eq!(words("本", Side::Query), ["本"]);
    }

    proptest! {
        #[test]
        fn a_text_is_found_by_its_own_words_and_by_those_of_its_parts(text in "[ab日本 ,é]{0,12}", cut in 0..12_usize) {
            let all = words(&text, Side::Event);
            prop_assert!(words(&text, Side::Query).iter().all(|word| all.contains(word)));
            let part = text.split([' ', ',']).nth(cut).unwrap_or_default();
            prop_assert!(words(part, Side::Query).iter().all(|word| all.contains(word)));
        }
    }
}
