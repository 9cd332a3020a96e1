//! Uploads and downloads as the specification has them (BUD-01, 02, 06), and their refusals.

use birdhouse_blossom::{Limits, MediaTypes};
use serde_json::json;

use crate::client::{Client, ask, get, put, upload, upload_as};
use crate::running::{Given, NOW, Running, authorization, hash_of, keys};

#[test]
fn a_blob_is_created_once_and_read_by_its_hash() {
    let running = Running::start(Given { url: Some("https://media.example.org"), ..Given::default() });
    let (addr, body, hash) = (running.addr, b"hello blossom", hash_of(b"hello blossom"));
    let descriptor = json!({
        "url": format!("https://media.example.org/{hash}.txt"),
        "sha256": hash.to_string(),
        "size": 13,
        "type": "text/plain",
        "uploaded": NOW,
    });
    let created = upload(addr, 1, body);
    assert_eq!(
        (created.status, created.json(), created.header("content-type")),
        (201, descriptor.clone(), Some("application/json"))
    );
    let again = upload(addr, 1, body);
    assert_eq!((again.status, again.json()), (200, descriptor.clone()));
    let other = upload_as(addr, 2, body, "image/png");
    assert_eq!((other.status, other.json()), (200, descriptor), "the type is that of the first upload");
    for path in [format!("/{hash}"), format!("/{hash}.txt"), format!("/{hash}.pdf"), format!("/{hash}.tar.gz")] {
        let got = ask(addr, "GET", &path, &[]);
        assert_eq!((got.status, &got.body[..], got.header("content-type")), (200, &body[..], Some("text/plain")));
        assert_eq!((got.header("accept-ranges"), got.header("content-length")), (Some("bytes"), Some("13")));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        let head = ask(addr, "HEAD", &path, &[]);
        assert_eq!(head.status, 200);
        for name in ["content-type", "content-length", "accept-ranges", "etag", "cache-control"] {
            assert_eq!(head.header(name), got.header(name), "{name}");
        }
        let tag = got.header("etag").unwrap();
        for method in ["GET", "HEAD"] {
            let same = ask(addr, method, &path, &[("If-None-Match", tag)]);
            assert_eq!((same.status, same.header("content-length"), same.header("etag")), (304, None, Some(tag)));
        }
        assert_eq!(ask(addr, "GET", &path, &[("If-None-Match", "\"other\"")]).status, 200);
    }
    assert_eq!(running.server.overview().counts.uploads, 3);
    // Without X-SHA-256 the hash is that of the body.
    let authorization = authorization(1, "upload", &[hash_of(b"no header")]);
    let created = put(addr, "/upload", b"no header", &[("Authorization", &authorization)]);
    assert_eq!((created.status, created.json()["type"].as_str()), (201, Some("application/octet-stream")));
    assert_eq!(created.json()["url"].as_str().unwrap().rsplit('.').next(), Some("bin"));
    let empty = upload(addr, 1, b"");
    assert_eq!((empty.status, get(addr, hash_of(b"")).body), (201, Vec::new()));
    running.wait_until_idle();
}

#[test]
fn web_pages_of_other_sites_may_ask_and_read_every_answer() {
    let running = Running::start(Given::default());
    let (addr, hash) = (running.addr, hash_of(b"page"));
    upload(addr, 1, b"page");
    for (method, path) in [
        ("GET", format!("/{hash}")),
        ("HEAD", format!("/{hash}")),
        ("GET", "/".to_owned()),
        ("GET", format!("/{}", hash_of(b"unknown"))),
        ("DELETE", format!("/{hash}")),
        ("HEAD", "/upload".to_owned()),
        ("POST", "/upload".to_owned()),
        ("OPTIONS", "/upload".to_owned()),
    ] {
        let answer = ask(addr, method, &path, &[]);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{method} {path}");
        assert_eq!(answer.status >= 400, !answer.reason().is_empty(), "{method} {path}: {answer:?}");
    }
    for path in ["/upload", "/", &format!("/{hash}.png"), "/list/abc"] {
        let preflight =
            ask(addr, "OPTIONS", path, &[("Origin", "https://app.example"), ("Access-Control-Request-Method", "PUT")]);
        assert_eq!(preflight.status, 204);
        assert_eq!(preflight.header("access-control-allow-headers"), Some("Authorization, *"));
        assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD, PUT, DELETE"));
        assert_eq!(preflight.header("access-control-max-age"), Some("86400"));
    }
}

#[test]
fn what_a_browser_would_run_is_saved_and_sandboxed() {
    let running = Running::start(Given::default());
    for (media_type, is_run) in [
        ("text/html", true),
        ("image/svg+xml", true),
        ("application/xml", true),
        ("image/png", false),
        ("video/mp4", false),
    ] {
        let body = format!("<script>{media_type}</script>");
        assert_eq!(upload_as(running.addr, 1, body.as_bytes(), media_type).status, 201);
        let got = get(running.addr, hash_of(body.as_bytes()));
        assert_eq!(got.header("content-type"), Some(media_type));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        let policy = is_run.then_some("sandbox; default-src 'none'");
        assert_eq!(got.header("content-security-policy"), policy, "{media_type}");
        let is_saved = got.header("content-disposition").is_some_and(|value| value.starts_with("attachment"));
        assert_eq!(is_saved, is_run, "{media_type}");
    }
}

