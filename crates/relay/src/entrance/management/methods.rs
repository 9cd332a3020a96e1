//! The methods of the management API, one line each.

use std::net::IpAddr;

use birdhouse_events::{EventId, Kind, Pubkey};
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::clock::now;
use crate::relay::Relay;
use crate::rules::{Actor, Change, Role, RoleChange, Rule, Subject, Text, Verdict};

/// Result of a method, or the reason for the admin why there is none.
type Outcome = Result<Value, String>;
type Method = fn(&Admin<'_>, &[Value]) -> Outcome;

/// An admin's request.
pub(super) struct Admin<'a> {
    pub(super) relay: &'a Relay,
    pub(super) key: Pubkey,
    /// The address that it came from.
    pub(super) address: IpAddr,
}

/// All methods but the one that lists them.
const METHODS: &[(&str, Method)] = &[
    ("banpubkey", |admin, params| ban(admin, author(params)?, params)),
    ("unbanpubkey", |admin, params| take_back(admin, author(params)?, Verdict::Ban)),
    ("listbannedpubkeys", |admin, _| Ok(listed(admin, "author", Verdict::Ban, "pubkey"))),
    ("allowpubkey", |admin, params| allow(admin, author(params)?, params)),
    ("unallowpubkey", |admin, params| take_back(admin, author(params)?, Verdict::Allow)),
    ("listallowedpubkeys", |admin, _| Ok(listed(admin, "author", Verdict::Allow, "pubkey"))),
    ("banevent", |admin, params| ban(admin, event(params)?, params)),
    ("unbanevent", |admin, params| take_back(admin, event(params)?, Verdict::Ban)),
    ("listbannedevents", |admin, _| Ok(listed(admin, "event", Verdict::Ban, "id"))),
    ("allowevent", |admin, params| allow(admin, event(params)?, params)),
    ("unallowevent", |admin, params| take_back(admin, event(params)?, Verdict::Allow)),
    ("listallowedevents", |admin, _| Ok(listed(admin, "event", Verdict::Allow, "id"))),
    ("listeventsneedingmoderation", |admin, _| reported(admin)),
    ("changerelayname", |admin, params| describe(admin, Text::Name, params)),
    ("changerelaydescription", |admin, params| describe(admin, Text::Description, params)),
    ("changerelayicon", |admin, params| describe(admin, Text::Icon, params)),
    ("allowkind", |admin, params| allow(admin, kind(params)?, params)),
    ("disallowkind", |admin, params| ban(admin, kind(params)?, params)),
    ("listallowedkinds", |admin, _| Ok(listed_kinds(admin, Verdict::Allow))),
    ("listdisallowedkinds", |admin, _| Ok(listed_kinds(admin, Verdict::Ban))),
    ("blockip", |admin, params| ban(admin, other_clients(admin, params)?, params)),
    ("unblockip", |admin, params| take_back(admin, client(params)?, Verdict::Ban)),
    ("listblockedips", |admin, _| Ok(listed(admin, "client", Verdict::Ban, "ip"))),
];

/// Methods of roles, where the relay has members.
const ROLE_METHODS: &[(&str, Method)] = &[
    ("createrole", |admin, params| change(admin, &Change::Role(RoleChange::Create(role(params)?)))),
    ("editrole", |admin, params| change(admin, &Change::Role(RoleChange::Edit(role(params)?)))),
    ("deleterole", |admin, params| change(admin, &Change::Role(RoleChange::Delete(role_id(params.first())?)))),
    ("assignrole", |admin, params| {
        change(admin, &Change::Role(RoleChange::Assign(pubkey(params)?, role_id(params.get(1))?)))
    }),
    ("unassignrole", |admin, params| {
        change(admin, &Change::Role(RoleChange::Unassign(pubkey(params)?, role_id(params.get(1))?)))
    }),
];

/// Calls a method. Waits for the disk.
pub(super) fn call(admin: &Admin<'_>, method: &str, params: &[Value]) -> Outcome {
    if method == "supportedmethods" {
        return Ok(methods(admin).map(|(name, _)| *name).collect());
    }
    let found = methods(admin).find(|(name, _)| *name == method);
    let (_, call) = found.ok_or("there is no such method; supportedmethods lists them")?;
    call(admin, params)
}

