//! The dashboard: pages by path, and commands from their forms.

use birdhouse_dashboard::{
    Commands, ConnectionLine, Control as ControlPage, FormPage, Outcome, SCRIPT, control_page, outcome_page,
    refusal_page, status_page,
};
use birdhouse_relay::Actor;
use birdhouse_web::{ICON, STYLE};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};

use super::figures::Figures;
use super::form::field;
use super::guard::Guard;
use super::response::response;
use super::wallets::{Order, Wallets};
use crate::config::{Banned, ControlCommand, Decided, Named, Switch, time};
use crate::operator::connections::Connection;
use crate::operator::control::Control;
use crate::operator::ctl::Answer;
use crate::operator::{answer_text, audit, connections, ctl, reports, status, watch};
use crate::sockets::protocols::WATCH_API;

/// Connections on the page; `birdhouse ctl connections` lists all.
const CONNECTIONS_MAX: usize = 200;
/// Nothing comes from elsewhere, and no page is shown inside of another.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// With `no-referrer` a browser would send a form without its origin.
const PAGE_HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (REFERRER_POLICY, "same-origin"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
];
const HTML: &str = "text/html; charset=utf-8";

/// The dashboard of one process.
#[derive(Debug)]
pub(super) struct Dashboard {
    guard: Guard,
    commands: Switch,
    wallets: Wallets,
    pub(super) figures: Figures,
}

/// The way from a page to the root, and from the answer to a command.
const HERE: &str = "./";
const ABOVE: &str = "../";

/// An answer, and the command that follows once it is sent.
pub(super) struct Reply {
    pub(super) response: Response<String>,
    pub(super) stops: bool,
}

impl Dashboard {
    pub(super) fn new(guard: Guard, commands: Switch, wallets: Wallets) -> Self {
        Self { guard, commands, wallets, figures: Figures::default() }
    }

    /// Answers a request for a page or an asset; `None` if there is none at this path.
    pub(super) async fn get(&self, path: &str, headers: &HeaderMap, control: &Control) -> Option<Response<String>> {
        let asset = match path {
            "/style.css" => Some(("text/css; charset=utf-8", STYLE)),
            "/live.js" => Some(("text/javascript; charset=utf-8", SCRIPT)),
            "/icon.svg" => Some(("image/svg+xml", ICON)),
            _ => None,
        };
        if let Some((content_type, text)) = asset {
            return Some(self::asset(content_type, text));
        }
        let show: fn(&Self, &Control) -> String = match path {
            "/" => |_, control| status_page(&status::status(control)),
            "/control" => Self::control,
            "/reports" if control.relay.is_some() => {
                |this, control| reports::page(control, this.commands_of(this.commands))
            }
            "/audit" => |this, control| audit::page(control, this.commands_of(this.commands)),
            "/watches" if control.watches.is_some() => Self::watches,
            _ => return None,
        };
        if let Err(reason) = self.guard.check_host(headers) {
            return Some(refusal(HERE, StatusCode::MISDIRECTED_REQUEST, "Unknown name", &reason));
        }
        if path == "/audit" && self.commands == Switch::Off {
            // It has addresses of clients and the operator's reasons, and readers need not be the operator.
            let reason = "Where commands are off, the audit log is on the server alone: birdhouse ctl audit";
            return Some(refusal(HERE, StatusCode::FORBIDDEN, "Commands are off", reason));
        }
        if path == "/watches" && !self.wallets.are_open_to(headers) {
            return Some(key_needed(HERE));
        }
        let shown = || page(StatusCode::OK, birdhouse_web::relative(&show(self, control), HERE));
        Some(self.figures.make(shown).await)
    }

    /// Executes a command from a form.
    pub(super) async fn post(&self, path: &str, headers: &HeaderMap, body: &str, control: &Control) -> Reply {
        let refused =
            |status, title, reason: &str| Reply { response: refusal(ABOVE, status, title, reason), stops: false };
        if let Err(reason) = self.guard.check_host(headers) {
            return refused(StatusCode::MISDIRECTED_REQUEST, "Unknown name", &reason);
        }
        let name = path.strip_prefix("/control/").unwrap_or_default();
        let order = Order::of(name, body);
        if order.is_some() && !self.wallets.are_open_to(headers) {
            return Reply { response: key_needed(ABOVE), stops: false };
        }
        let commands = if order.is_some() { self.wallets.commands } else { self.commands };
        if commands == Switch::Off {
            return refused(StatusCode::FORBIDDEN, "Commands are off", "The setting ops-control is off.");
        }
        let token = field(body, "token");
        if let Err(reason) = self.guard.check_command(headers, token.as_deref()) {
            tracing::warn!("refused a command that no page of the dashboard has sent");
            return refused(StatusCode::FORBIDDEN, "Refused", &reason);
        }
        let not_understood = |reason: &str| refused(StatusCode::BAD_REQUEST, "Not understood", reason);
        match order {
            Some(Err(reason)) => not_understood(&reason),
            Some(Ok(order)) => {
                let typed = order.typed();
                Reply { response: answered(typed, FormPage::Watches, order.execute(control).await), stops: false }
            }
            None => match command(name, body) {
                Err(reason) => not_understood(&reason),
                Ok(command) => {
                    let answer = ctl::execute(&command, control, Actor::Dashboard);
                    let answer = answer.unwrap_or_else(|error| Answer::Error(format!("{error:#}")));
                    let response = answered(&format!("birdhouse ctl {name}"), form_page(&command), answer);
                    Reply { response, stops: command == ControlCommand::Stop }
                }
            },
        }
    }

