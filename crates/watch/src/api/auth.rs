//! The key of the API: a token, as `Authorization: Bearer TOKEN`, or as the password of HTTP's basic authentication,
//! which browsers ask for and clients of BWT send.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Characters of a token that an operator sets, at least.
pub const TOKEN_CHARS_MIN: usize = 16;

/// The token that requests must carry.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(..)")
    }
}

impl Token {
    /// Returns a token; `None` for one that is too short, or that a header cannot carry.
    pub fn new(text: &str) -> Option<Self> {
        let is_good = text.len() >= TOKEN_CHARS_MIN && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_good.then(|| Self(text.to_owned()))
    }

    /// Returns the token of these random bytes.
    pub fn of_random(bytes: [u8; 32]) -> Self {
        Self(const_hex::encode(bytes))
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the value of a request's `Authorization` has the token.
    pub fn is_in(&self, authorization: &str) -> bool {
        let Some((scheme, rest)) = authorization.trim().split_once(' ') else { return false };
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return equal(rest.as_bytes(), self.0.as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return false;
        }
        let Ok(pair) = STANDARD.decode(rest) else { return false };
        let password = pair.iter().position(|byte| *byte == b':').map(|colon| &pair[colon + 1..]);
        password.is_some_and(|password| equal(password, self.0.as_bytes()))
    }
}

/// Compares in a time that does not depend on where they differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_as_bearer_or_as_password() {
        let token = Token::new("0123456789abcdef").expect("long enough");
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for good in [
            "Bearer 0123456789abcdef",
            "bearer  0123456789abcdef",
            &basic("any:0123456789abcdef"),
            &basic(":0123456789abcdef"),
        ] {
            assert!(token.is_in(good), "{good}");
        }
        let bad = [
            "",
            "Bearer",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "0123456789abcdef",
            "Basic !",
            &basic("0123456789abcdef"),
            &basic("a:b:0123456789abcdef"),
        ];
        for bad in bad {
            assert!(!token.is_in(bad), "{bad}");
        }
        assert!(Token::new("short").is_none() && Token::new("0123456789 abcdef").is_none());
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
