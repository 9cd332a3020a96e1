//! The page of the operator's own wallets: which are watched, the channels of their notices, and the forms
//! to add and remove them. A source that was added is not shown again: it may be a key.

use birdhouse_web::amounts;
use birdhouse_web::parts::{badge, fact, sentence};
use maud::{Markup, html};

use crate::control_page::{Commands, form};
use crate::site;

/// Values of the page.
#[derive(Debug)]
pub struct Watches<'a> {
    /// Name of the network.
    pub network: &'a str,
    /// The commands that browsers may use.
    pub commands: Commands<'a>,
    /// The watch file.
    pub file: String,
    /// Reasons why no notice is sent now, or why the file is not in effect.
    pub troubles: Vec<String>,
    /// The watches, as the file has them.
    pub watches: Vec<WatchLine>,
    /// The channels, as the file has them.
    pub channels: Vec<ChannelLine>,
}

/// A watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchLine {
    /// Its name.
    pub name: String,
    /// URL of its page of the watch API, where that is served.
    pub page: Option<String>,
    /// Kind of its source.
    pub kind: &'static str,
    /// A spend is an alarm.
    pub is_cold: bool,
    /// Scripts that are watched.
    pub scripts: usize,
    /// Balance in blocks, in satoshis.
    pub confirmed: u64,
    /// Change by the mempool, in satoshis.
    pub unconfirmed: i64,
    /// Names of its channels.
    pub channels: Vec<String>,
    /// The reason why it says less than it should.
    pub fault: Option<String>,
}

/// A channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelLine {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Notices that are not delivered yet.
    pub waiting: usize,
    /// Deliveries so far.
    pub delivered: u64,
    /// Seconds since the last delivery.
    pub last_delivery_s: Option<u64>,
    /// The last failure, or the reason why the channel is not used.
    pub error: Option<String>,
    /// Seconds since that failure, where it has a time.
    pub error_s: Option<u64>,
}

/// Returns the page.
pub fn watches_page(watches: &Watches<'_>) -> String {
    site::page(
        "Watched wallets",
        Some(watches.network),
        &html! {
            h1 { "Watched wallets" }
            @if !watches.troubles.is_empty() {
                section.card.bad aria-label="Troubles" {
                    ul.parts { @for trouble in &watches.troubles { li { p { (sentence(trouble)) } } } }
                }
            }
            (list(watches))
            (channels(watches))
            @match watches.commands {
                Commands::Off => section aria-label="Commands" {
                    p { "Buttons are off: the setting ops-control is off. On the server, type birdhouse watch add, \
                        birdhouse watch remove or birdhouse watch test." }
                },
                Commands::On { token } => (add(token, &watches.channels)),
            }
            p.quiet { "The file " code.whole { (watches.file) } " has all of this, and more settings of each watch." }
        },
    )
}

fn list(watches: &Watches<'_>) -> Markup {
    html! {
        section aria-labelledby="watches" {
            h2 #watches { "Watches" }
            @if watches.watches.is_empty() {
                p.quiet { "No wallet is watched." }
            } @else {
                ul.parts { @for line in &watches.watches { li { (watch(watches.commands, line)) } } }
            }
        }
    }
}

fn watch(commands: Commands<'_>, line: &WatchLine) -> Markup {
    html! {
        h3 {
            @match &line.page { Some(page) => a href=(page) { (line.name) }, None => { (line.name) } }
            " " (badge("", line.kind))
            @if line.is_cold { " " (badge("open", "cold")) }
        }
        @if let Some(fault) = &line.fault { p { (badge("bad", "fault")) " " (sentence(fault)) } }
        dl.facts {
            (fact("Balance", &balance(line.confirmed, line.unconfirmed)))
            (fact("Scripts", &html! { (amounts::count(line.scripts as u64)) }))
            (fact("Channels", &html! {
                @if line.channels.is_empty() { "none: notices stay in the log" } @else { (line.channels.join(", ")) }
            }))
        }
        @if let Commands::On { token } = commands {
            details {
                summary { "Remove " (line.name) }
                (form("watch-remove", token, &html! {
                    p.quiet { "Removes it from the file. What was told of it stays in the log." }
                    input type="hidden" name="name" value=(line.name);
                    button { "Remove " (line.name) " now" }
                }))
            }
        }
    }
}

fn balance(confirmed: u64, unconfirmed: i64) -> Markup {
    let sign = if unconfirmed < 0 { "−" } else { "+" };
    html! {
        span.amount { (amounts::bitcoin(confirmed)) " BTC" }
        @if unconfirmed != 0 {
            ", unconfirmed " span.amount { (sign) (amounts::bitcoin(unconfirmed.unsigned_abs())) " BTC" }
        }
    }
}

fn channels(watches: &Watches<'_>) -> Markup {
    html! {
        section aria-labelledby="channels" {
            h2 #channels { "Channels" }
            @if watches.channels.is_empty() {
                p.quiet { "No channel tells of payments. The file names channels, as tables [[channel]]." }
            } @else {
                ul.parts { @for line in &watches.channels { li { (channel(watches.commands, line)) } } }
            }
        }
    }
}

fn channel(commands: Commands<'_>, line: &ChannelLine) -> Markup {
    let ago = |seconds: u64| html! { (amounts::duration(seconds)) " ago" };
    html! {
        h3 { (line.name) " " (badge("", line.kind)) }
        dl.facts {
            (fact("Last delivery", &html! {
                @match line.last_delivery_s { Some(seconds) => (ago(seconds)), None => "none yet" }
            }))
            (fact("Delivered", &html! { (amounts::count(line.delivered)) }))
            (fact("Waiting", &html! { (amounts::count(line.waiting as u64)) }))
            @if let Some(error) = &line.error {
                (fact("Last error", &html! {
                    (error)
                    @if let Some(seconds) = line.error_s { ", " (ago(seconds)) }
                }))
            }
        }
        @if let Commands::On { token } = commands {
            (form("watch-test", token, &html! {
                input type="hidden" name="name" value=(line.name);
                button { "Send a test by " (line.name) }
            }))
        }
    }
}

fn add(token: &str, channels: &[ChannelLine]) -> Markup {
    html! {
        section aria-labelledby="add" {
            h2 #add { "Add a watch" }
            (form("watch-add", token, &html! {
                label for="name" { "Name" }
                input #name name="name" required maxlength="64" autocomplete="off";
                label for="source" { "Wallet" }
                textarea #source name="source" rows="3" required autocomplete="off" spellcheck="false"
                    aria-describedby="source-help" {}
                p.quiet #source-help {
                    "A descriptor, extended public key, address, script, output (txid:vout), or scan key of silent \
                    payments. Never a private key or a seed: no server needs one."
                }
                label for="confirmations" { "Confirmations to tell; 0 is the mempool" }
                input #confirmations name="confirmations" required autocomplete="off" value="0, 1, 6";
                @for (at, line) in channels.iter().enumerate() {
                    label.check for={ "channel-" (at) } {
                        input id={ "channel-" (at) } type="checkbox" name="channel" value=(line.name);
                        " Tell by " (line.name)
                    }
                }
                label.check for="cold" {
                    input #cold type="checkbox" name="cold" value="yes";
                    " Nobody should spend from it: a spend is an alarm"
                }
                button { "Watch it" }
            }))
        }
    }
}