    /// Returns the access of browsers to commands that are on or off.
    fn commands_of(&self, commands: Switch) -> Commands<'_> {
        match commands {
            Switch::On => Commands::On { token: self.guard.token() },
            Switch::Off => Commands::Off,
        }
    }

    fn watches(&self, control: &Control) -> String {
        let api = status::links(&control.shown).into_iter().find(|link| link.serves == WATCH_API.serves);
        let api = api.as_ref().map(|link| link.url.as_str());
        watch::page(control, self.commands_of(self.wallets.commands), api)
    }

    fn control(&self, control: &Control) -> String {
        let network = control.bitcoin.as_ref().map(|bitcoin| bitcoin.network.to_string());
        let open = connections::list(control);
        let connections: Vec<ConnectionLine> = open
            .iter()
            .take(CONNECTIONS_MAX)
            .map(|Connection { info, .. }| ConnectionLine {
                id: info.id,
                listener: info.listener.clone(),
                age_s: info.age.as_secs(),
                requests: info.requests,
                bytes: info.bytes_in + info.bytes_out,
                work_ms: connections::millis(info.work),
            })
            .collect();
        let reorg = control.bitcoin.as_ref().and_then(|bitcoin| bitcoin.index.waiting());
        let reorg = reorg.filter(|waiting| matches!(waiting, birdhouse_chain::Waiting::DeepReorg { .. }));
        let reorg = reorg.map(|waiting| waiting.to_string());
        control_page(&ControlPage {
            network: network.as_deref(),
            commands: self.commands_of(self.commands),
            deep_reorg: reorg.as_deref(),
            has_relay: control.relay.is_some(),
            has_watches: control.watches.is_some(),
            more_connections: open.len() - connections.len(),
            connections: &connections,
        })
    }
}

/// Returns the page with the form of a command.
fn form_page(command: &ControlCommand) -> FormPage {
    if matches!(command, ControlCommand::Undo { .. }) { FormPage::Audit } else { FormPage::Control }
}

/// Returns the command of a form.
///
/// # Errors
/// The reason why it is none.
fn command(name: &str, body: &str) -> Result<ControlCommand, String> {
    let needed = |field_name: &str| field(body, field_name).ok_or(format!("The field {field_name} is missing."));
    let subject = || Named::new(&needed("type")?, needed("value")?).map_err(|error| error.to_string());
    let decided = |subject| Decided { subject, reason: field(body, "reason").unwrap_or_default() };
    let seconds = || field(body, "for").filter(|text| !text.is_empty()).map(|text| time(&text)).transpose();
    Ok(match name {
        "accept-reorg" => ControlCommand::AcceptReorg,
        "disconnect" => ControlCommand::Disconnect {
            id: needed("id")?.parse().map_err(|_| "The number of the connection is no number.".to_owned())?,
        },
        "explain" => ControlCommand::Explain { filter: needed("filter")? },
        "ban" => ControlCommand::Ban(Banned { decided: decided(subject()?), seconds: seconds()? }),
        "unban" => ControlCommand::Unban(subject()?),
        "allow" => ControlCommand::Allow(decided(subject()?)),
        "unallow" => ControlCommand::Unallow(subject()?),
        "ignore" => ControlCommand::Ignore(decided(subject()?)),
        "unignore" => ControlCommand::Unignore(subject()?),
        "undo" => ControlCommand::Undo {
            number: needed("number")?.parse().map_err(|_| "The number of the entry is no number.".to_owned())?,
        },
        "log-level" => ControlCommand::LogLevel { level: needed("level")?.trim().to_owned() },
        "stop" if needed("sure")? == "yes" => ControlCommand::Stop,
        _ => return Err("There is no such command.".into()),
    })
}

/// The page of a command's outcome.
fn answered(typed: &str, form: FormPage, answer: Answer) -> Response<String> {
    let (status, outcome) = match answer {
        Answer::Ok(answer) => (StatusCode::OK, Outcome::Done(answer_text::text(&answer))),
        Answer::Error(reason) => (StatusCode::CONFLICT, Outcome::Failed(reason)),
    };
    page(status, birdhouse_web::relative(&outcome_page(typed, form, &outcome), ABOVE))
}

/// The page for those who may not see the watched wallets; browsers ask for the key.
fn key_needed(way_up: &str) -> Response<String> {
    let reason = "This page shows your wallets. Enter the key of the watch API as the password, with any user: it is \
                  in the file watch-api-token of the data folder, or in the one that the setting \
                  watch-api-token-file names.";
    let refused = refusal(way_up, StatusCode::UNAUTHORIZED, "Key needed", reason);
    with(refused, WWW_AUTHENTICATE, "Basic realm=\"Birdhouse\", charset=\"UTF-8\"")
}

fn asset(content_type: &'static str, text: &str) -> Response<String> {
    let response = response(StatusCode::OK, content_type, text.to_owned());
    with(response, CACHE_CONTROL, "public, max-age=31536000, immutable")
}

fn refusal(way_up: &str, status: StatusCode, title: &str, reason: &str) -> Response<String> {
    page(status, birdhouse_web::relative(&refusal_page(title, reason), way_up))
}

fn page(status: StatusCode, text: String) -> Response<String> {
    let response = response(status, HTML, text);
    PAGE_HEADERS.into_iter().fold(response, |response, (name, value)| with(response, name, value))
}

fn with(mut response: Response<String>, name: HeaderName, value: &'static str) -> Response<String> {
    response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    response
}