#[test]
fn each_refusal_has_the_status_of_the_specification() {
    let limits = Limits { file_bytes: 1000, ..Limits::default() };
    let types = MediaTypes::parse(&["image/*".to_owned(), "text/plain".to_owned()]).unwrap();
    let running = Running::start(Given { limits, types: Some(types), ..Given::default() });
    let addr = running.addr;
    running.owner.banned.lock().unwrap().push(keys(9).pubkey());
    let (body, hash) = (b"refused", hash_of(b"refused"));
    let (right, digits) = (authorization(1, "upload", &[hash]), hash.to_string());
    let (other, other_digits) = (authorization(1, "upload", &[hash_of(b"x")]), hash_of(b"x").to_string());
    let both = authorization(1, "upload", &[hash, hash_of(b"x")]);
    let (deletes, banned) = (authorization(1, "delete", &[hash]), authorization(9, "upload", &[hash]));
    let right = ("Authorization", right.as_str());
    for (headers, status) in [
        (vec![], 401),
        (vec![("Authorization", "Nostr e30")], 401),
        (vec![("Authorization", other.as_str())], 401),
        (vec![("Authorization", other.as_str()), ("X-SHA-256", &digits)], 401),
        (vec![("Authorization", deletes.as_str())], 401),
        (vec![("Authorization", banned.as_str())], 403),
        (vec![("Authorization", both.as_str()), ("X-SHA-256", &other_digits)], 409),
        (vec![right, ("X-SHA-256", "abc")], 400),
        (vec![right, ("Content-Type", "png")], 400),
        (vec![right, ("Content-Type", "text/html")], 415),
        (vec![right], 415),
        (vec![right, ("Content-Type", "text/plain")], 201),
    ] {
        let mut headers = headers;
        if status != 415 && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            headers.push(("Content-Type", "text/plain"));
        }
        let answer = put(addr, "/upload", body, &headers);
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.reason());
        assert_eq!(answer.reason().is_empty(), status == 201);
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
    }
    let text = ("Content-Type", "text/plain");
    let missing = ask(addr, "PUT", "/upload", &[right, text]);
    assert_eq!((missing.status, missing.reason()), (411, "Content-Length is missing"));
    let mut chunked = Client::connect(addr);
    chunked.send_head("PUT", "/upload", &[right, text, ("Transfer-Encoding", "chunked")]);
    assert_eq!(chunked.answer("PUT").status, 411);
    assert_eq!(put(addr, "/upload", &[0; 1001], &[right, text]).status, 413);
    // A length that no machine has.
    let huge = ask(addr, "PUT", "/upload", &[right, text, ("Content-Length", "9999999999999999999")]);
    assert_eq!(huge.status, 413);
    for (method, path, status) in [
        ("POST", "/upload", 405),
        ("GET", "/upload", 405),
        ("PUT", "/", 405),
        ("PUT", "/mirror", 404),
        ("PUT", "/media", 404),
        ("GET", "/favicon.ico", 404),
        ("GET", &format!("/{}", hash_of(b"unknown")), 404),
        ("HEAD", &format!("/{}", hash_of(b"unknown")), 404),
        ("GET", &format!("/{hash}png"), 400),
        ("GET", &format!("/{hash}/..%2f..%2fetc%2fpasswd"), 400),
        ("GET", "/../../../etc/passwd", 404),
        ("GET", &format!("/{hash}"), 200),
    ] {
        assert_eq!(ask(addr, method, path, &[]).status, status, "{method} {path}");
    }
    running.wait_until_idle();
}

#[test]
fn a_preflight_upload_says_what_the_upload_would() {
    let limits = Limits { file_bytes: 1000, key_bytes: Some(100), ..Limits::default() };
    let types = MediaTypes::parse(&["text/plain".to_owned()]).unwrap();
    let running = Running::start(Given { limits, types: Some(types), ..Given::default() });
    running.owner.banned.lock().unwrap().push(keys(9).pubkey());
    let (hash, digits) = (hash_of(b"asked"), hash_of(b"asked").to_string());
    let (own, banned) = (authorization(1, "upload", &[hash]), authorization(9, "upload", &[hash]));
    let (length, text, digits) = (("X-Content-Length", "5"), ("X-Content-Type", "text/plain"), ("X-SHA-256", &*digits));
    let own = ("Authorization", own.as_str());
    for (headers, status) in [
        (vec![own, length, text, digits], 200),
        (vec![length, text, digits], 401),
        (vec![("Authorization", banned.as_str()), length, text, digits], 403),
        (vec![own, length, text], 400),
        (vec![own, length, text, ("X-SHA-256", "abc")], 400),
        (vec![own, text, digits], 411),
        (vec![own, ("X-Content-Length", "-1"), text, digits], 400),
        (vec![own, ("X-Content-Length", "many"), text, digits], 400),
        (vec![own, ("X-Content-Length", "1001"), text, digits], 413),
        (vec![own, length, ("X-Content-Type", "image/png"), digits], 415),
        (vec![own, ("X-Content-Length", "101"), text, digits], 429),
    ] {
        let answer = ask(running.addr, "HEAD", "/upload", &headers);
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.reason());
        assert_eq!(answer.reason().is_empty(), status == 200);
    }
    // Nothing is held by questions.
    assert_eq!(upload(running.addr, 1, &[7; 100]).status, 201);
}

#[test]
fn an_authorization_for_another_server_is_refused() {
    let running = Running::start(Given { url: Some("https://media.example.org"), ..Given::default() });
    let hash = hash_of(b"scoped").to_string();
    let expiration = (NOW + 60).to_string();
    let ask = |server: &str| {
        let tags: [&[&str]; 4] = [&["t", "upload"], &["x", &hash], &["expiration", &expiration], &["server", server]];
        let event = crate::running::signed(1, 24_242, &tags);
        let header = format!("Nostr {}", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, event));
        put(running.addr, "/upload", b"scoped", &[("Authorization", &header)]).status
    };
    // The Host header, which a stranger chooses, decides nothing.
    assert_eq!([ask("else.example"), ask("127.0.0.1"), ask("media.example.org")], [401, 401, 201]);
}
