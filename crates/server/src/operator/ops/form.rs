//! Fields of a form: `application/x-www-form-urlencoded`. <https://url.spec.whatwg.org/#urlencoded-parsing>

use percent_encoding::percent_decode_str;

/// Returns the first field of this name.
pub(super) fn field(body: &str, name: &str) -> Option<String> {
    values(body, name).next()
}

/// Returns all fields of this name, as boxes of a list send them.
pub(super) fn fields(body: &str, name: &str) -> Vec<String> {
    values(body, name).collect()
}

fn values<'a>(body: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let pairs = body.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(move |(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let body = "token=ab&filter=%7B%22kinds%22%3A%5B1%5D%7D&a+b=c+%2B&empty=&bare&token=second";
        for (name, value) in
            [("token", "ab"), ("filter", r#"{"kinds":[1]}"#), ("a b", "c +"), ("empty", ""), ("bare", "")]
        {
            assert_eq!(field(body, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(field(body, "other"), None);
        assert_eq!(fields(body, "token"), ["ab", "second"]);
    }
}
