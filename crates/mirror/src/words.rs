//! Words of relays from which a client must guess their meaning. Pure.

/// Words by which relays without negentropy answer its first message.
const UNKNOWN_MESSAGE: [&str; 9] =
    ["error", "invalid", "unrecognized", "bad msg", "could not parse", "disabled", "unsupported", "unknown", "neg-"];
/// Words by which relays ask for a pause in a NOTICE.
const TOO_FAST: [&str; 4] = ["rate-limit", "rate limit", "slow down", "too fast"];

/// True if a peer without negentropy says that it does not know the message.
pub(crate) fn is_unknown(lowercase: &str) -> bool {
    UNKNOWN_MESSAGE.iter().any(|word| lowercase.contains(word))
}

/// True if a peer wants to know who asks.
pub(crate) fn wants_identity(reason: &str) -> bool {
    reason.starts_with("auth-required:")
}

/// True if a peer asks for a pause.
pub(crate) fn wants_pause(lowercase: &str) -> bool {
    TOO_FAST.iter().any(|word| lowercase.contains(word))
}
