//! The dashboard: its pages in a browser and while the index is built, its commands, and their protection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::browser::Event;
use birdhouse_testkit::inspection::{Inspection, browser};
use serde_json::{Value, json};

use crate::node;
use crate::process::{Birdhouse, PATIENCE};
use crate::relay_client;

/// Sends a request with these lines behind the first; returns head and body of the answer.
pub(crate) fn ask(server: &Birdhouse, line: &str, headers: &[String], body: &str) -> (String, String) {
    ask_at(port(server), line, headers, body)
}

/// Sends a request as [`ask`] does, to another listener.
pub(crate) fn ask_at(port: u16, line: &str, headers: &[String], body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\n{}\r\nConnection: close\r\nContent-Length: {length}", headers.join("\r\n"));
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(crate) fn port(server: &Birdhouse) -> u16 {
    server.port("serving metrics and health").unwrap()
}

pub(crate) fn own(server: &Birdhouse) -> String {
    format!("http://127.0.0.1:{}", port(server))
}

/// Returns the token of the forms.
pub(crate) fn token(server: &Birdhouse) -> String {
    let page = server.get("/control").body;
    let (_, after) = page.split_once("name=\"token\" value=\"").unwrap();
    after.split('"').next().unwrap().to_owned()
}

/// Sends a form as a browser does; returns the status and the page.
pub(crate) fn submit(server: &Birdhouse, command: &str, fields: &str) -> (u16, String) {
    submit_as(server, command, &format!("token={}{fields}", token(server)), &own(server))
}

pub(crate) fn submit_as(server: &Birdhouse, command: &str, body: &str, origin: &str) -> (u16, String) {
    let host = format!("Host: 127.0.0.1:{}", port(server));
    let headers = [host, format!("Origin: {origin}"), "Content-Type: application/x-www-form-urlencoded".into()];
    let (head, body) = ask(server, &format!("POST /control/{command}"), &headers, body);
    (status(&head), body)
}

pub(crate) fn status(head: &str) -> u16 {
    head.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn clients_that_read_nothing_keep_nobody_from_health() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let mut unread = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(("127.0.0.1", port(&server))).unwrap();
        // More answers than the buffers of the sockets take.
        stream.write_all("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000).as_bytes()).unwrap();
        unread.push(stream);
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn the_page_shows_state_and_nothing_that_clients_ask() {
    let node = node();
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0")]);
    let mut client = server.client();
    let script = "ab".repeat(32);
    client.call("blockchain.scripthash.subscribe", json!([script])).unwrap();
    // A call of the node fails after five seconds, which a busy machine may take.
    server.until("estimates a fee", || client.call("blockchain.estimatefee", json!([2])).ok());
    let page = server.get("/");
    assert_eq!(page.status, 200);
    let wallet = format!("127.0.0.1:{}:t", server.port("serving the Electrum protocol").unwrap());
    let hash = node.tip().unwrap().to_string();
    for part in ["<h1>Ready</h1>", "regtest", &wallet, &hash, "Relay", "Electrum", "index header"] {
        assert!(page.body.contains(part), "{part}:\n{}", page.body);
    }
    assert!(!page.body.contains(&script));
    server.until_connections(1);
    let status = server.ctl_json(&["status"]);
    assert_eq!(status["state"], "serving", "{status}");
    // The disk of the machine that runs this test may be short.
    let mut warnings = status["warnings"].as_array().unwrap().iter();
    assert!(warnings.all(|warning| warning["text"].as_str().unwrap().starts_with("The disk")), "{status}");
    assert_eq!(status["protocols"][0], json!({ "protocol": "Electrum", "listener": "tcp", "connections": 1 }));
    // The node's answer takes longer than anything in memory.
    let kinds = status["slowest"].as_array().unwrap();
    assert!(kinds.iter().any(|kind| kind["shape"] == "estimate_fee" || kind["shape"] == "estimatefee"), "{kinds:?}");
    let (done, text) = server.ctl(&["status"]);
    assert!(done && text.contains("\nslowest\n") && text.contains("tip height"), "{text}");

    let (done, frame) = server.run("top", &["--once"]);
    let height = format!("serving at height {}", node.height().unwrap());
    for part in ["Birdhouse", "regtest", &height, "Node and chain", "Slowest questions", "index header"] {
        assert!(done && frame.contains(part), "{part}:\n{frame}");
    }
    assert!(frame.lines().all(|line| line.chars().count() <= 110), "{frame}");
}

#[test]
fn the_dashboard_is_there_during_the_build() {
    let mut node = node();
    // The build waits for its node.
    node.stop().unwrap();
    let server = Birdhouse::start_early(&node);
    let page = server.until("serves the dashboard", || {
        server.port("serving metrics and health").map(|_| server.get("/")).filter(|page| page.status == 200)
    });
    assert!(page.body.contains("The index is being built") && page.body.contains("<progress"), "{}", page.body);
    let status = server.until("answers ctl", || {
        let (done, text) = server.ctl(&["--json", "status"]);
        let status = done.then(|| serde_json::from_str::<Value>(&text).unwrap());
        // Another state before the first call of the node has failed.
        status.filter(|status| status["state"] == "node not ready")
    });
    assert_eq!((&status["is_good"], &status["tip_height"]), (&json!(false), &Value::Null), "{status}");
    assert!(status["build"]["phase"].is_string() && status["sync_percent"].is_u64(), "{status}");
    assert!(status["warnings"][0]["advice"].as_str().unwrap().contains("Wait for the node"), "{status}");
    let (done, frame) = server.run("top", &["--once"]);
    assert!(done && frame.contains("First build"), "{frame}");
    node.restart().unwrap();
    server.until("is ready", || server.get("/").body.contains("<h1>Ready</h1>").then_some(()));
    assert_eq!(server.ctl_json(&["status"])["build"], Value::Null);
}

#[test]
fn each_button_does_what_ctl_does() {
    let node = node();
    let mut server = Birdhouse::start_with(&node, &[("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0")]);
    assert!(!server.log().contains("connection ends"));
    let (status, page) = submit(&server, "log-level", "&level=info%2Cbirdhouse_electrum%3Ddebug");
    assert!(status == 200 && page.contains("birdhouse_electrum=debug"), "{status} {page}");
    drop(server.client());
    server.until("logs in detail", || server.log().contains("connection ends").then_some(()));
    let (status, page) = submit(&server, "log-level", "&level=loud");
    assert!(status == 409 && page.contains("invalid log level"), "{status} {page}");

    let mut client = server.client();
    let connections = server.ctl_json(&["connections"]);
    let id = &connections.as_array().unwrap().last().unwrap()["id"];
    assert!(server.get("/control").body.contains(&format!("Close connection {id}")));
    let (status, page) = submit(&server, "disconnect", &format!("&id={id}"));
    assert!(status == 200 && page.contains("disconnected"), "{status} {page}");
    assert!(client.closed_within(Duration::from_secs(30)));
    assert_eq!(submit(&server, "disconnect", &format!("&id={id}")).0, 409);

    let (status, page) = submit(&server, "explain", "&filter=%7B%22kinds%22%3A%5B1%5D%2C%22limit%22%3A5%7D");
    assert!(status == 200 && page.contains("merge 1 ranges of lists"), "{status} {page}");
    let (status, page) = submit(&server, "accept-reorg", "");
    assert!(status == 409 && page.contains("waits for no reorg"), "{status} {page}");
    for (command, fields) in [("fly", ""), ("backup", "&folder=/tmp/x"), ("disconnect", "&id=x"), ("stop", "&sure=no")]
    {
        assert_eq!(submit(&server, command, fields).0, 400, "{command}");
    }
    let (status, page) = submit(&server, "stop", "&sure=yes");
    assert!(status == 200 && page.contains("stopping"), "{status} {page}");
    assert!(server.wait().0.success(), "{}", server.log());
}

#[test]
fn other_pages_of_the_browser_can_neither_read_nor_command() {
    let node = node();
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_OPS_HOST", "birdhouse.lan")]);
    // DNS rebinding: the name of another site resolves to this address.
    for path in ["/", "/control"] {
        let get = |host: &str| ask(&server, &format!("GET {path}"), &[format!("Host: {host}")], "");
        for host in ["evil.example", "evil.example:9400", "birdhouse.lan.evil.example", ""] {
            let (head, body) = get(host);
            assert_eq!(status(&head), 421, "{host}");
            assert!(body.contains("ops-host") && !body.contains("token") && !body.contains("regtest"), "{body}");
        }
        for host in ["localhost:9400", "birdhouse.lan", "[::1]:9400"] {
            let (head, _) = get(host);
            assert_eq!(status(&head), 200, "{host}");
            for header in
                ["content-security-policy: default-src 'none'", "frame-ancestors 'none'", "cache-control: no-store"]
            {
                assert!(head.contains(header), "{header}: {head}");
            }
            assert!(!head.contains("access-control-allow"), "{head}");
        }
    }
    // Forms of other sites: they neither know the token nor have the origin.
    let valid = format!("token={}&level=debug", token(&server));
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(submit_as(&server, "log-level", &valid, origin).0, 403, "{origin}");
    }
    for body in ["level=debug", "token=&level=debug", "token=00000000000000000000000000000000&level=debug"] {
        assert_eq!(submit_as(&server, "log-level", body, &own(&server)).0, 403, "{body}");
    }
    let rebound = ["Host: evil.example".to_owned(), "Origin: http://evil.example".to_owned()];
    assert_eq!(status(&ask(&server, "POST /control/log-level", &rebound, &valid).0), 421);
    assert_eq!(server.get("/control/stop").status, 405);
    assert!(!server.log().contains("changed the log level"), "{}", server.log());
    assert_eq!(submit_as(&server, "log-level", &valid, &own(&server)).0, 200);
}

#[test]
fn without_control_the_page_shows_commands_to_type() {
    let node = node();
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_OPS_CONTROL", "off")]);
    let page = server.get("/control").body;
    assert!(page.contains("birdhouse ctl log-level") && !page.contains("<form") && !page.contains("token"), "{page}");
    assert_eq!(submit_as(&server, "stop", "token=&sure=yes", &own(&server)).0, 403);
    assert_eq!(server.get("/health").status, 200);
}

/// Readers of pages without commands need not be the operator, and no reader is to be let into the relay.
#[test]
fn no_page_has_codes_of_invites_and_without_control_none_has_clients() {
    let args = ["--relay-members=private"];
    // A long name is in two parts.
    let text = |page: &str| page.replace("</span><span class=\"tail\">", "");
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &args);
    let code = server.ctl_json(&["invite", "--uses", "5"])["code"].as_str().unwrap().to_owned();
    let id = server.ctl_json(&["invites"])[0]["id"].as_str().unwrap().to_owned();
    server.ctl_json(&["ban", "client", "203.0.113.7", "--reason", "scans"]);
    let page = text(&server.get("/audit").body);
    assert!(page.contains(&id) && !page.contains(&code) && page.contains("scans"), "{page}");
    let (_, log) = server.ctl(&["audit"]);
    assert!(log.contains(&id) && !log.contains(&code), "{log}");
    assert!(text(&server.get("/reports").body).contains("203.0.113.7"));
    let file = std::fs::read_to_string(server.dir().join("relay/audit")).unwrap();
    assert!(!file.contains(&code), "{file}");
    assert_eq!(server.ctl_json(&["undo", "1"])["undone"], 1);
    assert_eq!(server.ctl_json(&["invites"]), json!([]), "it is revoked");
    server.ctl_json(&["stop"]);
    server.wait();

    let server = Birdhouse::start_relay(server.into_dir(), &[args[0], "--ops-control=off"]);
    for path in ["/", "/control", "/reports", "/audit"] {
        let page = server.get(path);
        assert_eq!(page.status, if path == "/audit" { 403 } else { 200 }, "{path}");
        let text = text(&page.body);
        assert!(!text.contains("203.0.113.7") && !text.contains("scans"), "{path}: {text}");
        assert!(!text.contains("href=\"./audit"), "{path}: {text}");
    }
}

#[test]
fn every_page_fits_and_is_usable_in_a_browser() {
    let node = node();
    let envs = [("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0"), ("BIRDHOUSE_ELECTRUM_TLS_ADDR", "127.0.0.1:0")];
    let server = Birdhouse::start_with(&node, &envs);
    let _wallets: Vec<_> = (0..3).map(|_| server.client()).collect();
    let own = own(&server);
    let Some(mut inspection) = Inspection::start(&own, "DASHBOARD_PICTURES").unwrap() else { return };
    for (name, path) in [("status", "/"), ("control", "/control")] {
        inspection.inspect(name, |browser| browser.open(&format!("{own}{path}"))).unwrap();
    }
    let submit = |form: &str| {
        format!("const form = document.querySelector('form[action$=\"/control/{form}\"]'); form.requestSubmit()")
    };
    for (name, form) in [("done", "log-level"), ("failed", "explain")] {
        inspection
            .inspect(name, |browser| {
                browser.open(&format!("{own}/control"))?;
                if name == "failed" {
                    browser.evaluate("document.querySelector('#filter').value = 'no filter'")?;
                }
                browser.evaluate(&submit(form))?;
                browser
                    .wait_for("document.readyState === 'complete' && document.querySelector('[role=status]') !== null")
            })
            .unwrap();
    }
    let mut node = node;
    node.stop().unwrap();
    server.until("warns of the node", || server.get("/").body.contains("id=\"warnings\"").then_some(()));
    inspection.inspect("warning", |browser| browser.open(&format!("{own}/"))).unwrap();
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn the_page_keeps_itself_current_and_is_whole_without_scripts() {
    let Some(mut browser) = browser().unwrap() else { return };
    let node = node();
    let server = Birdhouse::start(&node);
    browser.open(&own(&server)).unwrap();
    let connections = |count: usize| {
        format!("document.querySelector('[aria-labelledby=clients] tbody .number').textContent === '{count}'")
    };
    // A click gives the page the focus, which must not stop it.
    browser.evaluate("document.querySelector('main').focus()").unwrap();
    let open: Vec<_> = (0..3).map(|_| server.client()).collect();
    browser.wait_for(&connections(3)).unwrap();
    drop(open);
    browser.wait_for(&connections(0)).unwrap();
    assert!(browser.events().iter().all(|event| matches!(event, Event::Request(_))), "{:?}", browser.events());
    browser.disable_scripts().unwrap();
    browser.open(&own(&server)).unwrap();
    let reloads = browser.evaluate("document.querySelector('noscript meta[http-equiv=refresh]') !== null").unwrap();
    assert_eq!(reloads, json!(true));
    assert_eq!(browser.evaluate(&connections(0)).unwrap(), json!(true));
}

/// A report of NIP-56 is decided on in a browser: the ban hides the event, and taking it back shows it again.
#[test]
fn a_reported_event_is_banned_and_shown_again_from_the_dashboard() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let mut socket = relay_client::connect(&server);
    let sign = |author: u8, kind: u16, tags: Vec<Tag>, content: &str| {
        let event =
            UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(kind), tags, content: content.into() };
        event.sign(&Keys::from_secret([author; 32]).unwrap())
    };
    let note = sign(1, 1, Vec::new(), "<img src=x> buy this");
    let named = ["e", &note.id.to_string(), "spam"].map(str::to_owned).to_vec();
    let report = sign(2, 1984, vec![Tag(named)], "again and again");
    for event in [&note, &report] {
        let event: Value = serde_json::from_str(&event.to_json()).unwrap();
        assert_eq!(relay_client::ask(&mut socket, &json!(["EVENT", event]))[2], true);
    }
    let count =
        |socket: &mut _| relay_client::ask(socket, &json!(["COUNT", "a", { "kinds": [1] }]))[2]["count"].clone();
    assert_eq!(count(&mut socket), 1);
    let page = server.get("/reports").body;
    assert!(page.contains("&lt;img src=x&gt; buy this") && page.contains("again and again"), "{page}");
    let listed = server.ctl_json(&["reports"]);
    assert_eq!((&listed[0]["value"], &listed[0]["reason"]), (&json!(note.id.to_string()), &json!("spam")));

    let about = format!("&type=event&value={}", note.id);
    assert_eq!(submit(&server, "ban", &format!("{about}&reason=spam")).0, 200);
    assert_eq!(count(&mut socket), 0);
    let page = server.get("/reports").body;
    assert!(page.contains("Nothing waits") && page.contains("Take back"), "{page}");
    assert_eq!(submit(&server, "unban", &about).0, 200);
    assert_eq!(count(&mut socket), 1);
    assert_eq!(submit(&server, "ban", "&type=bird&value=1").0, 400);
    // A rule that allows would let its author pass the lists of the settings.
    assert!(server.get("/reports").body.contains("control/ignore\""), "{page}");
    assert_eq!(submit(&server, "ignore", &about).0, 200);
    assert!(server.get("/reports").body.contains("Nothing waits"));
    assert_eq!(server.ctl_json(&["banned"])[0]["verdict"], "ignore");
    assert_eq!(submit(&server, "unignore", &about).0, 200);
    assert_eq!(submit(&server, "ignore", "&type=kind&value=1").0, 409);

    // For a time, of any type, and undone from the log.
    assert_eq!(submit(&server, "ban", &format!("{about}&reason=%3Cb%3Espam&for=1+d")).0, 200);
    assert_eq!(submit(&server, "ban", "&type=client&value=203.0.113.0%2F24&reason=&for=").0, 200);
    assert_eq!(submit(&server, "ban", "&type=kind&value=7&for=soon").0, 400);
    let page = server.get("/reports").body;
    assert!(page.contains("banned until <time") && page.contains("203.0.113.0/24"), "{page}");
    assert_eq!(count(&mut socket), 0);
    let log = server.ctl_json(&["audit"]);
    assert_eq!(
        (&log[1]["actor"], &log[1]["reason"], &log[1]["undo"]),
        (&json!("dashboard"), &json!("<b>spam"), &json!(true))
    );
    let page = server.get("/audit").body;
    assert!(
        page.contains("&lt;b&gt;spam") && page.contains("Undo entry 6") && !page.contains("Undo entry 1"),
        "{page}"
    );
    assert_eq!(log[1]["id"], 5);
    assert_eq!(submit(&server, "undo", "&number=5").0, 200);
    assert_eq!(count(&mut socket), 1);
    let (status, page) = submit(&server, "undo", "&number=5");
    assert!(status == 409 && page.contains("cannot be undone") && page.contains("Back to the audit log"), "{page}");
    assert_eq!(submit(&server, "undo", "&number=all").0, 400);
    let page = server.get("/audit").body;
    assert!(page.contains("href=\"#entry-7\"") && page.contains("by <span"), "{page}");

    let own = own(&server);
    let Some(mut inspection) = Inspection::start(&own, "DASHBOARD_PICTURES").unwrap() else { return };
    inspection.inspect("reports", |browser| browser.open(&format!("{own}/reports"))).unwrap();
    inspection.inspect("audit", |browser| browser.open(&format!("{own}/audit"))).unwrap();
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");
}
