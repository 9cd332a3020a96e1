//! Labels of a wallet, as lines that wallets exchange
//! ([BIP 329](https://github.com/bitcoin/bips/blob/master/bip-0329.mediawiki)): one JSON object a line. Pure.

use serde::{Deserialize, Serialize};

/// Characters of a label that are kept; the BIP lets importers cut longer ones.
pub(crate) const LABEL_CHARS: usize = 255;
/// Bytes of a reference: that of the longest, an extended key.
pub(crate) const REFERENCE_BYTES: usize = 256;

/// The thing that has a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LabelKind {
    /// A transaction, by its txid.
    Tx,
    /// An address.
    Addr,
    /// A public key.
    Pubkey,
    /// An input: txid and vin.
    Input,
    /// An output: txid and vout.
    Output,
    /// An extended public key.
    Xpub,
}

/// A label with the thing that has it.
#[expect(clippy::struct_field_names, reason = "BIP 329 names the fields")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    /// The kind of the thing.
    #[serde(rename = "type")]
    pub(crate) kind: LabelKind,
    /// The thing itself.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// The wallet that it belongs to, as an abbreviated descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// False for an output that the wallet is not to spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spendable: Option<bool>,
}

/// Labels of a file, and the lines that are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The labels, in order.
    pub(crate) labels: Vec<Label>,
    /// Numbers of the lines that were left out.
    pub(crate) skipped: Vec<usize>,
}

/// Reads a file of labels. A line that is no label, or has a type of a later version, is left out, as the BIP asks.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_str::<Label>(line) {
            Ok(label) if !label.reference.is_empty() && label.reference.len() <= REFERENCE_BYTES => {
                parsed.labels.push(label.shortened());
            }
            _ => parsed.skipped.push(number),
        }
    }
    parsed
}

/// Returns a file of labels.
pub(crate) fn lines<'a>(labels: impl IntoIterator<Item = &'a Label>) -> String {
    let mut text = String::new();
    for label in labels {
        text.push_str(&serde_json::to_string(label).expect("labels are JSON"));
        text.push('\n');
    }
    text
}

impl Label {
    /// Returns it with what it leaves out from an older one.
    #[must_use]
    pub(crate) fn over(self, known: Self) -> Self {
        Self {
            label: self.label.or(known.label),
            origin: self.origin.or(known.origin),
            spendable: self.spendable.or(known.spendable),
            ..self
        }
    }

    fn shortened(mut self) -> Self {
        for text in [&mut self.label, &mut self.origin].into_iter().flatten() {
            if let Some((end, _)) = text.char_indices().nth(LABEL_CHARS) {
                text.truncate(end);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of the BIP, a line for each type.
    const VECTOR: [&str; 7] = [
        "{ \"type\": \"tx\", \"ref\": \"f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd\", \
         \"label\": \"Transaction\", \"origin\": \"wpkh([d34db33f/84'/0'/0'])\" }",
        "{ \"type\": \"addr\", \"ref\": \"bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c\", \"label\": \"Address\" }",
        "{ \"type\": \"pubkey\", \"ref\": \"0283409659355b6d1cc3c32decd5d561abaac86c37a353b52895a5e6c196d6f448\", \
         \"label\": \"Public Key\" }",
        "{ \"type\": \"input\", \"ref\": \"f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd:0\", \
         \"label\": \"Input\" }",
        "{ \"type\": \"output\", \"ref\": \"f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd:1\", \
         \"label\": \"Output\", \"spendable\": false }",
        "{ \"type\": \"xpub\", \"ref\": \"xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8\
         YtGqsefD265TMg7usUDFdp6W1EGMcet8\", \"label\": \"Extended Public Key\" }",
        "{ \"type\": \"tx\", \"ref\": \"f546156d9044844e02b181026a1a407abfca62e7ea1159f87bbeaa77b4286c74\", \
         \"label\": \"Account #1 Transaction\", \"origin\": \"wpkh([d34db33f/84'/0'/1'])\" }",
    ];

    #[test]
    fn the_vector_of_the_bip_survives_a_round_trip() {
        let parsed = parse(&VECTOR.join("\n"));
        assert_eq!((parsed.labels.len(), parsed.skipped.len()), (7, 0));
        assert_eq!(parsed.labels[4].spendable, Some(false));
        assert_eq!(parsed.labels[6].origin.as_deref(), Some("wpkh([d34db33f/84'/0'/1'])"));
        let ours = lines(&parsed.labels);
        for (ours, theirs) in ours.lines().zip(VECTOR) {
            let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
            assert_eq!(value(ours), value(theirs));
        }
    }

    #[test]
    fn lines_that_are_no_labels_are_left_out() {
        let text = "\nnot JSON\n{\"type\":\"later\",\"ref\":\"x\"}\n{\"type\":\"tx\",\"ref\":\"\"}\n\
                    {\"type\":\"tx\",\"ref\":\"a\",\"new\":1}";
        let parsed = parse(text);
        assert_eq!((parsed.labels.len(), parsed.skipped), (1, vec![2, 3, 4]));
        let long = format!("{{\"type\":\"tx\",\"ref\":\"a\",\"label\":\"{}\"}}", "\u{e4}".repeat(300));
        assert_eq!(parse(&long).labels[0].label.as_deref().map(|label| label.chars().count()), Some(LABEL_CHARS));
    }
}
