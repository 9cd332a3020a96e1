//! The methods of the management API, one line each.

use std::net::IpAddr;

use birdhouse_events::{EventId, Kind, Pubkey};
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::clock::now;
use crate::relay::Relay;
use crate::rules::{Change, Rule, Subject, Text, Verdict};

/// Result of a method, or the reason for the admin why there is none.
type Outcome = Result<Value, String>;
type Method = fn(&Relay, &[Value]) -> Outcome;

/// All methods but the one that lists them. Moderation of events before they are shown is the plugin's: there is no
/// `listeventsneedingmoderation`.
const METHODS: &[(&str, Method)] = &[
    ("banpubkey", |relay, params| decide(relay, author(params)?, Verdict::Ban, params)),
    ("unbanpubkey", |relay, params| take_back(relay, author(params)?, Verdict::Ban)),
    ("listbannedpubkeys", |relay, _| Ok(listed(relay, "author", Verdict::Ban, "pubkey"))),
    ("allowpubkey", |relay, params| decide(relay, author(params)?, Verdict::Allow, params)),
    ("unallowpubkey", |relay, params| take_back(relay, author(params)?, Verdict::Allow)),
    ("listallowedpubkeys", |relay, _| Ok(listed(relay, "author", Verdict::Allow, "pubkey"))),
    ("banevent", |relay, params| decide(relay, event(params)?, Verdict::Ban, params)),
    ("unbanevent", |relay, params| take_back(relay, event(params)?, Verdict::Ban)),
    ("listbannedevents", |relay, _| Ok(listed(relay, "event", Verdict::Ban, "id"))),
    ("allowevent", |relay, params| decide(relay, event(params)?, Verdict::Allow, params)),
    ("unallowevent", |relay, params| take_back(relay, event(params)?, Verdict::Allow)),
    ("listallowedevents", |relay, _| Ok(listed(relay, "event", Verdict::Allow, "id"))),
    ("changerelayname", |relay, params| describe(relay, Text::Name, params)),
    ("changerelaydescription", |relay, params| describe(relay, Text::Description, params)),
    ("changerelayicon", |relay, params| describe(relay, Text::Icon, params)),
    ("allowkind", |relay, params| decide(relay, kind(params)?, Verdict::Allow, params)),
    ("disallowkind", |relay, params| decide(relay, kind(params)?, Verdict::Ban, params)),
    ("listallowedkinds", |relay, _| Ok(listed_kinds(relay, Verdict::Allow))),
    ("listdisallowedkinds", |relay, _| Ok(listed_kinds(relay, Verdict::Ban))),
    ("blockip", |relay, params| decide(relay, client(params)?, Verdict::Ban, params)),
    ("unblockip", |relay, params| take_back(relay, client(params)?, Verdict::Ban)),
    ("listblockedips", |relay, _| Ok(listed(relay, "client", Verdict::Ban, "ip"))),
];

/// Calls a method. Waits for the disk.
pub(super) fn call(relay: &Relay, method: &str, params: &[Value]) -> Outcome {
    if method == "supportedmethods" {
        return Ok(METHODS.iter().map(|(name, _)| *name).collect());
    }
    let found = METHODS.iter().find(|(name, _)| *name == method);
    let (_, call) = found.ok_or("there is no such method; supportedmethods lists them")?;
    call(relay, params)
}

fn decide(relay: &Relay, subject: Subject, verdict: Verdict, params: &[Value]) -> Outcome {
    let reason = match params.get(1) {
        None | Some(Value::Null) => String::new(),
        Some(reason) => reason.as_str().ok_or("the reason is a text")?.to_owned(),
    };
    change(relay, &Change::Decide(subject, Rule { verdict, reason, since: now().into() }))
}

fn take_back(relay: &Relay, subject: Subject, verdict: Verdict) -> Outcome {
    change(relay, &Change::TakeBack(subject, verdict))
}

fn describe(relay: &Relay, which: Text, params: &[Value]) -> Outcome {
    let text = first(params, Value::as_str).ok_or("the parameter is a text")?;
    change(relay, &Change::Describe(which, text.to_owned()))
}

fn change(relay: &Relay, change: &Change) -> Outcome {
    relay.change_rules(change).map(|_| json!(true)).map_err(|error| error.to_string())
}

fn listed(relay: &Relay, noun: &str, verdict: Verdict, key: &str) -> Value {
    let rules = relay.rules();
    let listed = rules.list().into_iter().filter(|(subject, rule)| subject.noun() == noun && rule.verdict == verdict);
    listed.map(|(subject, rule)| json!({ key: subject.to_string(), "reason": rule.reason })).collect()
}

fn listed_kinds(relay: &Relay, verdict: Verdict) -> Value {
    let rules = relay.rules();
    let kind = |(subject, rule): (Subject, &Rule)| match subject {
        Subject::Kind(kind) if rule.verdict == verdict => Some(kind.0),
        _ => None,
    };
    rules.list().into_iter().filter_map(kind).collect()
}

// === parameters ===

fn author(params: &[Value]) -> Result<Subject, String> {
    let key = first(params, Value::as_str).and_then(Pubkey::parse);
    key.map(Subject::Author).ok_or_else(|| "the first parameter is a public key of 64 hexadecimal digits".to_owned())
}

fn event(params: &[Value]) -> Result<Subject, String> {
    let id = first(params, Value::as_str).and_then(EventId::parse);
    id.map(Subject::Event).ok_or_else(|| "the first parameter is an event id of 64 hexadecimal digits".to_owned())
}

fn kind(params: &[Value]) -> Result<Subject, String> {
    let kind = first(params, Value::as_u64).and_then(|kind| u16::try_from(kind).ok());
    kind.map(|kind| Subject::Kind(Kind(kind))).ok_or_else(|| "the parameter is the number of a kind".to_owned())
}

fn client(params: &[Value]) -> Result<Subject, String> {
    let text = first(params, Value::as_str).unwrap_or_default();
    let address = text.parse::<IpAddr>().map(Subject::client);
    address
        .or_else(|_| text.parse::<IpNet>().map(Subject::clients))
        .map_err(|_| "the first parameter is an IP address or a network like 203.0.113.0/24".to_owned())
}

fn first<'a, T>(params: &'a [Value], read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
    params.first().and_then(read)
}