/// Returns the methods that there are on this relay.
fn methods(admin: &Admin<'_>) -> impl Iterator<Item = &'static (&'static str, Method)> {
    let of_roles = if admin.relay.settings.members.is_some() { ROLE_METHODS } else { &[] };
    METHODS.iter().chain(of_roles)
}

/// Bans a subject for the reason of the second parameter, until the time of the third; both may be absent.
fn ban(admin: &Admin<'_>, subject: Subject, params: &[Value]) -> Outcome {
    let until = number(params.get(2), "the end is a number of seconds since 1970")?;
    let since = now().into();
    change(admin, &Change::Decide(subject, Rule { verdict: Verdict::Ban, reason: reason(params)?, since, until }))
}

/// Allows a subject for the reason of the second parameter, which may be absent.
fn allow(admin: &Admin<'_>, subject: Subject, params: &[Value]) -> Outcome {
    if params.get(2).is_some_and(|end| !end.is_null()) {
        return Err("an allowance has no end: leave the third parameter out".to_owned());
    }
    let since = now().into();
    change(
        admin,
        &Change::Decide(subject, Rule { verdict: Verdict::Allow, reason: reason(params)?, since, until: None }),
    )
}

fn reason(params: &[Value]) -> Result<String, String> {
    Ok(match params.get(1) {
        None | Some(Value::Null) => String::new(),
        Some(reason) => reason.as_str().ok_or("the reason is a text")?.to_owned(),
    })
}

fn take_back(admin: &Admin<'_>, subject: Subject, verdict: Verdict) -> Outcome {
    change(admin, &Change::TakeBack(subject, verdict))
}

fn describe(admin: &Admin<'_>, which: Text, params: &[Value]) -> Outcome {
    let text = first(params, Value::as_str).ok_or("the parameter is a text")?;
    change(admin, &Change::Describe(which, text.to_owned()))
}

fn change(admin: &Admin<'_>, change: &Change) -> Outcome {
    admin
        .relay
        .rule_book()
        .change(change, Actor::Admin(admin.key))
        .map(|_| json!(true))
        .map_err(|error| error.to_string())
}

fn listed(admin: &Admin<'_>, noun: &str, verdict: Verdict, key: &str) -> Value {
    let rules = admin.relay.rules();
    let listed = rules.list().into_iter().filter(|(subject, rule)| subject.noun() == noun && rule.verdict == verdict);
    let line = |(subject, rule): (Subject, &Rule)| {
        let mut line = json!({ key: subject.to_string(), "reason": rule.reason });
        if let Some(until) = rule.until {
            line["until"] = until.into();
        }
        line
    };
    listed.map(line).collect()
}

/// Lists the events that others have reported and that no rule decides on.
fn reported(admin: &Admin<'_>) -> Outcome {
    let reported = admin.relay.reported()?.into_iter();
    let events = reported.filter(|one| matches!(one.subject, Subject::Event(_)));
    Ok(events.map(|one| json!({ "id": one.subject.to_string(), "reason": one.reason() })).collect())
}

fn listed_kinds(admin: &Admin<'_>, verdict: Verdict) -> Value {
    let rules = admin.relay.rules();
    let kind = |(subject, rule): (Subject, &Rule)| match subject {
        Subject::Kind(kind) if rule.verdict == verdict => Some(kind.0),
        _ => None,
    };
    rules.list().into_iter().filter_map(kind).collect()
}

// === parameters ===

fn author(params: &[Value]) -> Result<Subject, String> {
    pubkey(params).map(Subject::Author)
}

fn pubkey(params: &[Value]) -> Result<Pubkey, String> {
    let key = first(params, Value::as_str).and_then(Pubkey::parse);
    key.ok_or_else(|| "the first parameter is a public key of 64 hexadecimal digits".to_owned())
}

/// Returns the role of the parameters id, label, description, color and order; all but the id may be absent.
fn role(params: &[Value]) -> Result<Role, String> {
    Ok(Role {
        id: role_id(params.first())?,
        label: text(params.get(1))?,
        description: text(params.get(2))?,
        color: number(params.get(3), "the color is a hue from 0 to 360")?,
        order: number(params.get(4), "the order is a whole number")?,
    })
}

fn role_id(param: Option<&Value>) -> Result<String, String> {
    text(param)?.ok_or_else(|| "the id of a role is a text".to_owned())
}

/// Returns a text; `None` for an empty one.
fn text(param: Option<&Value>) -> Result<Option<String>, String> {
    match param {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err("the id, the label and the description are texts".to_owned()),
    }
}

/// Returns a number, which some clients write as a text: the event of a role has it as one.
fn number<T: std::str::FromStr>(param: Option<&Value>, wrong: &str) -> Result<Option<T>, String> {
    let parse = |text: &str| text.parse().map(Some).map_err(|_| wrong.to_owned());
    match param {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => parse(text),
        Some(value) => parse(&value.to_string()),
    }
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

/// Returns the clients of a parameter, unless the admin is among them.
fn other_clients(admin: &Admin<'_>, params: &[Value]) -> Result<Subject, String> {
    let clients = client(params)?;
    match clients {
        Subject::Client(network) if network.contains(&admin.address.to_canonical()) => {
            Err("your own address is among these: the next request would be refused".to_owned())
        }
        others => Ok(others),
    }
}

fn first<'a, T>(params: &'a [Value], read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
    params.first().and_then(read)
}
