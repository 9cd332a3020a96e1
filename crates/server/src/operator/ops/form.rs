//! Fields of a form: `application/x-www-form-urlencoded`. <https://url.spec.whatwg.org/#urlencoded-parsing>

use percent_encoding::percent_decode_str;

/// Returns the first field of this name.
pub(super) fn field(body: &str, name: &str) -> Option<String> {
    let fields = body.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    fields.into_iter().find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
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
    }
}
