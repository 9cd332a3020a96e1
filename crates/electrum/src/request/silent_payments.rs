//! Parameters of `blockchain.silentpayments.*` (BIP 352), in the dialect of Frigate.
//!
//! Errors have Frigate's texts, and none repeats a part of a key.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::RpcError;
use crate::limits::SILENT_LABELS_MAX;
use crate::protocol::Args;

/// Beginning of the names of methods whose parameters hold a scan key.
const PREFIX: &str = "blockchain.silentpayments.";
/// The highest number that is a height; a larger one is a time. Consensus uses the same one for lock times.
const HEIGHT_MAX: i64 = 500_000_000;

/// A request about silent payments.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum SilentRequest {
    SilentSubscribe(SilentSubscribe),
    SilentUnsubscribe(SilentKeys),
}

/// A subscription to the payments of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SilentSubscribe {
    pub(crate) keys: SilentKeys,
    pub(crate) start: SilentStart,
    /// Numbers of labels, ascending, with that of change first.
    pub(crate) labels: Vec<u32>,
}

/// The private scan key and the public spend key of a wallet. It is wiped when it is dropped, and has no form for a
/// log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SilentKeys {
    /// On the heap, so that a request that is moved leaves no copy behind.
    pub(crate) scan: Box<Zeroizing<[u8; 32]>>,
    pub(crate) spend: [u8; 33],
}

/// The blocks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SilentStart {
    /// From this height on.
    Height(u32),
    /// From this time on, in seconds since 1970.
    Time(u32),
    /// From one height to another, both included.
    Range { from: u32, to: u32 },
}

/// Returns true if the parameters of a method hold a scan key.
pub(crate) fn holds_scan_key(method: &str) -> bool {
    method.starts_with(PREFIX)
}

impl fmt::Debug for SilentKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SilentKeys")
    }
}

// === parsers ===

/// Parses the parameters of `subscribe`.
pub(super) fn subscribe(args: &mut Args<'_>) -> Result<SilentRequest, RpcError> {
    let keys = keys(args)?;
    let start = args.maybe_json("start").map_or(Ok(SilentStart::Height(0)), start)?;
    let labels = args.maybe_json("labels").map_or(Ok(vec![0]), labels)?;
    Ok(SilentRequest::SilentSubscribe(SilentSubscribe { keys, start, labels }))
}

/// Parses the two keys.
pub(super) fn keys(args: &mut Args<'_>) -> Result<SilentKeys, RpcError> {
    let mut text = |name: &str| {
        let json = args.maybe_json(name).ok_or_else(|| RpcError::invalid_params(format!("{name} is missing")))?;
        // Hexadecimal digits need no escapes, and text with escapes would be copied.
        let text = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let text = text.ok_or_else(|| RpcError::invalid_params(format!("{name} is not a string")))?;
        let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then_some(text).ok_or_else(|| refused("scan_private_key or spend_public_key is not valid hex"))
    };
    let (scan_hex, spend_hex) = (text("scan_private_key")?, text("spend_public_key")?);
    let (mut scan, mut spend) = (Box::new(Zeroizing::new([0; 32])), [0; 33]);
    const_hex::decode_to_slice(scan_hex, &mut scan[..]).map_err(|_| refused("scan_private_key must be 32 bytes"))?;
    const_hex::decode_to_slice(spend_hex, &mut spend)
        .map_err(|_| refused("spend_public_key must be 33 bytes (compressed)"))?;
    Ok(SilentKeys { scan, spend })
}

fn start(json: &str) -> Result<SilentStart, RpcError> {
    if json.starts_with('"') {
        return range(json);
    }
    let digits = json.strip_prefix('-').unwrap_or(json);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused("start must be an integer or 'FROM-TO' string"));
    }
    if json.starts_with('-') {
        return Err(refused("start must be non-negative"));
    }
    // Beyond the range of a number it is a time that will never come.
    let number: i64 = digits.parse().unwrap_or(i64::MAX);
    let saturated = u32::try_from(number).unwrap_or(u32::MAX);
    Ok(if number > HEIGHT_MAX { SilentStart::Time(saturated) } else { SilentStart::Height(saturated) })
}

fn range(json: &str) -> Result<SilentStart, RpcError> {
    let text: String =
        serde_json::from_str(json).map_err(|_| refused("start must be an integer or 'FROM-TO' string"))?;
    let ends = text.split_once('-').ok_or_else(|| refused("start string must be of the form 'FROM-TO'"))?;
    let height =
        |text: &str| text.parse::<i32>().map_err(|_| refused("start range must contain integer block heights"));
    let (from, to) = (height(ends.0)?, height(ends.1)?);
    match (u32::try_from(from), u32::try_from(to)) {
        (Ok(from), Ok(to)) if from <= to => Ok(SilentStart::Range { from, to }),
        _ => Err(refused("start range must satisfy 0 <= from <= to")),
    }
}

fn labels(json: &str) -> Result<Vec<u32>, RpcError> {
    let given: Vec<Option<i64>> =
        serde_json::from_str(json).map_err(|_| refused("labels is not an array of integers"))?;
    if given.len() > SILENT_LABELS_MAX {
        return Err(refused(format!("labels array exceeds {SILENT_LABELS_MAX} entries")));
    }
    let label = |number: i64| {
        let is_label = (1..1 << 31).contains(&number);
        let label = is_label.then(|| u32::try_from(number).expect("it has 31 bits"));
        label.ok_or_else(|| refused(format!("label must satisfy 0 < label < 2^31, got {number}")))
    };
    let mut labels: Vec<u32> = given.into_iter().flatten().map(label).collect::<Result<_, _>>()?;
    labels.push(0);
    labels.sort_unstable();
    labels.dedup();
    Ok(labels)
}

