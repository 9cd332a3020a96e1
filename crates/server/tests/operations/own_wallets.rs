//! The dashboard's page of watched wallets: in a browser, and for those who may not see it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use birdhouse_testkit::inspection::{Inspection, browser};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};

use crate::dashboard::{ask, own, port, status, submit, submit_as, token};
use crate::process::Birdhouse;
use crate::watches::{Receiver, TPRV, TPUB, first_script, list};

/// A recipient without a list of relays.
const NPUB: &str = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";

/// A field of a form.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"))
}

#[test]
fn a_wallet_is_added_announced_and_removed_on_the_page() {
    let mut chain = ChainBuilder::new(5);
    mix::mature(&mut chain);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let names = ["BIRDHOUSE_RELAY_ADDR", "BIRDHOUSE_WATCH_API_ADDR"];
    let server = Birdhouse::start_with(&node, &names.map(|name| (name, "127.0.0.1:0")));
    assert!(server.get("/control").body.contains("href=\"./watches\""));
    let page = server.get("/watches").body;
    assert!(page.contains("No wallet is watched") && page.contains("No channel"), "{page}");

    // Channels are the file's own, as are its comments.
    let (file, receiver) = (server.dir().join("watches.toml"), Receiver::new());
    let channels = format!(
        "# mine\n[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n\
         secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n[[channel]]\nname = \"me\"\nkind = \"nostr\"\nto = \"{NPUB}\"\n",
        receiver.url()
    );
    fs::write(&file, &channels).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    // A test reads the file again, and says why it did not arrive.
    let (done, said) = submit(&server, "watch-test", "&name=me");
    assert!(done == 409 && said.contains("names no relays for direct messages (kind 10050)"), "{done} {said}");
    let descriptor = format!("wpkh({TPUB}/<0;1>/*)");
    let add = |name: &str, source: &str| {
        let fields = format!("&name={name}&source={}&confirmations=0%2C+1&channel=hook&cold=yes", encoded(source));
        submit(&server, "watch-add", &fields)
    };
    let (done, said) = add("Savings", &descriptor);
    assert!(done == 200 && said.contains("birdhouse watch add") && said.contains("./watches"), "{done} {said}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(&channels) && text.contains(&descriptor) && text.contains("cold = true"), "{text}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.until("knows the watch", || (list(&server)["watches"][0]["scripts"] == 200).then_some(()));

    // A mistake is said in words, changes nothing, and no key is repeated or logged.
    for (name, source, reason) in [
        ("Keys", TPRV, "this is a private key"),
        ("Keys", "sp(tspspend1qqqq)", "private spend key"),
        ("Savings", &descriptor, "two watches have the name"),
        ("Keys", "no wallet", "failed to add the watch"),
    ] {
        let (done, said) = add(name, source);
        assert!(done == 409 && said.contains(reason) && !said.contains(TPRV), "{source}: {done} {said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    // A test that arrives.
    let (done, said) = std::thread::scope(|scope| {
        let test = scope.spawn(|| submit(&server, "watch-test", "&name=hook"));
        receiver.take();
        test.join().unwrap()
    });
    assert!(done == 200 && said.contains("delivered"), "{done} {said}");
    assert_eq!(submit(&server, "watch-test", "&name=nobody").0, 409);

    chain.pay(&[Payment::to_script(first_script(&node), 25_000), Payment::to_lock(Lock::new(Form::P2wpkh, 1), 1_000)]);
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    receiver.take();
    let shows = |part: &str| server.get("/watches").body.contains(part).then_some(());
    server.until("shows the balance", || shows("0.00025000 BTC"));
    server.until("shows the delivery", || shows("Delivered</dt><dd>2"));
    let page = server.get("/watches").body;
    let api = server.port("serving watched wallets and invoices for programs").unwrap();
    // A key is shown as it is written.
    let error = format!("<dd>{NPUB} names no relays");
    let link = format!("href=\"http://127.0.0.1:{api}/watch/Savings\"");
    for part in [&link, "Savings", "cold", "descriptor", "Last error", error.as_str(), "Send a test by hook", "webhook"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains(TPUB), "a source may be a key");

    inspect(&server);

    let (done, said) = submit(&server, "watch-remove", "&name=Savings");
    assert!(done == 200 && said.contains("removed"), "{done} {said}");
    assert_eq!(submit(&server, "watch-remove", "&name=Savings").0, 409);
    server.until("forgets it", || shows("No wallet is watched"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(channels.trim_end()) && !text.contains("Savings"), "{text}");
    let log = server.log();
    for secret in [TPRV, TPUB, "tspspend1"] {
        assert!(!log.contains(secret), "{secret} is logged");
    }
}

/// The page in a browser, and its form without scripts.
fn inspect(server: &Birdhouse) {
    let own = own(server);
    let Some(mut inspection) = Inspection::start(&own, "DASHBOARD_PICTURES").unwrap() else { return };
    inspection.inspect("watches", |browser| browser.open(&format!("{own}/watches"))).unwrap();
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");

    let Some(mut browser) = browser().unwrap() else { return };
    browser.disable_scripts().unwrap();
    browser.open(&format!("{own}/watches")).unwrap();
    let submit = format!(
        "document.querySelector('#name').value = 'Keys'; document.querySelector('#source').value = '{TPRV}'; \
         document.querySelector('#name').form.requestSubmit()"
    );
    browser.evaluate(&submit).unwrap();
    browser.wait_for("document.readyState === 'complete' && document.querySelector('[role=status]') !== null").unwrap();
    let said = browser.evaluate("document.querySelector('[role=status]').textContent").unwrap();
    assert!(said.as_str().is_some_and(|said| said.contains("private key") && !said.contains(TPRV)), "{said}");
}

/// Balances are not for everyone who reaches the dashboard.
#[test]
fn beyond_this_machine_the_page_needs_the_key() {
    let node = crate::node();
    let envs = [("BIRDHOUSE_OPS_HOST", "birdhouse.lan"), ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")];
    let server = Birdhouse::start_with(&node, &envs);
    let file = server.dir().join("watches.toml");
    let get = |headers: &[&str]| {
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        ask(&server, "GET /watches", &headers, "")
    };
    let proxied: [&[&str]; 3] =
        [&["Host: birdhouse.lan"], &["Host: localhost", "X-Forwarded-For: 192.0.2.9"], &["Host: 192.0.2.1:9400"]];
    for headers in proxied {
        let (head, body) = get(headers);
        assert_eq!(status(&head), 401, "{headers:?}");
        assert!(head.to_lowercase().contains("www-authenticate: basic") && !body.contains("token\""), "{head} {body}");
        let wrong = [headers, &["Authorization: Bearer 00000000000000000000000000000000"]].concat();
        assert_eq!(status(&get(&wrong).0), 401);
    }
    let key = fs::read_to_string(server.dir().join("watch-api-token")).unwrap();
    let with_key = format!("Authorization: Bearer {}", key.trim());
    let (head, body) = get(&["Host: birdhouse.lan", &with_key]);
    assert!(status(&head) == 200 && body.contains("Watched wallets"), "{head} {body}");
    assert_eq!(status(&get(&["Host: evil.example", &with_key]).0), 421);

    // The same for its commands, and for pages of others.
    let form = format!("token={}&name=w&source=51&confirmations=1", token(&server));
    let post = |headers: &[&str]| {
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        status(&ask(&server, "POST /control/watch-add", &headers, &form).0)
    };
    assert_eq!(post(&["Host: birdhouse.lan", "Origin: http://birdhouse.lan"]), 401);
    assert_eq!(post(&["Host: birdhouse.lan", "Origin: http://evil.example", &with_key]), 403);
    assert_eq!(submit_as(&server, "watch-add", &form, "http://evil.example").0, 403);
    assert_eq!(submit_as(&server, "watch-add", "name=w&source=51&confirmations=1", &own(&server)).0, 403);
    // A listener for clients knows neither the page nor the command.
    let rest = server.port("serving the REST API").unwrap();
    assert_ne!(rest, port(&server));
    for line in ["GET /watches", "POST /control/watch-add"] {
        let host = format!("Host: 127.0.0.1:{rest}");
        let (head, _) = crate::dashboard::ask_at(rest, line, &[host], &form);
        assert!([404, 405].contains(&status(&head)), "{line}: {head}");
    }
    assert!(!file.exists());
    assert_eq!(post(&["Host: birdhouse.lan", "Origin: http://birdhouse.lan", &with_key]), 200);
    assert!(file.exists());
}

#[test]
fn without_control_the_page_has_no_buttons() {
    let server = Birdhouse::start_with(&crate::node(), &[("BIRDHOUSE_OPS_CONTROL", "off")]);
    let page = server.get("/watches").body;
    assert!(page.contains("birdhouse watch add") && !page.contains("<form") && !page.contains("token"), "{page}");
    let form = "token=&name=w&source=51&confirmations=1";
    assert_eq!(submit_as(&server, "watch-add", form, &own(&server)).0, 403);
}
