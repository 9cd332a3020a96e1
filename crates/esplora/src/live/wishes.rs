//! Messages of WebSocket clients: one JSON object whose members may come together. Pure.

use bitcoin::Txid;
use serde_json::Value;

/// Members of mempool's protocol that this server does not have. mempool names a member's refusal by this suffix.
///
/// Source: mempool's `backend/src/api/websocket-handler.ts`.
const UNSERVED: [&str; 10] = [
    "track-scriptpubkeys-error",
    "track-wallet-error",
    "track-asset-error",
    "track-mempool-error",
    "track-mempool-txids-error",
    "track-mempool-blocks-error",
    "track-rbf-summary-error",
    "track-accelerations-error",
    "track-donation-error",
    "track-stratum-error",
];

/// The streams that a client wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// New blocks.
    pub(super) blocks: bool,
    /// The mempool in numbers, and fee rates.
    pub(super) stats: bool,
    /// The blocks that miners would make now.
    pub(super) mempool_blocks: bool,
}

/// Replacements that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    All,
    /// Those of a transaction that did not signal that it may be replaced.
    Full,
}

/// A change of one thing that is tracked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Wish<T> {
    /// Keeps the earlier wish.
    #[default]
    Kept,
    /// It ends.
    Ended,
    /// This takes its place.
    Given(T),
}

/// An answer that a message asks for once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Everything that a client shows first.
    Init,
    Ping,
}

/// One message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wishes {
    pub(super) action: Option<Action>,
    pub(super) want: Option<Wants>,
    pub(super) blocks_again: bool,
    pub(super) transaction: Wish<Txid>,
    /// True if the transaction may not be there yet, and is sent when it comes.
    pub(super) is_awaited: bool,
    pub(super) transactions: Wish<Vec<Txid>>,
    pub(super) address: Wish<String>,
    pub(super) addresses: Option<Vec<String>>,
    pub(super) mempool_block: Wish<usize>,
    pub(super) replaced: Wish<Replaced>,
    /// Names of the refusals of members that are not served.
    pub(super) unserved: Vec<&'static str>,
}

impl<T> Wish<T> {
    /// Reads a member; one that cannot be read ends what was asked before.
    fn of(member: Option<&Value>, read: impl Fn(&Value) -> Option<T>) -> Self {
        member.map_or(Self::Kept, |member| read(member).map_or(Self::Ended, Self::Given))
    }
}

impl Wishes {
    /// Parses a message; `None` if it is no JSON object.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let message: Value = serde_json::from_slice(text).ok().filter(Value::is_object)?;
        let member = |name: &str| message.get(name).filter(|value| !value.is_null());
        let action = member("action").and_then(Value::as_str).unwrap_or_default();
        let names = member("data").and_then(Value::as_array);
        let wants = |name: &str| names.is_some_and(|names| names.iter().any(|known| known == name));
        let want = Wants { blocks: wants("blocks"), stats: wants("stats"), mempool_blocks: wants("mempool-blocks") };
        Some(Self {
            action: match action {
                "init" => Some(Action::Init),
                "ping" => Some(Action::Ping),
                _ => None,
            },
            want: (action == "want" && names.is_some()).then_some(want),
            blocks_again: member("refresh-blocks").is_some(),
            transaction: Wish::of(member("track-tx"), txid),
            is_awaited: member("watch-mempool").is_some_and(|value| *value != Value::Bool(false)),
            transactions: Wish::of(member("track-txs"), |list| {
                Some(list.as_array()?.iter().filter_map(txid).collect())
            }),
            address: Wish::of(member("track-address"), text_of),
            addresses: member("track-addresses").and_then(Value::as_array).map(|list| texts(list)),
            mempool_block: Wish::of(member("track-mempool-block"), |index| usize::try_from(index.as_u64()?).ok()),
            replaced: Wish::of(member("track-rbf"), replaced),
            unserved: UNSERVED.into_iter().filter(|error| is_begun(member(error.trim_end_matches("-error")))).collect(),
        })
    }
}

/// Returns true for a member that begins something; `false` and `"stop"` end it.
fn is_begun(member: Option<&Value>) -> bool {
    member.is_some_and(|value| *value != Value::Bool(false) && *value != "stop")
}

fn txid(value: &Value) -> Option<Txid> {
    value.as_str()?.parse().ok()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(text_of).collect()
}

fn replaced(value: &Value) -> Option<Replaced> {
    match value.as_str()? {
        "all" => Some(Replaced::All),
        "fullRbf" => Some(Replaced::Full),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn members_come_together_and_other_values_end_what_was_asked() {
        let txid = "ab".repeat(32);
        let text = format!(
            r#"{{"action":"want","data":["blocks","stats","x"],"track-tx":"{txid}","watch-mempool":true,
            "track-txs":["{txid}","x"],"track-address":"a","track-addresses":["b",1],"track-mempool-block":2,
            "track-rbf":"fullRbf","refresh-blocks":true}}"#
        );
        let id: Txid = txid.parse().unwrap();
        let expected = Wishes {
            want: Some(Wants { blocks: true, stats: true, mempool_blocks: false }),
            blocks_again: true,
            transaction: Wish::Given(id),
            is_awaited: true,
            transactions: Wish::Given(vec![id]),
            address: Wish::Given("a".into()),
            addresses: Some(vec!["b".into()]),
            mempool_block: Wish::Given(2),
            replaced: Wish::Given(Replaced::Full),
            ..Wishes::default()
        };
        assert_eq!(Wishes::parse(text.as_bytes()), Some(expected));
        let ended =
            br#"{"track-tx":"stop","track-txs":7,"track-address":1,"track-mempool-block":-1,"track-rbf":false}"#;
        let expected = Wishes {
            transaction: Wish::Ended,
            transactions: Wish::Ended,
            address: Wish::Ended,
            mempool_block: Wish::Ended,
            replaced: Wish::Ended,
            ..Wishes::default()
        };
        assert_eq!(Wishes::parse(ended), Some(expected));
        assert_eq!(
            Wishes::parse(br#"{"action":"ping"}"#),
            Some(Wishes { action: Some(Action::Ping), ..Wishes::default() })
        );
        let unserved =
            br#"{"track-mempool":true,"track-rbf-summary":false,"track-wallet":"stop","track-stratum":"all"}"#;
        let unserved = Wishes::parse(unserved).map(|wishes| wishes.unserved);
        assert_eq!(unserved.as_deref(), Some(&["track-mempool-error", "track-stratum-error"][..]));
        for wrong in ["", "x", "[]", "7", "{"] {
            assert_eq!(Wishes::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
