//! The token, and what other web pages may not do.

use crate::world::{TOKEN, World};

#[test]
fn nothing_but_the_page_of_an_invoice_is_answered_without_the_token() {
    let world = World::start(41);
    world.sync();
    let server = &world.server;
    for path in ["/", "/wallets", "/stream", "/openapi.json", "/nothing", "/invoices", "/labels"] {
        let refused = server.get_with(path, &[]);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").is_some_and(|value| value.starts_with("Basic ")));
    }
    let wrong = format!("Bearer {}", TOKEN.replace('0', "1"));
    assert_eq!(server.get_with("/wallets", &[("Authorization", &wrong)]).status, 401);
    // BWT's clients send it as a password.
    let basic = "Basic YW55OjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm";
    assert_eq!(server.get_with("/wallets", &[("Authorization", basic)]).status, 200);
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.post("/wallets", "").status, 405);
    let document = server.json("/openapi.json");
    assert!(document["paths"].as_object().is_some_and(|paths| paths.len() > 40));
}

#[test]
fn another_web_page_cannot_use_the_password_that_a_browser_adds() {
    let world = World::start(42);
    world.sync();
    let order = "{\"wallet\":\"Shop\",\"amount\":1}";
    for header in [("Origin", "http://other.example"), ("Sec-Fetch-Site", "cross-site")] {
        assert_eq!(world.server.post_with("/invoices", order, &[header]).status, 403, "{header:?}");
    }
    assert_eq!(world.server.post("/invoices", order).status, 201);
    let got = world.server.get("/wallets");
    assert!(got.header("access-control-allow-origin").is_none() && got.header("cache-control") == Some("no-store"));
}

#[test]
fn a_body_without_an_end_is_refused() {
    let world = World::start(43);
    world.sync();
    let large = "x".repeat(9 << 20);
    assert_eq!(world.server.post("/labels", &large).status, 413);
}
