//! The web page of the relay, for people who open its address in a browser: the information document (NIP-11) and the
//! relay's URLs, as HTML.
//!
//! Invariant: the page needs no script and no other request of this host. Its texts are the operator's, so only links
//! whose scheme cannot run anything are links.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bech32::{Bech32, Hrp};
use birdhouse_events::RelayUrl;
use birdhouse_web::parts::{fact, qr};
use birdhouse_web::{Alone, STYLE, amounts};
use hyper::header::HeaderValue;
use maud::{Markup, html};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::limits::PrivateMessages;

/// Where the NIPs stand.
const NIPS: &str = "https://github.com/nostr-protocol/nips/blob/master/";
/// Schemes of links that lead to a page, a message or a profile.
const SCHEMES: [&str; 4] = ["https://", "http://", "mailto:", "nostr:"];

/// Returns the page's `Content-Security-Policy`: its own style, and the operator's pictures.
pub(super) fn policy() -> HeaderValue {
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; img-src https: http: data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
        );
        HeaderValue::try_from(policy).expect("base64 is visible ASCII")
    });
    POLICY.clone()
}

/// The facts that the page shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// The information document.
    pub(super) document: &'a Value,
    /// The relay's URLs, as its operator names them.
    pub(super) urls: &'a [RelayUrl],
    pub(super) private_messages: PrivateMessages,
}

impl<'a> About<'a> {
    /// Returns the page.
    pub(super) fn page(self) -> String {
        let name = self.text("name").unwrap_or("A Nostr relay");
        let content = html! {
            main #main {
                (self.introduction(name))
                div.columns {
                    (self.connecting())
                    (self.rules())
                    (self.operator())
                    (self.limits())
                    (self.nips())
                }
            }
            footer.site { div.bar { (self.footer()) } }
        };
        // Without an icon, a browser asks for /favicon.ico.
        let icon = self.picture("icon").or(Some("data:,"));
        Alone { title: name, icon, ..Alone::default() }.around(&content)
    }

    fn introduction(self, name: &str) -> Markup {
        html! {
            @if let Some(banner) = self.picture("banner") { img.banner src=(banner) alt=""; }
            header.introduction {
                @if let Some(icon) = self.picture("icon") { img.portrait src=(icon) alt=""; }
                div {
                    h1 { (name) }
                    @if let Some(text) = self.text("description") { p { (text) } }
                }
            }
        }
    }

    fn connecting(self) -> Markup {
        html! {
            section {
                h2 { "Connect" }
                @if self.urls.is_empty() {
                    p { "Add this relay to a Nostr client: the address of this page, with " code { "wss://" }
                        " in place of " code { "https://" } "." }
                } @else {
                    p { "Add this relay to a Nostr client:" }
                }
                @for url in self.urls {
                    @let url = url.to_string();
                    p.whole { (url) }
                    @if let Some(code) = qr(&url, &format!("QR code of {url}")) { (code) }
                }
            }
        }
    }

    fn rules(self) -> Markup {
        let limitation = |name: &str| self.document["limitation"][name].as_u64();
        html! {
            section {
                h2 { "Rules" }
                @if self.document["limitation"]["restricted_writes"] == true {
                    p { "Only some events are accepted: those of authors, or of kinds, that the operator lets in. A refusal
                         says why. To join, ask the operator." }
                } @else {
                    p { "Everybody may publish events here." }
                }
                @if let Some(bits @ 1..) = limitation("min_pow_difficulty") {
                    p { "An event needs a proof of work of " (bits) " bits (" (nip(13)) ")." }
                }
                @if let Some(seconds) = limitation("created_at_lower_limit") {
                    p { "An event may be at most " (amounts::duration(seconds)) " old." }
                }
                @if self.document["limitation"]["auth_required"] == true {
                    p { "Only members may read, once their client has authenticated (" (nip(42)) ")." }
                } @else {
                    p { "Everybody may read what is public." }
                }
                @if self.supports(43) { p { "Members may invite others (" (nip(43)) ")." } }
                @match self.private_messages {
                    PrivateMessages::ForParticipants => p {
                        "Private messages are shown to their author and their recipients alone, once their client has
                         authenticated (" (nip(42)) ")."
                    },
                    PrivateMessages::ForEveryone => p {
                        "Private messages are encrypted, but everybody can see who writes to whom."
                    },
                }
                @if let Some(terms) = self.text("terms_of_service") { p { "Terms of service: " (link(terms)) } }
            }
        }
    }

    fn operator(self) -> Markup {
        let (contact, pubkey) = (self.text("contact"), self.text("pubkey").and_then(npub));
        html! {
            @if contact.is_some() || pubkey.is_some() {
                section {
                    h2 { "Operator" }
                    dl.facts {
                        @if let Some(contact) = contact { (fact("Contact", &link(contact))) }
                        @if let Some(npub) = &pubkey {
                            (fact("Nostr", &html! { a href={ "nostr:" (npub) } { (npub) } }))
                        }
                    }
                }
            }
        }
    }

    fn limits(self) -> Markup {
        let limitation = |name: &str| self.document["limitation"][name].as_u64();
        let of = |name, unit: &str| Some(format!("{}{unit}", amounts::count(limitation(name)?)));
        let rows = [
            ("Message", limitation("max_message_length").map(amounts::bytes)),
            ("Content of an event", limitation("max_content_length").map(amounts::bytes)),
            ("Tags of an event", of("max_event_tags", "")),
            ("Subscriptions", of("max_subscriptions", " a connection")),
            ("Ahead of the clock", limitation("created_at_upper_limit").map(amounts::duration)),
        ];
        html! {
            section {
                h2 { "Limits" }
                dl.facts {
                    @for (name, value) in rows {
                        @if let Some(value) = value { (fact(name, &html! { (value) })) }
                    }
                }
            }
        }
    }

    fn nips(self) -> Markup {
        html! {
            section {
                h2 { "Supported NIPs" }
                p { @for number in self.supported() { (nip(number)) " " } }
            }
        }
    }

    fn footer(self) -> Markup {
        let version = self.text("version").unwrap_or_default();
        html! {
            p {
                @match self.text("software") {
                    Some(software) => { a href=(software) { "Birdhouse" } " " (version) },
                    None => { "Birdhouse " (version) },
                }
            }
        }
    }

    fn supported(self) -> impl Iterator<Item = u64> + use<'a> {
        self.document["supported_nips"].as_array().into_iter().flatten().filter_map(Value::as_u64)
    }

    fn supports(self, number: u64) -> bool {
        self.supported().any(|supported| supported == number)
    }

    fn text(self, name: &str) -> Option<&'a str> {
        self.document[name].as_str().filter(|text| !text.is_empty())
    }

    /// Returns the URL of a picture.
    fn picture(self, name: &str) -> Option<&'a str> {
        self.text(name).filter(|url| url.starts_with("https://") || url.starts_with("http://"))
    }
}

