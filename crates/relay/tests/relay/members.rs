//! Members (NIP-43): requests to join and leave, invites, the relay's own events about them, and what is for members.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_clients::Rate;
use birdhouse_events::{Filter, Kind, Rejection, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_net::{Proxy, Transport};
use birdhouse_relay::{
    Actor, Change, Exchange, Limits, Members, MembersAlone, Policy, Relay, Rule, RuleBook, Settings, Subject, Taken,
    Verdict,
};
use futures_util::StreamExt as _;
use nostr_sdk::JsonUtil as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::app::{App, Client, PATIENCE, event, ids, keys, now, opened, wire};
use crate::nostr_tools::NOSTR_TOOLS;

const RELAY: u8 = 9;
const ADMIN: u8 = 8;
const JOIN: u16 = 28_934;
const INVITE: u16 = 28_935;
const LEAVE: u16 = 28_936;
const MEMBERS: u16 = 13_534;
const ADDED: u16 = 8000;
const REMOVED: u16 = 8001;

fn settings(alone: MembersAlone) -> Settings {
    let policy = Policy { admins: [keys(ADMIN).pubkey()].into(), ..Policy::default() };
    let limits = Limits { client_joins: None, ..Limits::default() };
    Settings { policy, limits, members: Some(Members { keys: Arc::new(keys(RELAY)), alone }), ..Settings::default() }
}

/// A relay with these rules.
async fn app_of(settings: Settings, rules: RuleBook) -> App {
    let (folder, events) = opened(birdhouse_events::EventsOptions::default());
    // Never closed: the thread that writes may end while the process does.
    std::mem::forget(Arc::clone(&events));
    let relay = Relay::with_rules(Arc::clone(&events), settings, Arc::new(rules));
    App::of(relay, events, folder, Transport::Ws, Proxy::Off).await
}

async fn app(alone: MembersAlone) -> App {
    app_of(settings(alone), RuleBook::in_memory()).await
}

async fn client_of(app: &App, author: u8) -> Client {
    let mut client = app.client().await;
    client.authenticate(author, &app.url()).await;
    client
}

/// A request of now; two with different texts differ.
fn request(author: u8, kind: u16, tags: &[&[&str]], text: &str) -> VerifiedEvent {
    request_at(now(), author, kind, tags, text)
}

fn request_at(created_at: u64, author: u8, kind: u16, tags: &[&[&str]], text: &str) -> VerifiedEvent {
    let tags = tags.iter().map(|tag| Tag(tag.iter().map(|element| (*element).to_owned()).collect())).collect();
    let unsigned =
        UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(kind), tags, content: text.to_owned() };
    unsigned.sign(&keys(author))
}

fn join(author: u8, code: &str) -> VerifiedEvent {
    request(author, JOIN, &[&["-"], &["claim", code]], "")
}

fn leave(author: u8) -> VerifiedEvent {
    request(author, LEAVE, &[&["-"]], "")
}

/// Makes an author a member, or bans it.
fn decide(app: &App, author: u8, verdict: Verdict) {
    let rule = Rule { verdict, reason: String::new(), since: now(), until: None };
    let change = Change::Decide(Subject::Author(keys(author).pubkey()), rule);
    tokio::task::block_in_place(|| app.relay.rule_book().change(&change, Actor::Ctl)).unwrap();
}

fn code_of_operator(app: &App) -> String {
    tokio::task::block_in_place(|| app.relay.invite(1, 3600, Actor::Ctl)).unwrap().code
}

/// Asks for an invite: the code, or the reason why there is none.
async fn ask_for_invite(client: &mut Client) -> Result<String, String> {
    client.say(json!(["REQ", "invite", { "kinds": [INVITE] }])).await;
    let answer = client.hear().await;
    if answer[0] == "CLOSED" {
        return Err(answer[2].as_str().unwrap().to_owned());
    }
    let invite = nostr_sdk::Event::from_json(answer[2].to_string()).unwrap();
    invite.verify().unwrap();
    assert_eq!((invite.kind.as_u16(), invite.pubkey.to_hex()), (INVITE, keys(RELAY).pubkey().to_string()));
    assert_eq!((invite.is_protected(), invite.tags.len()), (true, 2));
    client.hear_end("invite").await;
    client.say(json!(["CLOSE", "invite"])).await;
    Ok(answer[2]["tags"][1][1].as_str().unwrap().to_owned())
}

