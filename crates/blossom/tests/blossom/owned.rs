//! Lists and deletions, for owners alone (BUD-12).

use serde_json::Value;

use crate::client::{ask, get, upload};
use crate::running::{Given, Running, authorization, hash_of, keys};

#[test]
fn a_key_lists_its_own_files_page_by_page() {
    let running = Running::start(Given::default());
    let addr = running.addr;
    for number in 0..5_u8 {
        upload(addr, 1, &[number]);
    }
    upload(addr, 2, b"another's");
    let (own, other) = (authorization(1, "list", &[]), authorization(2, "list", &[]));
    let path = format!("/list/{}", keys(1).pubkey());
    let list = |query: &str| ask(addr, "GET", &format!("{path}{query}"), &[("Authorization", &own)]);
    let hashes = |value: &Value| {
        value.as_array().unwrap().iter().map(|one| one["sha256"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = hashes(&list("").json());
    assert_eq!(all.len(), 5);
    let first = hashes(&list("?limit=2").json());
    let rest = hashes(&list(&format!("?limit=10&cursor={}", first[1])).json());
    assert_eq!([first, rest].concat(), all);
    assert_eq!(list("?until=1").json(), Value::Array(Vec::new()));
    for (query, status) in
        [("?limit=x", 400), ("?cursor=abc", 400), (&*format!("?cursor={}", hash_of(b"another's")), 400)]
    {
        assert_eq!(list(query).status, status, "{query}");
    }
    assert_eq!(ask(addr, "GET", &path, &[]).status, 401);
    assert_eq!(ask(addr, "GET", &path, &[("Authorization", &other)]).status, 403, "no list for strangers");
    assert_eq!(ask(addr, "GET", "/list/abc", &[("Authorization", &own)]).status, 400);
    let uploads = authorization(1, "upload", &[hash_of(&[0])]);
    assert_eq!(ask(addr, "GET", &path, &[("Authorization", &uploads)]).status, 401);
}

#[test]
fn an_owner_deletes_its_part_and_the_last_one_the_file() {
    let running = Running::start(Given::default());
    let (addr, hash, second) = (running.addr, hash_of(b"shared"), hash_of(b"second"));
    for key in [1, 2] {
        upload(addr, key, b"shared");
    }
    upload(addr, 1, b"second");
    let delete = |key, hashes: &[_]| {
        let authorization = authorization(key, "delete", hashes);
        ask(addr, "DELETE", &format!("/{hash}"), &[("Authorization", &authorization)]).status
    };
    assert_eq!(ask(addr, "DELETE", &format!("/{hash}"), &[]).status, 401);
    assert_eq!([delete(1, &[]), delete(1, &[second]), delete(3, &[hash])], [401, 401, 403]);
    assert_eq!((delete(1, &[hash, second]), get(addr, hash).status), (204, 200));
    assert_eq!(get(addr, second).status, 200, "several x tags delete one file");
    assert_eq!((delete(1, &[hash]), delete(2, &[hash]), get(addr, hash).status), (403, 204, 404));
    assert_eq!(delete(2, &[hash]), 404);
    // Whoever may not upload any more deletes still.
    running.owner.banned.lock().unwrap().push(keys(1).pubkey());
    let authorization = authorization(1, "delete", &[second]);
    assert_eq!(ask(addr, "DELETE", &format!("/{second}.txt"), &[("Authorization", &authorization)]).status, 204);
    assert_eq!(running.server.overview().total.files, 0);
}