/// Returns a text of the operator, as a link if it is one.
fn link(text: &str) -> Markup {
    html! {
        @if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) { a href=(text) rel="nofollow" { (text.trim_start_matches("mailto:")) } } @else { (text) }
    }
}

fn nip(number: u64) -> Markup {
    html! { a href={ (NIPS) (format!("{number:02}.md")) } { "NIP-" (format!("{number:02}")) } }
}

/// Returns a public key as NIP-19 writes it for people.
fn npub(hex: &str) -> Option<String> {
    let key = const_hex::decode(hex).ok()?;
    bech32::encode::<Bech32>(Hrp::parse("npub").ok()?, &key).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(document: &Value) -> String {
        About { document, urls: &[], private_messages: PrivateMessages::ForParticipants }.page()
    }

    #[test]
    fn texts_of_the_operator_run_nothing() {
        let document = json!({
            "name": "<b>Nest</b>",
            "contact": "javascript:alert(1)",
            "icon": "javascript:alert(1)",
            "terms_of_service": "data:text/html,x",
        });
        let page = page(&document);
        assert!(page.contains("<h1>&lt;b&gt;Nest&lt;/b&gt;</h1>"), "{page}");
        assert!(!page.contains("href=\"javascript") && !page.contains("src=\"javascript"), "{page}");
        assert!(!page.contains("href=\"data:text"), "{page}");
    }

    #[test]
    fn the_page_says_who_may_read_and_invite() {
        let open = page(&json!({ "supported_nips": [1] }));
        assert!(open.contains("Everybody may read") && !open.contains("invite"), "{open}");
        let private = page(&json!({ "supported_nips": [1, 43], "limitation": { "auth_required": true } }));
        assert!(private.contains("Only members may read") && private.contains("Members may invite"), "{private}");
        assert!(!private.contains("Everybody may read"), "{private}");
    }

    /// The key and its name are an example of NIP-19.
    #[test]
    fn the_operators_key_is_shown_as_npub() {
        let hex = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e";
        let npub = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";
        assert!(page(&json!({ "pubkey": hex })).contains(&format!("<a href=\"nostr:{npub}\">{npub}</a>")));
        assert!(!page(&json!({ "pubkey": "12" })).contains("nostr:npub10"));
    }
}