fn refused(message: impl Into<std::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::invalid_params(message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::Version;
    use crate::request::Request;

    const SCAN: &str = "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c";
    const SPEND: &str = "025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36";

    fn parse(params: &Value) -> Result<SilentSubscribe, RpcError> {
        let text = params.to_string();
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        match Request::parse("blockchain.silentpayments.subscribe", Args::parse(Some(raw)), Version::V1_4)? {
            Request::Silent(SilentRequest::SilentSubscribe(subscribe)) => Ok(subscribe),
            other => panic!("{other:?}"),
        }
    }

    /// The texts are Frigate's.
    #[test]
    fn each_wrong_parameter_has_its_error() {
        let hex = "scan_private_key or spend_public_key is not valid hex";
        let integer = "start must be an integer or 'FROM-TO' string";
        let range = "start range must satisfy 0 <= from <= to";
        let table = [
            (json!([]), "scan_private_key is missing"),
            (json!([SCAN]), "spend_public_key is missing"),
            (json!([7, SPEND]), "scan_private_key is not a string"),
            (json!(["zz", SPEND]), hex),
            (json!([SCAN, "0"]), hex),
            (json!([format!("{SCAN}é"), SPEND]), hex),
            (json!(["", SPEND]), "scan_private_key must be 32 bytes"),
            (json!([SPEND, SPEND]), "scan_private_key must be 32 bytes"),
            (json!([SCAN, SCAN]), "spend_public_key must be 33 bytes (compressed)"),
            (json!([SCAN, SPEND, "700"]), "start string must be of the form 'FROM-TO'"),
            (json!([SCAN, SPEND, "a-b"]), "start range must contain integer block heights"),
            (json!([SCAN, SPEND, "-1-5"]), "start range must contain integer block heights"),
            (json!([SCAN, SPEND, "0-9999999999"]), "start range must contain integer block heights"),
            (json!([SCAN, SPEND, "7-5"]), range),
            (json!([SCAN, SPEND, "7--9"]), range),
            (json!([SCAN, SPEND, -1]), "start must be non-negative"),
            (json!([SCAN, SPEND, 1.5]), integer),
            (json!([SCAN, SPEND, true]), integer),
            (json!([SCAN, SPEND, [1]]), integer),
            (json!([SCAN, SPEND, 0, 1]), "labels is not an array of integers"),
            (json!([SCAN, SPEND, 0, ["1"]]), "labels is not an array of integers"),
            (json!([SCAN, SPEND, 0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]), "labels array exceeds 10 entries"),
            (json!([SCAN, SPEND, 0, [0]]), "label must satisfy 0 < label < 2^31, got 0"),
            (json!([SCAN, SPEND, 0, [-3]]), "label must satisfy 0 < label < 2^31, got -3"),
            (json!([SCAN, SPEND, 0, [2_147_483_648_u32]]), "label must satisfy 0 < label < 2^31, got 2147483648"),
        ];
        for (params, message) in table {
            assert_eq!(parse(&params).unwrap_err(), RpcError::invalid_params(message), "{params}");
        }
    }

    #[test]
    fn starts_and_labels_are_read_by_position_and_by_name() {
        let table = [
            (json!([SCAN, SPEND]), SilentStart::Height(0), vec![0]),
            (json!([SCAN, SPEND, null, null]), SilentStart::Height(0), vec![0]),
            (json!([SCAN.to_uppercase(), SPEND, 500_000_000, []]), SilentStart::Height(500_000_000), vec![0]),
            (json!([SCAN, SPEND, 500_000_001, [9, null, 3, 9]]), SilentStart::Time(500_000_001), vec![0, 3, 9]),
            (
                json!([SCAN, SPEND, "7-9", [2_147_483_647]]),
                SilentStart::Range { from: 7, to: 9 },
                vec![0, 2_147_483_647],
            ),
            (
                json!({ "labels": [1], "spend_public_key": SPEND, "start": 7, "scan_private_key": SCAN }),
                SilentStart::Height(7),
                vec![0, 1],
            ),
        ];
        for (params, start, labels) in table {
            let read = parse(&params).unwrap();
            assert_eq!((read.start, read.labels), (start, labels), "{params}");
            assert_eq!(const_hex::encode(&read.keys.scan[..]), SCAN);
            assert_eq!(const_hex::encode(read.keys.spend), SPEND);
        }
    }

    #[test]
    fn no_form_of_a_request_shows_a_key() {
        let request = Request::from(SilentRequest::SilentSubscribe(parse(&json!([SCAN, SPEND])).unwrap()));
        let shown = format!("{request:?} {request:#?}");
        assert!(!shown.contains("0f69") && !shown.contains("5cc9") && !shown.contains("15, 105"), "{shown}");
        for params in
            [json!([SCAN, "zz"]), json!([SCAN, SCAN]), json!([SCAN, SPEND, "x"]), json!([format!("{SCAN}00"), SPEND])]
        {
            let message = parse(&params).unwrap_err().message;
            assert!(!message.contains(&SCAN[..8]), "{message}");
        }
    }
}