/// The members of the relay's list once it has these.
async fn until_listed(app: &App, authors: &[u8]) {
    let mut wanted: Vec<String> = authors.iter().map(|author| keys(*author).pubkey().to_string()).collect();
    wanted.sort();
    let relay = keys(RELAY).pubkey();
    app.until("the members are listed", || {
        let list = tokio::task::block_in_place(|| app.relay.newest(Kind(MEMBERS), relay)).unwrap();
        let Some(list) = list else { return false };
        let mut listed = list.values("member").map(str::to_owned).collect::<Vec<_>>();
        listed.sort();
        listed == wanted
    })
    .await;
}

/// Waits for the close message, and returns its code and reason.
async fn closed(client: &mut Client) -> (u16, String) {
    loop {
        match timeout(PATIENCE, client.socket.next()).await.expect("an end").expect("a close message").unwrap() {
            Message::Close(Some(frame)) => return (frame.code.into(), frame.reason.to_string()),
            Message::Close(None) => panic!("without a code"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_members_the_kinds_are_as_others_and_the_nip_is_not_listed() {
    let app = App::start(Settings::default()).await;
    let information = app.information().await;
    assert!(!information["supported_nips"].as_array().unwrap().contains(&json!(43)));
    assert_eq!((&information["self"], &information["limitation"]["auth_required"]), (&Value::Null, &json!(false)));
    let (mut client, mut watcher) = (client_of(&app, 1).await, app.client().await);
    watcher.say(json!(["REQ", "all", { "kinds": [JOIN, INVITE, LEAVE] }])).await;
    watcher.hear_end("all").await;
    let join = join(1, "code");
    client.store(&join).await;
    assert_eq!(watcher.hear().await[2]["id"], join.id.to_string(), "an ephemeral event");
    client.store(&event(1, MEMBERS, 1, &[&["member", &keys(1).pubkey().to_string()]])).await;
    assert!(app.relay.invite(1, 60, Actor::Ctl).unwrap_err().contains("relay-members"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_joins_with_an_invite_publishes_and_leaves() {
    let app = app(MembersAlone::Publish).await;
    let information = app.information().await;
    assert!(information["supported_nips"].as_array().unwrap().contains(&json!(43)));
    assert_eq!(information["self"], keys(RELAY).pubkey().to_string());
    assert_eq!(
        (&information["limitation"]["restricted_writes"], &information["limitation"]["auth_required"]),
        (&json!(true), &json!(false))
    );
    until_listed(&app, &[]).await;

    let mut watcher = app.client().await;
    watcher.say(json!(["REQ", "all", { "since": now() - 60 }])).await;
    assert_eq!(watcher.hear().await[2]["kind"], MEMBERS);
    watcher.hear_end("all").await;

    // Only members and admins invite.
    let (mut admin, mut newcomer) = (client_of(&app, ADMIN).await, app.client().await);
    assert_eq!(ask_for_invite(&mut newcomer).await.unwrap_err(), "auth-required: only members invite");
    newcomer.authenticate(1, &app.url()).await;
    assert_eq!(ask_for_invite(&mut newcomer).await.unwrap_err(), "restricted: only members invite");
    let code = ask_for_invite(&mut admin).await.unwrap();

    let note = event(1, 1, 1, &[]);
    let why = "restricted: only members may publish here";
    assert_eq!(newcomer.publish(&note).await, (false, why.to_owned()));
    let wrong = newcomer.publish(&join(1, &code[1..])).await;
    assert_eq!(wrong, (false, "restricted: that is an invalid invite code.".to_owned()));
    let first = join(1, &code);
    assert_eq!(newcomer.publish(&first).await, (true, "info: welcome!".to_owned()));
    assert_eq!(newcomer.publish(&first).await, (true, "duplicate: you are already a member of this relay.".to_owned()));
    newcomer.store(&note).await;
    let mut other = client_of(&app, 2).await;
    let used = other.publish(&join(2, &code)).await;
    assert_eq!(used, (false, "restricted: that is an invalid invite code.".to_owned()));

    // A member invites the next one.
    let code = ask_for_invite(&mut newcomer).await.unwrap();
    assert!(other.publish(&join(2, &code)).await.0);
    until_listed(&app, &[1, 2]).await;

    assert_eq!(newcomer.publish(&leave(1)).await, (true, "info: you have left this relay.".to_owned()));
    assert_eq!(newcomer.publish(&leave(1)).await, (true, "duplicate: you are not a member of this relay.".to_owned()));
    let again = newcomer.publish(&first).await;
    assert_eq!(again, (false, "restricted: this request was used before: sign another one".to_owned()));
    assert_eq!(newcomer.publish(&event(1, 1, 2, &[])).await, (false, why.to_owned()));
    until_listed(&app, &[2]).await;

    // What others hear: the note, and the relay's own events. No request.
    let (mut heard, relay) = (Vec::new(), keys(RELAY).pubkey().to_string());
    while heard.last() != Some(&(REMOVED, Some(keys(1).pubkey().to_string()))) {
        let event = watcher.hear().await[2].clone();
        nostr_sdk::Event::from_json(event.to_string()).unwrap().verify().unwrap();
        assert!(event["pubkey"] == relay || event["kind"] == 1, "{event}");
        if event["kind"] != MEMBERS && event["kind"] != 1 {
            assert_eq!(event["tags"][0], json!(["-"]));
            heard.push((
                u16::try_from(event["kind"].as_u64().unwrap()).unwrap(),
                event["tags"][1][1].as_str().map(str::to_owned),
            ));
        }
    }
    heard.sort();
    let member = |author: u8| Some(keys(author).pubkey().to_string());
    let mut wanted = vec![(ADDED, member(1)), (ADDED, member(2)), (REMOVED, member(1))];
    wanted.sort();
    assert_eq!(heard, wanted);
    let mut reader = app.client().await;
    assert_eq!(reader.count(json!({ "kinds": [JOIN, INVITE, LEAVE] })).await, 0, "nothing of it is stored");
    assert_eq!(reader.count(json!({ "authors": [keys(1).pubkey().to_string()] })).await, 1, "its events stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_of_now_have_a_claim_and_leaving_needs_the_author_itself() {
    let app = app(MembersAlone::Nothing).await;
    let (code, mut client) = (code_of_operator(&app), app.client().await);
    let refused =
        |answer: (bool, String), prefix: &str| assert!(!answer.0 && answer.1.starts_with(prefix), "{answer:?}");
    for late in [now() - 310, now() + 310] {
        let late = request_at(late, 1, JOIN, &[&["claim", &code]], "");
        refused(client.publish(&late).await, "invalid: created_at is more than 300 s");
    }
    refused(client.publish(&request(1, JOIN, &[], "")).await, "invalid: a request to join has a claim tag");
    refused(client.publish(&join(1, &code)).await, "auth-required: ");
    let mut forged: Value = wire(&request(1, JOIN, &[&["claim", &code]], ""));
    forged["pubkey"] = json!(keys(2).pubkey().to_string());
    client.say(json!(["EVENT", forged])).await;
    refused((false, client.hear().await[3].as_str().unwrap().to_owned()), "invalid: ");
    assert!(client.publish(&request(1, JOIN, &[&["claim", &code]], "")).await.0, "the NIP does not ask for a - tag");
    refused(client.publish(&request(1, LEAVE, &[], "")).await, "invalid: a request to leave has a - tag");
    refused(client.publish(&leave(1)).await, "auth-required: ");
    client.authenticate(2, &app.url()).await;
    refused(client.publish(&leave(1)).await, "restricted: ");
    until_listed(&app, &[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_relay_publishes_its_members() {
    let app = app(MembersAlone::Nothing).await;
    decide(&app, 1, Verdict::Allow);
    until_listed(&app, &[1]).await;
    let before = app.events.live_events();
    for author in [1, RELAY] {
        let mut client = client_of(&app, author).await;
        for kind in [MEMBERS, ADDED, REMOVED, 33_534, INVITE] {
            let name = keys(2).pubkey().to_string();
            let forged = request(author, kind, &[&["-"], &["d", "x"], &["member", &name], &["p", &name]], "");
            let answer = client.publish(&forged).await;
            assert_eq!(answer, (false, "blocked: only the relay itself publishes its members".to_owned()), "{kind}");
        }
    }
    assert_eq!(app.events.live_events(), before);
    until_listed(&app, &[1]).await;
}

/// Without a `-` tag, which alone would keep them out.
#[tokio::test(flavor = "multi_thread")]
async fn no_stream_brings_events_about_the_members() {
    let app = app(MembersAlone::Nothing).await;
    let exchange = Exchange::enter(&app.relay, "stream", Ipv4Addr::LOCALHOST.into()).unwrap();
    let name = keys(2).pubkey().to_string();
    let forged = |kind| request(1, kind, &[&["d", "x"], &["member", &name], &["p", &name]], "").to_json();
    let taken = exchange.take(&[MEMBERS, ADDED, REMOVED, 33_534, 1].map(forged), &Filter::default()).await;
    let refused = |taken: &Taken| matches!(taken, Taken::Refused(Rejection::Blocked(_)));
    assert_eq!(taken.iter().map(refused).collect::<Vec<_>>(), [true, true, true, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_connections_that_use_an_invite_at_once_one_joins() {
    let app = Arc::new(app(MembersAlone::Nothing).await);
    for round in 0..10_u8 {
        let code = code_of_operator(&app);
        let racers = [20 + 2 * round, 21 + 2 * round].map(|author| {
            let (app, code) = (Arc::clone(&app), code.clone());
            tokio::spawn(async move { client_of(&app, author).await.publish(&join(author, &code)).await.0 })
        });
        let mut joined = 0;
        for racer in racers {
            joined += usize::from(racer.await.unwrap());
        }
        assert_eq!(joined, 1);
    }
    assert_eq!(app.relay.rule_book().current().members().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_are_not_guessed_fast_and_those_who_are_banned_do_not_join() {
    let limits = Limits { client_joins: Some(Rate::per_minute(3)), ..Limits::default() };
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let settings = Settings { limits, proxies, ..settings(MembersAlone::Nothing) };
    let app = app_of(settings, RuleBook::in_memory()).await;
    let (code, mut client) = (code_of_operator(&app), app.client_at("203.0.113.1").await.unwrap());
    let claim = |author, code: &str, text: &str| request(author, JOIN, &[&["claim", code]], text);
    decide(&app, 2, Verdict::Ban);
    let banned = client.publish(&claim(2, &code, "")).await;
    assert_eq!(banned, (false, "blocked: events of this author are not wanted here".to_owned()));
    for text in ["1", "2", "3"] {
        let wrong = client.publish(&claim(1, "guess", text)).await;
        assert_eq!(wrong, (false, "restricted: that is an invalid invite code.".to_owned()));
    }
    let (_, why) = client.publish(&claim(1, &code, "4")).await;
    assert!(why.starts_with("rate-limited: too many events, try again in "), "{why}");
    client.store(&event(1, 1, 1, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_reading_is_for_members_others_get_nothing_and_those_who_leave_are_cut_off() {
    let app = app(MembersAlone::PublishAndRead).await;
    assert_eq!(app.information().await["limitation"]["auth_required"], true);
    for author in [1, 2, 3] {
        decide(&app, author, Verdict::Allow);
    }
    let (mut member, mut stranger) = (client_of(&app, 1).await, app.client().await);
    let note = event(1, 1, 1, &[]);
    member.store(&note).await;
    assert_eq!(member.stored(&[json!({ "kinds": [1] })]).await, ids([&note]));
    for (verb, answer) in [("REQ", "CLOSED"), ("COUNT", "CLOSED"), ("NEG-OPEN", "NEG-ERR")] {
        let message = json!([verb, "a", { "kinds": [1] }, "6100"]);
        let message = if verb == "NEG-OPEN" { message } else { json!([verb, "a", { "kinds": [1] }]) };
        stranger.say(message).await;
        assert_eq!(stranger.hear().await, json!([answer, "a", "auth-required: only members read here"]));
    }
    stranger.authenticate(4, &app.url()).await;
    stranger.say(json!(["REQ", "a", {}])).await;
    assert_eq!(stranger.hear().await, json!(["CLOSED", "a", "restricted: only members read here"]));
    // It joins on the same connection, and reads.
    let code = code_of_operator(&app);
    assert!(stranger.publish(&join(4, &code)).await.0);
    assert_eq!(stranger.stored(&[json!({ "kinds": [1] })]).await, ids([&note]));

    let (mut left, mut banned, mut removed) = (client_of(&app, 2).await, client_of(&app, 3).await, stranger);
    let mut elsewhere = client_of(&app, 2).await;
    for client in [&mut left, &mut banned, &mut removed, &mut elsewhere] {
        client.say(json!(["REQ", "live", { "kinds": [1], "limit": 0 }])).await;
        client.hear_end("live").await;
    }
    assert_eq!(left.publish(&leave(2)).await, (true, "info: you have left this relay.".to_owned()));
    let cut_off = (1008, "only members read here".to_owned());
    assert_eq!(closed(&mut left).await, cut_off);
    assert_eq!(closed(&mut elsewhere).await, cut_off);
    decide(&app, 3, Verdict::Ban);
    assert_eq!(closed(&mut banned).await, cut_off);
    let taken_back = Change::TakeBack(Subject::Author(keys(4).pubkey()), Verdict::Allow);
    let changed = tokio::task::block_in_place(|| app.relay.rule_book().change(&taken_back, Actor::Ctl)).unwrap();
    assert_eq!(changed.disconnected, 1);
    assert_eq!(closed(&mut removed).await, cut_off);
    assert_eq!(member.count(json!({ "kinds": [1] })).await, 1, "the others stay");
    // An admin reads without being a member; a reload that takes that from it cuts it off.
    let mut admin = client_of(&app, ADMIN).await;
    assert_eq!(admin.stored(&[json!({ "kinds": [1] })]).await, ids([&note]));
    app.relay.reload(Settings { policy: Policy::default(), ..settings(MembersAlone::PublishAndRead) });
    assert_eq!(closed(&mut admin).await, cut_off);
    assert_eq!(member.count(json!({ "kinds": [1] })).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_sends_gift_wraps_whose_authors_are_no_members() {
    let app = app(MembersAlone::Publish).await;
    decide(&app, 1, Verdict::Allow);
    let (member, to) = (client_of(&app, 1).await, keys(2).pubkey().to_string());
    let (mut member, wrap) = (member, event(50, 1059, 1, &[&["p", &to]]));
    let mut stranger = client_of(&app, 2).await;
    assert_eq!(stranger.publish(&wrap).await, (false, "restricted: only members may publish here".to_owned()));
    assert!(!member.publish(&event(50, 1, 1, &[])).await.0);
    member.store(&wrap).await;
    decide(&app, 50, Verdict::Ban);
    assert_eq!(member.publish(&event(50, 1059, 2, &[&["p", &to]])).await.1.split(':').next(), Some("blocked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_while_the_relay_was_away_is_published_at_its_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let (events_folder, events) = opened(birdhouse_events::EventsOptions::default());
    std::mem::forget(Arc::clone(&events));
    let start = || {
        let rules = Arc::new(RuleBook::open(path.clone()).unwrap());
        Relay::with_rules(Arc::clone(&events), settings(MembersAlone::Nothing), rules)
    };
    let code = {
        let relay = start();
        tokio::task::block_in_place(|| relay.invite(1, 3600, Actor::Ctl)).unwrap().code
    };
    let rules = RuleBook::open(path.clone()).unwrap();
    let rule = Rule { verdict: Verdict::Allow, reason: String::new(), since: now(), until: None };
    rules.change(&Change::Decide(Subject::Author(keys(1).pubkey()), rule), Actor::Ctl).unwrap();
    let app = App::of(start(), Arc::clone(&events), events_folder, Transport::Ws, Proxy::Off).await;
    until_listed(&app, &[1]).await;
    let mut client = client_of(&app, 2).await;
    assert!(client.publish(&join(2, &code)).await.0, "an invite of before the restart");
    until_listed(&app, &[1, 2]).await;
    // Within the pause between two looks, both may be in one.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.count(json!({ "kinds": [MEMBERS] })).await, 1);
    assert_eq!(client.count(json!({ "kinds": [ADDED], "#p": [keys(2).pubkey().to_string()] })).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_as_many_members_as_there_may_be_reaches_a_client() {
    const MOST: usize = 5000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let lines: Vec<Value> = (0..=MOST)
        .map(|number| json!({ "author": format!("{number:064x}"), "verdict": "allow", "reason": "", "since": number }))
        .collect();
    let body = json!({ "name": null, "description": null, "icon": null, "rules": lines }).to_string();
    let head = format!("birdhouse-rules 1 {:08x}\n", crc32c::crc32c(body.as_bytes()));
    std::fs::write(&path, head + &body).unwrap();
    let app = app_of(settings(MembersAlone::Nothing), RuleBook::open(path).unwrap()).await;
    let relay = keys(RELAY).pubkey();
    app.until("the list", || tokio::task::block_in_place(|| app.relay.newest(Kind(MEMBERS), relay)).unwrap().is_some())
        .await;
    let mut client = client_of(&app, 1).await;
    client.say(json!(["REQ", "a", { "kinds": [MEMBERS] }])).await;
    let list = client.hear().await[2].clone();
    nostr_sdk::Event::from_json(list.to_string()).unwrap().verify().unwrap();
    let tags = list["tags"].as_array().unwrap();
    assert_eq!((tags.len(), &tags[MOST][1]), (MOST + 1, &json!(format!("{:064x}", MOST - 1))), "the earliest");
    assert!(list.to_string().len() < Limits::default().message_bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_sdk_joins_once_it_has_said_who_it_is() {
    use nostr_sdk::prelude::{Client, EventBuilder, Filter, Keys, Kind, Tag};
    let app = app(MembersAlone::PublishAndRead).await;
    decide(&app, 1, Verdict::Allow);
    let note = event(1, 1, 1, &[]);
    client_of(&app, 1).await.store(&note).await;
    let (code, own) = (code_of_operator(&app), Keys::generate());
    let client = Client::new(own.clone());
    client.add_relay(app.url()).await.unwrap();
    client.connect().await;
    client.wait_for_connection(PATIENCE).await;
    let claim = Tag::parse(["claim", &code]).unwrap();
    let request = EventBuilder::new(Kind::from(JOIN), "").tags([Tag::protected(), claim]);
    let sent = client.send_event_builder(request).await.unwrap();
    assert!(sent.failed.is_empty(), "{sent:?}");
    let found = client.fetch_events(Filter::new().kind(Kind::TextNote), PATIENCE).await.unwrap();
    assert_eq!(found.iter().map(|event| event.id.to_hex()).collect::<Vec<_>>(), [note.id.to_string()]);
    app.until("the list has it", || {
        let list =
            tokio::task::block_in_place(|| app.relay.newest(birdhouse_events::Kind(MEMBERS), keys(RELAY).pubkey()));
        list.unwrap().is_some_and(|list| list.values("member").any(|member| member == own.public_key().to_hex()))
    })
    .await;
    let list = client.fetch_events(Filter::new().kind(Kind::from(MEMBERS)), PATIENCE).await.unwrap();
    assert_eq!(list.len(), 1);
}

const SCRIPT: &str = include_str!("members.js");

#[tokio::test(flavor = "multi_thread")]
async fn nostr_tools_invites_joins_reads_the_list_and_leaves() {
    let mut settings = settings(MembersAlone::PublishAndRead);
    // The admin of the script, whose secret key is 1.
    settings.policy.admins = [birdhouse_events::Keys::from_secret({
        let mut secret = [0; 32];
        secret[31] = 1;
        secret
    })
    .unwrap()
    .pubkey()]
    .into();
    let app = app_of(settings, RuleBook::in_memory()).await;
    let Some(seen) = NOSTR_TOOLS.run::<Value>(SCRIPT, app.url()).await else { return };
    assert_eq!(seen["stranger"], "auth-required: only members read here");
    assert_eq!(seen["outsider"], "restricted: only members read here");
    assert_eq!((&seen["invite"], &seen["joined"]), (&json!([INVITE, true, true]), &json!("info: welcome!")));
    assert_eq!(seen["again"], "duplicate: you are already a member of this relay.");
    assert_eq!((&seen["list"], &seen["added"]), (&json!([true, true]), &json!([true, true])));
    assert_eq!((&seen["note"], &seen["left"]), (&json!(""), &json!("info: you have left this relay.")));
}
