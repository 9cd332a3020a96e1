//! Hints that an answer is complete (NIP-67), and counts that can be merged (NIP-45).

use std::collections::BTreeSet;

use birdhouse_events::{Pubkey, VerifiedEvent};
use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::{App, event};

#[tokio::test(flavor = "multi_thread")]
async fn eose_says_whether_stored_events_were_left_out() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    // More than two pages, of which some share their second.
    let notes: Vec<VerifiedEvent> = (0..1200).map(|n| event(1, 1, n / 3, &[&["n", &n.to_string()]])).collect();
    app.events.accept(&notes.iter().collect::<Vec<_>>()).unwrap();
    let ids: Vec<String> = notes[..5].iter().map(|note| note.id.to_string()).collect();
    for (filters, events, hint) in [
        (vec![json!({})], 1200, json!(["finish"])),
        (vec![json!({ "limit": 1200 })], 1200, json!(["finish"])),
        (vec![json!({ "limit": 1199 })], 1199, json!(["more"])),
        (vec![json!({ "limit": 5000 })], 1200, json!(["finish"])),
        (vec![json!({ "limit": 500 })], 500, json!(["more"])),
        (vec![json!({ "limit": 1 })], 1, json!(["more"])),
        (vec![json!({ "limit": 0 })], 0, Value::Null),
        (vec![json!({ "ids": ids })], 5, json!(["finish"])),
        (vec![json!({ "ids": ids, "limit": 5 })], 5, json!(["finish"])),
        (vec![json!({ "ids": ids, "limit": 4 })], 4, json!(["more"])),
        (vec![json!({ "kinds": [9] })], 0, json!(["finish"])),
        (vec![json!({ "limit": 3 }), json!({ "kinds": [9] })], 3, json!(["more"])),
        (vec![json!({ "kinds": [9], "limit": 3 }), json!({})], 1200, json!(["finish"])),
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
