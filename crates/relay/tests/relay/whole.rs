//! Hints that an answer is complete (NIP-67), and counts that can be merged (NIP-45).

use std::collections::BTreeSet;

use birdhouse_events::{Pubkey, VerifiedEvent};
use birdhouse_relay::{EoseHints, Settings};
use serde_json::{Value, json};

use crate::app::{App, Client, event, keys};

fn hinting() -> Settings {
    Settings { eose_hints: EoseHints::On, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_eose_is_that_of_nip_01() {
    let app = App::start_filled(Settings::default(), &[event(1, 1, 1, &[])]).await;
    let mut client = app.client().await;
    // Complete, cut off by a limit, and perhaps without private messages.
    for filter in [json!({ "kinds": [1] }), json!({ "kinds": [1], "limit": 0 }), json!({})] {
        client.say(json!(["REQ", "a", filter])).await;
        let end = loop {
            let message = client.hear().await;
            if message[0] != "EVENT" {
                break message;
            }
        };
        assert_eq!(end, json!(["EOSE", "a"]), "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_are_listed_while_they_are_on() {
    for (settings, are_on) in [(Settings::default(), false), (hinting(), true)] {
        let listed = App::start(settings).await.information().await["supported_nips"].clone();
        assert_eq!(listed.as_array().unwrap().contains(&json!(67)), are_on, "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eose_says_whether_stored_events_were_left_out() {
    let app = App::start(hinting()).await;
    let mut client = app.client().await;
    // More than two pages, of which some share their second.
    let notes: Vec<VerifiedEvent> = (0..1200).map(|n| event(1, 1, n / 3, &[&["n", &n.to_string()]])).collect();
    app.events.accept(&notes.iter().collect::<Vec<_>>()).unwrap();
    let ids: Vec<String> = notes[..5].iter().map(|note| note.id.to_string()).collect();
    for (filters, events, hint) in [
        (vec![json!({ "kinds": [1] })], 1200, json!(["finish"])),
        (vec![json!({ "kinds": [1], "limit": 1200 })], 1200, json!(["finish"])),
        (vec![json!({ "kinds": [1], "limit": 1199 })], 1199, json!(["more"])),
        (vec![json!({ "kinds": [1], "limit": 5000 })], 1200, json!(["finish"])),
        (vec![json!({ "kinds": [1], "limit": 500 })], 500, json!(["more"])),
        (vec![json!({ "kinds": [1], "limit": 1 })], 1, json!(["more"])),
        (vec![json!({ "kinds": [1], "limit": 0 })], 0, Value::Null),
        (vec![json!({ "ids": ids })], 5, json!(["finish"])),
        (vec![json!({ "ids": ids, "limit": 5 })], 5, json!(["finish"])),
        (vec![json!({ "ids": ids, "limit": 4, "kinds": [1] })], 4, json!(["more"])),
        (vec![json!({ "kinds": [9] })], 0, json!(["finish"])),
        (vec![json!({ "limit": 3, "kinds": [1] }), json!({ "kinds": [9] })], 3, json!(["more"])),
        (vec![json!({ "kinds": [9], "limit": 3 }), json!({ "kinds": [1] })], 1200, json!(["finish"])),
        // Private messages may be among them, whatever is there: NIP-67 as proposed with `auth`.
        (vec![json!({})], 1200, json!(["auth"])),
        (vec![json!({ "limit": 1199 })], 1199, json!(["more", "auth"])),
        (vec![json!({ "kinds": [1, 4] })], 1200, json!(["auth"])),
        (vec![json!({ "kinds": [9] }), json!({ "kinds": [1, 1059], "#p": [ids[0]] })], 0, json!(["auth"])),
        (vec![json!({ "ids": [ids[0], "0".repeat(64)] })], 1, json!(["auth"])),
    ] {
        let mut message = vec![json!("REQ"), json!("a")];
        message.extend_from_slice(&filters);
        client.say(Value::from(message)).await;
        let mut heard = 0;
        let end = loop {
            let message = client.hear().await;
            if message[0] == "EOSE" {
                break message;
            }
            heard += 1;
        };
        assert_eq!((heard, &end[2]), (events, &hint), "{filters:?}");
        client.say(json!(["CLOSE", "a"])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_to_be_complete_while_private_messages_are_held_back() {
    let app = App::start(hinting()).await;
    let recipient = keys(2).pubkey().to_string();
    let (note, letter) = (event(1, 1, 1, &[]), event(1, 4, 2, &[&["p", &recipient]]));
    app.events.accept(&[&note, &letter]).unwrap();
    let mut client = app.client().await;
    let mixed = json!({ "kinds": [1, 4] });
    let for_recipient = json!({ "kinds": [4], "#p": [recipient] });
    let asked = async |client: &mut Client, filter: &Value| {
        client.say(json!(["REQ", "a", filter])).await;
        let mut seen = Vec::new();
        loop {
            let message = client.hear().await;
            if message[0] != "EVENT" {
                return (seen.len(), message[0].clone(), message[2].clone());
            }
            seen.push(message);
        }
    };
    assert_eq!(asked(&mut client, &mixed).await, (1, json!("EOSE"), json!(["auth"])), "before AUTH");
    let (_, verb, why) = asked(&mut client, &for_recipient).await;
    assert!(verb == "CLOSED" && why.as_str().unwrap().starts_with("auth-required: "), "{why}");
    client.authenticate(3, &app.url()).await;
    assert_eq!(asked(&mut client, &for_recipient).await, (0, json!("EOSE"), json!(["auth"])), "as somebody else");
    client.authenticate(2, &app.url()).await;
    assert_eq!(asked(&mut client, &for_recipient).await, (1, json!("EOSE"), json!(["finish"])), "as the recipient");
    assert_eq!(asked(&mut client, &mixed).await, (2, json!("EOSE"), json!(["auth"])), "others have messages, too");
}

/// The registers that NIP-45 describes, bit by bit.
fn registers(offset: usize, authors: &BTreeSet<Pubkey>) -> String {
    let mut registers = [0_u8; 256];
    for author in authors {
        let bit = |index: usize| author.0[offset + 1 + index / 8] >> (7 - index % 8) & 1;
        let zeros = u8::try_from((0..64).find(|index| bit(*index) == 1).unwrap()).unwrap() + 1;
        let register = &mut registers[usize::from(author.0[offset])];
        *register = zeros.max(*register);
    }
    birdhouse_events::hex::string(&registers)
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_one_tag_come_with_a_hyperloglog_value() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let id = format!("{}c{}", "a".repeat(32), "b".repeat(31));
    let reactions: Vec<VerifiedEvent> =
        (0..600_u64).map(|n| event(1 + u8::try_from(n % 200).unwrap(), 7, n, &[&["e", &id]])).collect();
    app.events.accept(&reactions.iter().collect::<Vec<_>>()).unwrap();
    let authors = reactions.iter().map(|reaction| reaction.pubkey).collect();
    client.say(json!(["COUNT", "a", { "kinds": [7], "#e": [id] }])).await;
    let expected = json!({ "count": 600, "hll": registers(0xc + 8, &authors) });
    assert_eq!(client.hear().await, json!(["COUNT", "a", expected]));
    client.say(json!(["COUNT", "a", { "kinds": [7], "#e": [id, "0".repeat(64)] }])).await;
    assert_eq!(client.hear().await, json!(["COUNT", "a", { "count": 600 }]));
}
