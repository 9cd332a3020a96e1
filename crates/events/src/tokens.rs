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

/// Returns the words of a text, in its order.
pub(crate) fn words(text: &str, side: Side) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        let is_spaced = rest.chars().next().is_some_and(is_spaced);
        let end = rest.find(|letter: char| !letter.is_alphanumeric() || self::is_spaced(letter) != is_spaced);
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        if is_spaced {
            words.push(word(run));
        } else {
            put_neighbours(run, side, &mut words);
        }
        rest = after;
    }
    words
}

fn word(run: &str) -> String {
    let mut word: String = run.chars().flat_map(char::to_lowercase).collect();
    word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
    word
}

fn put_neighbours(run: &str, side: Side, words: &mut Vec<String>) {
    let starts: Vec<usize> = run.char_indices().map(|(start, _)| start).chain([run.len()]).collect();
    if side == Side::Event || starts.len() == 2 {
        words.extend(starts.windows(2).map(|bounds| run[bounds[0]..bounds[1]].to_owned()));
    }
    words.extend(starts.windows(3).map(|bounds| run[bounds[0]..bounds[2]].to_owned()));
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
        assert_eq!(words("ab日本語c", Side::Event), ["ab", "日", "本", "語", "日本", "本語", "c"]);
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
