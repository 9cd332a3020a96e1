//! The management API (NIP-86) over HTTP, and what its rules do to clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use birdhouse_events::{EventsOptions, Kind, SearchStorage, Tag, Timestamp, UnsignedEvent, hex};
use birdhouse_relay::{Actor, Change, Lists, Members, MembersAlone, Policy, Relay, Rule, Settings, Subject, Verdict};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::app::{App, PATIENCE, event, ids, keys, now};
use crate::sync::compare;

const ADMIN: u8 = 9;

fn managed() -> Settings {
    let policy = Policy { admins: [keys(ADMIN).pubkey()].into(), ..Policy::default() };
    Settings { policy, proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Settings::default() }
}

/// Sends a request that an author has signed, and returns status, head and body of the answer.
async fn post(app: &App, author: u8, body: &str) -> (u16, String, Value) {
    send(app, &signed(app, author, body)).await
}

/// Returns a request that an author has signed. Two of one second and body differ.
fn signed(app: &App, author: u8, body: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let tags =
        [["u", &format!("http://{}/", app.addr)], ["method", "POST"], ["payload", &hex::string(&Sha256::digest(body))]];
    let tags = tags.map(|tag| Tag(tag.map(str::to_owned).to_vec())).to_vec();
    let content = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    let proof = UnsignedEvent { created_at: Timestamp(now()), kind: Kind(27_235), tags, content };
    let token = BASE64_STANDARD.encode(proof.sign(&keys(author)).to_json());
    format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/nostr+json+rpc\r\nAuthorization: Nostr {token}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn send(app: &App, request: &str) -> (u16, String, Value) {
    let mut socket = TcpStream::connect(app.addr).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// Calls a method as the admin; returns its result.
async fn call(app: &App, method: &str, params: Value) -> Value {
    let (status, head, answer) = post(app, ADMIN, &json!({ "method": method, "params": params }).to_string()).await;
    assert_eq!(status, 200, "{answer}");
    assert!(head.contains("application/nostr+json+rpc") && head.contains("access-control-allow-origin: *"), "{head}");
    assert_eq!(answer["error"], Value::Null, "{method}");
    answer["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_is_answered_and_without_admins_there_is_no_api() {
    let app = App::start(managed()).await;
    let nips = app.information().await["supported_nips"].clone();
    assert!(nips.as_array().unwrap().ends_with(&[json!(86), json!(91), json!(98)]), "{nips}");
    let body = r#"{"method":"supportedmethods","params":[]}"#;
    let (status, _, answer) = post(&app, ADMIN, body).await;
    assert_eq!(status, 200);
    assert!(answer["result"].as_array().unwrap().contains(&json!("banpubkey")), "{answer}");
    let (status, head, answer) = post(&app, 1, body).await;
    assert_eq!((status, answer), (401, json!({ "error": "only an admin may do this" })));
    assert!(head.contains("www-authenticate: Nostr"), "{head}");
    let unsigned =
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/nostr+json+rpc\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(send(&app, unsigned).await.0, 401);
    let long = unsigned.replace("Length: 2", "Length: 1000000");
    assert_eq!(send(&app, &format!("{long}{}", " ".repeat(16 * 1024))).await.0, 413);
    assert_eq!(post(&app, ADMIN, "[]").await.0, 400);
    for (call, why) in [
        (json!({ "method": "fly" }), "no such method"),
        (json!({ "method": "banpubkey" }), "public key"),
        (json!({ "method": "banpubkey", "params": ["npub"] }), "public key"),
        (json!({ "method": "allowkind", "params": [70_000] }), "number of a kind"),
        (json!({ "method": "blockip", "params": ["birds.example"] }), "IP address"),
        (json!({ "method": "changerelayname", "params": ["x".repeat(2000)] }), "use at most 1024"),
    ] {
        let (status, _, answer) = post(&app, ADMIN, &call.to_string()).await;
        assert!(status == 200 && answer["error"].as_str().unwrap().contains(why), "{answer}");
    }
    let preflight = app.ask("OPTIONS /", "*/*").await;
    assert!(preflight.contains("access-control-allow-headers: authorization"), "{preflight}");

    let app = App::start(Settings::default()).await;
    assert_eq!(post(&app, ADMIN, body).await.0, 405);
    assert!(!app.information().await["supported_nips"].as_array().unwrap().contains(&json!(86)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_author_is_refused_and_hidden_until_the_ban_is_taken_back() {
    let app = App::start(managed()).await;
    let mut client = app.client().await;
    let notes: Vec<_> = (0..20).map(|second| event(1 + u8::from(second % 2 == 1), 1, second, &[])).collect();
    for note in &notes {
        client.store(note).await;
    }
    let (author, name) = (keys(1).pubkey().to_string(), "listbannedpubkeys");
    assert_eq!(call(&app, "banpubkey", json!([author, "spam"])).await, true);
    assert_eq!(call(&app, name, json!([])).await, json!([{ "pubkey": author, "reason": "spam" }]));
    let others: Vec<_> = notes.iter().rev().filter(|note| note.pubkey == keys(2).pubkey()).collect();
    assert_eq!(client.stored(&[json!({})]).await, ids(others.iter().copied()));
    assert_eq!(client.stored(&[json!({ "limit": 7 })]).await, ids(others[..7].iter().copied()), "as many as asked for");
    assert_eq!(client.stored(&[json!({ "ids": [notes[0].id.to_string()] })]).await, [""; 0]);
    assert_eq!((client.count(json!({})).await, client.count(json!({ "authors": [author] })).await), (10, 0));
    assert_eq!(client.publish(&event(1, 1, 50, &[])).await.1, "blocked: events of this author are not wanted here");

    assert_eq!(call(&app, "allowevent", json!([notes[0].id.to_string()])).await, true);
    assert_eq!(client.count(json!({ "authors": [author] })).await, 1, "one event of a banned author");
    assert_eq!(call(&app, "banevent", json!([notes[1].id.to_string()])).await, true);
    assert_eq!(client.count(json!({})).await, 10);
    assert_eq!(client.publish(&notes[1]).await.1, "blocked: this event is not wanted here");

    assert_eq!(call(&app, "unbanpubkey", json!([author])).await, true);
    assert_eq!(call(&app, "unbanevent", json!([notes[1].id.to_string()])).await, true);
    assert_eq!(client.stored(&[json!({})]).await, ids(notes.iter().rev()), "nothing was deleted");
    client.store(&event(1, 1, 51, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_author_or_kind_is_an_exception_to_the_lists() {
    let mut settings = managed();
    settings.policy.authors = Lists { allow: Some([keys(1).pubkey()].into()), ..Lists::default() };
    settings.policy.kinds = Lists { allow: None, deny: vec![7..=7] };
    let app = App::start(settings).await;
    let mut client = app.client().await;
    assert!(client.publish(&event(2, 1, 1, &[])).await.1.starts_with("restricted: "));
    call(&app, "allowpubkey", json!([keys(2).pubkey().to_string()])).await;
    call(&app, "allowkind", json!([7])).await;
    call(&app, "disallowkind", json!([1])).await;
    client.store(&event(2, 7, 2, &[])).await;
    assert!(client.publish(&event(1, 1, 3, &[])).await.1.starts_with("blocked: "));
    assert_eq!(
        [call(&app, "listallowedkinds", json!([])).await, call(&app, "listdisallowedkinds", json!([])).await],
        [json!([7]), json!([1])]
    );
    call(&app, "unallowpubkey", json!([keys(2).pubkey().to_string()])).await;
    assert!(client.publish(&event(2, 7, 4, &[])).await.1.starts_with("restricted: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_address_is_disconnected_at_once_even_if_it_reads_nothing() {
    let app = App::start(managed()).await;
    let mut writer = app.client_at("198.51.100.1").await.unwrap();
    for second in 0..400 {
        writer.store(&event(1, 1, second, &[&["blob", &"long".repeat(5000)]])).await;
    }
    let mut bystander = app.client_at("203.0.113.77").await.unwrap();
    let mut reader = app.client_at("203.0.113.7").await.unwrap();
    let mut deaf = app.client_at("203.0.113.8").await.unwrap();
    deaf.say(json!(["REQ", "all", {}])).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    for address in ["203.0.113.7", "203.0.113.8/31"] {
        assert_eq!(call(&app, "blockip", json!([address])).await, true);
    }
    app.until("both are gone", || app.relay.overview().connections == 2).await;
    let last = timeout(PATIENCE, reader.socket.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(&last, Message::Close(Some(frame)) if u16::from(frame.code) == 1008), "{last:?}");
    assert_eq!(app.client_at("203.0.113.9").await.err(), Some(403));
    let mut blocked = call(&app, "listblockedips", json!([])).await;
    blocked.as_array_mut().unwrap().sort_by_key(|ip| ip["ip"].to_string());
    assert_eq!((&blocked[0]["ip"], &blocked[1]["ip"]), (&json!("203.0.113.7"), &json!("203.0.113.8/31")));
    assert_eq!(bystander.count(json!({})).await, 400);
    call(&app, "unblockip", json!(["203.0.113.7"])).await;
    app.client_at("203.0.113.7").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_for_a_time_ends_by_itself_and_the_log_names_the_admin() {
    let app = App::start(managed()).await;
    let mut client = app.client().await;
    client.store(&event(1, 1, 1, &[])).await;
    let (author, id) = (keys(1).pubkey().to_string(), event(1, 1, 1, &[]).id.to_string());
    let (soon, later) = (now() + 6, now() + 3600);
    assert_eq!(call(&app, "banpubkey", json!([author, "spam", soon])).await, true);
    assert_eq!(call(&app, "banevent", json!([id, null, later.to_string()])).await, true);
    assert_eq!(call(&app, "blockip", json!(["203.0.113.0/24", "scans", soon])).await, true);
    let banned = json!([{ "pubkey": author, "reason": "spam", "until": soon }]);
    assert_eq!(call(&app, "listbannedpubkeys", json!([])).await, banned);
    let listed = json!([{ "id": id, "reason": "", "until": later }]);
    assert_eq!(call(&app, "listbannedevents", json!([])).await, listed);
    assert!(client.publish(&event(1, 1, 2, &[])).await.1.starts_with("blocked: "));
    assert_eq!(app.client_at("203.0.113.7").await.err(), Some(403));
    let (milliseconds, other) = (json!(now() * 1000), keys(2).pubkey().to_string());
    for (until, why) in [
        (json!(now() - 1), "in the past"),
        (json!("tomorrow"), "number of seconds"),
        (json!(-5), "number"),
        (milliseconds, "in seconds"),
    ] {
        let body = json!({ "method": "banpubkey", "params": [author, "", until] }).to_string();
        let (_, _, answer) = post(&app, ADMIN, &body).await;
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{answer}");
    }
    let body = json!({ "method": "allowpubkey", "params": [other, "", later] }).to_string();
    let (_, _, answer) = post(&app, ADMIN, &body).await;
    assert!(answer["error"].as_str().is_some_and(|error| error.contains("no end")), "{answer}");

    app.until("the bans have ended", || app.relay.rule_book().current().len() == 1).await;
    assert!(now() > soon, "not before their last second was over");
    assert_eq!(call(&app, "listbannedpubkeys", json!([])).await, json!([]));
    assert_eq!(call(&app, "listblockedips", json!([])).await, json!([]));
    app.client_at("203.0.113.7").await.unwrap();
    client.store(&event(1, 1, 2, &[])).await;
    assert_eq!(client.count(json!({ "authors": [author] })).await, 1, "the event is banned for longer");
    let log = tokio::task::block_in_place(|| app.relay.rule_book().audit()).unwrap();
    let actors: Vec<_> = log.iter().map(|one| (one.entry.number, one.entry.actor, one.is_undoable)).collect();
    let admin = Actor::Admin(keys(ADMIN).pubkey());
    assert_eq!(
        actors,
        [(5, Actor::Expiry, false), (4, Actor::Expiry, false), (3, admin, false), (2, admin, true), (1, admin, false),]
    );
    assert!(log[2..].iter().any(|one| one.entry.number == 1 && matches!(one.ended_by, Some(4 | 5))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_ban_does_not_come_back_after_it_was_taken_back() {
    let app = App::start(managed()).await;
    let author = keys(1).pubkey().to_string();
    let ban = signed(&app, ADMIN, &json!({ "method": "banpubkey", "params": [author] }).to_string());
    let (status, _, answer) = send(&app, &ban).await;
    assert_eq!((status, &answer["result"]), (200, &json!(true)));
    assert_eq!(call(&app, "unbanpubkey", json!([author])).await, true);
    let (status, _, answer) = send(&app, &ban).await;
    assert_eq!(status, 401, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("before"), "{answer}");
    assert_eq!(call(&app, "listbannedpubkeys", json!([])).await, json!([]));
    // The query of the URL is signed, too.
    let elsewhere = signed(&app, ADMIN, "{}").replace("POST / ", "POST /?a=1 ");
    let (status, _, answer) = send(&app, &elsewhere).await;
    assert!(status == 401 && answer["error"].as_str().unwrap().contains("u tag"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_bans_neither_the_own_address_nor_a_large_part_of_all_clients() {
    let app = App::start(managed()).await;
    // Requests without a header of the proxy are those of this address.
    for (network, why) in [
        ("127.0.0.1", "your own address"),
        ("127.0.0.0/8", "your own address"),
        ("0.0.0.0/0", "your own address"),
        ("128.0.0.0/1", "at least /8"),
        ("2000::/3", "/16"),
    ] {
        let body = json!({ "method": "blockip", "params": [network] }).to_string();
        let (status, _, answer) = post(&app, ADMIN, &body).await;
        assert!(status == 200 && answer["error"].as_str().is_some_and(|error| error.contains(why)), "{answer}");
    }
    assert_eq!(call(&app, "listblockedips", json!([])).await, json!([]));
    assert_eq!(call(&app, "blockip", json!(["203.0.113.0/24"])).await, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_the_information_document_change() {
    let app = App::start(managed()).await;
    for (method, text) in [
        ("changerelayname", "Nest"),
        ("changerelaydescription", "Ours"),
        ("changerelayicon", "https://birds.example/i"),
    ] {
        assert_eq!(call(&app, method, json!([text])).await, true);
    }
    let information = app.information().await;
    assert_eq!(
        (&information["name"], &information["description"], &information["icon"]),
        (&json!("Nest"), &json!("Ours"), &json!("https://birds.example/i"))
    );
    call(&app, "changerelayname", json!([""])).await;
    assert_eq!(app.information().await["name"], "Birdhouse");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_hide_events_from_searches_and_from_synchronisation() {
    let options = EventsOptions { search: SearchStorage::Memory, ..EventsOptions::default() };
    let app = App::start_with(managed(), options).await;
    let mut client = app.client().await;
    for second in 0..4 {
        client.store(&event(1 + u8::from(second % 2 == 1), 1, second, &[])).await;
    }
    let relay: &Arc<Relay> = &app.relay;
    let rule = Rule { verdict: Verdict::Ban, reason: String::new(), since: 0, until: None };
    assert!(
        relay
            .rule_book()
            .change(&Change::Decide(Subject::Author(keys(1).pubkey()), rule), Actor::Ctl)
            .unwrap()
            .is_changed
    );
    assert_eq!(client.stored(&[json!({ "search": "0" })]).await, [""; 0]);
    assert_eq!(client.stored(&[json!({ "search": "1" })]).await.len(), 1);
    let (_, lacking) = compare(&mut client, &json!({}), std::iter::empty()).await;
    assert_eq!(lacking.len(), 2);
}

/// Tags and types are those of NIP-56's examples.
#[tokio::test(flavor = "multi_thread")]
async fn reported_events_wait_for_an_admin_and_reports_alone_decide_nothing() {
    let app = App::start(managed()).await;
    let mut client = app.client().await;
    let notes: Vec<_> = (0..3).map(|second| event(1, 1, second, &[])).collect();
    for note in &notes {
        client.store(note).await;
    }
    let author = keys(1).pubkey().to_string();
    let [first, second, third] = [0, 1, 2].map(|at: usize| notes[at].id.to_string());
    let unknown = "ab".repeat(32);
    let report =
        |by: u8, second: u64, id: &str, why: &str| event(by, 1984, second, &[&["e", id, why], &["p", &author]]);
    for report in [
        report(2, 10, &first, "spam"),
        report(2, 11, &first, "spam"),
        report(3, 12, &first, "illegal"),
        report(4, 13, &first, "spam"),
        report(2, 14, &second, "nudity"),
        report(5, 15, &third, "malware"),
        report(2, 16, &unknown, "spam"),
        event(2, 1984, 17, &[&["p", &author, "impersonation"]]),
    ] {
        client.store(&report).await;
    }
    let name = "listeventsneedingmoderation";
    let line = |id: &str, reason: &str| json!({ "id": id, "reason": reason });
    let waiting = call(&app, name, json!([])).await;
    // The event that is not stored is not there, and one author counts once.
    assert_eq!(waiting, json!([line(&first, "spam 2, illegal"), line(&third, "malware"), line(&second, "nudity")]));
    assert_eq!(client.count(json!({ "authors": [author], "kinds": [1] })).await, 3);
    let of_author: Vec<_> = app.relay.reported().unwrap().into_iter().filter(|one| one.kind.is_none()).collect();
    assert_eq!((of_author.len(), of_author[0].reason().as_str()), (1, "impersonation"));

    assert_eq!(call(&app, "allowevent", json!([second])).await, true);
    assert_eq!(call(&app, "banpubkey", json!([keys(5).pubkey().to_string()])).await, true, "a reporter");
    assert_eq!(call(&app, name, json!([])).await, json!([line(&first, "spam 2, illegal")]));
    assert_eq!(call(&app, "banevent", json!([first])).await, true);
    assert_eq!(call(&app, name, json!([])).await, json!([]));
    assert_eq!(call(&app, "unbanevent", json!([first])).await, true);
    assert_eq!(call(&app, name, json!([])).await, json!([line(&first, "spam 2, illegal")]));
}

/// A short form of two rows of `birdhouse-bench relay-attack`: searches among large events that find nothing, and one
/// request of an admin, overheard and sent again.
#[tokio::test(flavor = "multi_thread")]
async fn others_are_answered_while_strangers_search_and_replay_a_request_of_the_admin() {
    let options = EventsOptions { search: SearchStorage::Memory, ..EventsOptions::default() };
    let app = App::start_with(managed(), options).await;
    let large = |second: u64| {
        let created_at = Timestamp(1_700_000_000 + second);
        let content = "owl nest ".repeat(12_000);
        UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys(1))
    };
    let large: Vec<_> = (0..32).map(large).collect();
    app.events.accept(&large.iter().collect::<Vec<_>>()).unwrap();
    let mut attacks = tokio::task::JoinSet::new();
    for searcher in 0..4 {
        let mut client = app.client().await;
        attacks.spawn(async move {
            for number in 0..8 {
                let absent = json!({ "search": format!("owl absent{searcher}x{number}") });
                assert!(client.stored(&[absent]).await.is_empty());
            }
        });
    }
    let overheard = signed(&app, ADMIN, r#"{"method":"supportedmethods","params":[]}"#);
    assert_eq!(send(&app, &overheard).await.0, 200);
    let mut honest = app.client().await;
    for second in 0..20 {
        let note = event(2, 1, second, &[]);
        honest.store(&note).await;
        assert_eq!(honest.stored(&[json!({ "ids": [note.id.to_string()] })]).await, [note.id.to_string()]);
        assert_eq!(send(&app, &overheard).await.0, 401, "a request that was answered before");
    }
    while let Some(attack) = attacks.join_next().await {
        attack.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_made_and_given_where_the_relay_has_members() {
    const METHODS: [&str; 5] = ["createrole", "editrole", "deleterole", "assignrole", "unassignrole"];
    let supported = async |app: &App| {
        let all = call(app, "supportedmethods", json!([])).await;
        METHODS.map(|method| all.as_array().unwrap().contains(&json!(method)))
    };
    let app = App::start(managed()).await;
    assert_eq!(supported(&app).await, [false; 5]);
    let members = Members { keys: Arc::new(keys(7)), alone: MembersAlone::Nothing };
    let app = App::start(Settings { members: Some(members), ..managed() }).await;
    assert_eq!(supported(&app).await, [true; 5]);

    let member = keys(1).pubkey().to_string();
    call(&app, "allowpubkey", json!([member, "a friend"])).await;
    assert_eq!(call(&app, "createrole", json!(["28b7e50f", "king", "ruler of the relay", "37", 1])).await, true);
    call(&app, "createrole", json!(["jester", null, "", 300])).await;
    call(&app, "assignrole", json!([member, "28b7e50f"])).await;
    call(&app, "assignrole", json!([member, "jester"])).await;
    call(&app, "assignrole", json!([member, "jester"])).await;
    call(&app, "unassignrole", json!([member, "28b7e50f"])).await;
    call(&app, "editrole", json!(["jester", "fool", null, null, "-2"])).await;
    for (method, params, why) in [
        ("createrole", json!(["jester"]), "there is a role of this id"),
        ("createrole", json!([]), "the id of a role is a text"),
        ("createrole", json!(["a", "b", "c", "red"]), "a hue from 0 to 360"),
        ("createrole", json!(["a", "b", "c", 361]), "a hue from 0 to 360"),
        ("createrole", json!(["a", "b", "c", 1.5]), "a hue from 0 to 360"),
        ("createrole", json!(["a", 7]), "are texts"),
        ("editrole", json!(["a"]), "no role of this id"),
        ("assignrole", json!([member, "a"]), "no role of this id"),
        ("assignrole", json!([keys(2).pubkey().to_string(), "jester"]), "only members have roles"),
        ("assignrole", json!(["me", "jester"]), "public key"),
    ] {
        let (_, _, answer) = post(&app, ADMIN, &json!({ "method": method, "params": params }).to_string()).await;
        assert!(answer["error"].as_str().unwrap().contains(why), "{method} {params}: {answer}");
    }

    let (mut client, relay) = (app.client().await, keys(7).pubkey());
    let list = || tokio::task::block_in_place(|| app.relay.newest(Kind(13_534), relay)).unwrap();
    let has_role = || list().is_some_and(|list| list.tags.last().unwrap().0 == ["member", &member, "jester"]);
    app.until("the member has one role", has_role).await;
    client.say(json!(["REQ", "roles", { "kinds": [33_534], "authors": [relay.to_string()] }])).await;
    let mut roles = [client.hear().await[2]["tags"].clone(), client.hear().await[2]["tags"].clone()];
    roles.sort_by_key(Value::to_string);
    let king = json!([
        ["-"],
        ["d", "28b7e50f"],
        ["label", "king"],
        ["description", "ruler of the relay"],
        ["color", "37"],
        ["order", "1"]
    ]);
    assert_eq!(roles, [king, json!([["-"], ["d", "jester"], ["label", "fool"], ["order", "-2"]])]);
    client.hear_end("roles").await;
    client.say(json!(["CLOSE", "roles"])).await;

    call(&app, "deleterole", json!(["jester"])).await;
    app.until("the member has none", || list().is_some_and(|list| list.tags.last().unwrap().0 == ["member", &member]))
        .await;
    assert_eq!(client.count(json!({ "kinds": [33_534] })).await, 1, "the other one");
    // It is made again after its deletion.
    call(&app, "createrole", json!(["jester"])).await;
    let roles = json!({ "kinds": [33_534] });
    let again = async {
        while client.count(roles.clone()).await < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("the role again");
}
