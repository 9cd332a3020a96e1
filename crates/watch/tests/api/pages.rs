//! Pages of the operator, labels and tables.

use birdhouse_testkit::inspection::{Inspection, browser};
use bitcoin::{Address, Network};
use serde_json::json;

use crate::world::{TOKEN, World, shop_script, to_shop};

#[test]
fn a_page_and_a_table_show_a_wallet_with_its_labels() {
    let mut world = World::start(31);
    let paid = world.live.pay(&[to_shop(0, 70_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    let waiting = world.live.pay(&[to_shop(1, 20_000)]).unwrap().compute_txid();
    world.sync();
    let server = &world.server;
    let labels = format!(
        "{{\"type\":\"tx\",\"ref\":\"{paid}\",\"label\":\"Rent, <May>\"}}\nnonsense\n{{\"type\":\"output\",\"ref\":\"{paid}:0\",\"spendable\":false}}\n"
    );
    let imported = server.post("/labels", &labels);
    assert_eq!(imported.json(), json!({ "imported": 2, "without_room": 0, "skipped": 1, "skipped_lines": [2] }));
    // What a label leaves out stays.
    server.post("/labels", &format!("{{\"type\":\"output\",\"ref\":\"{paid}:0\",\"label\":\"cold\"}}"));
    let exported = server.get("/labels");
    let lines: Vec<serde_json::Value> = exported.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({ "type": "tx", "ref": paid, "label": "Rent, <May>" }),
            json!({ "type": "output", "ref": format!("{paid}:0"), "label": "cold", "spendable": false }),
        ]
    );

    let home = server.get("/");
    assert!(home.text.contains("href=\"/watch/Shop\"") && home.text.contains("0.00070000"), "{}", home.text);
    let page = server.get("/watch/Shop");
    assert!(page.text.contains("Rent, &lt;May&gt;") && page.text.contains("unconfirmed"), "{}", page.text);
    assert_eq!(server.get("/watch/nobody").status, 404);
    // The next address is one that nobody has paid; its derivation here is `bitcoin`'s alone.
    let next = Address::from_script(&shop_script(0, 2), Network::Regtest).unwrap().to_string();
    assert!(page.text.contains(&next) && page.text.contains("Number 2."), "{}", page.text);
    for part in [&format!("{paid}:0")[58..], "0.00070000", "0.00020000", "cold", "not to spend"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let (height, _) = world.tip();
    let csv = server.get("/watch/Shop/csv").text;
    let rows: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(rows[0], "time,height,txid,received_sat,spent_sat,label");
    assert!(rows[1].ends_with(&format!(",{height},{paid},70000,0,\"Rent, <May>\"")), "{csv}");
    assert_eq!(rows[2], format!(",,{waiting},20000,0,"));
}

/// The pages need no script; the form is taken from the page itself, and from no other.
#[test]
fn the_pages_fit_a_browser_and_their_form_imports_labels() {
    let mut world = World::start(32);
    let paid = world.live.pay(&[to_shop(0, 70_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    world.live.pay(&[to_shop(1, 20_000)]).unwrap();
    world.sync();
    let server = &world.server;
    let form =
        format!("labels=%7B%22type%22%3A%22tx%22%2C%22ref%22%3A%22{paid}%22%2C%22label%22%3A%22A+%26+B%22%7D%0D%0Ax");
    let import = |headers: &[(&str, &str)]| server.post_with("/watch/Shop/labels", &form, headers);
    for origin in ["http://evil.example", "null", "http://127.0.0.1"] {
        assert_eq!(import(&[("Origin", origin)]).status, 403, "{origin}");
    }
    let own = server.url("");
    assert_eq!(import(&[("Origin", &own), ("Sec-Fetch-Site", "same-site")]).status, 403);
    assert_eq!(server.get("/labels").text, "");
    let imported = import(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]);
    assert!(imported.status == 200 && imported.text.contains("Lines without a label"), "{}", imported.text);
    assert!(server.get("/watch/Shop").text.contains("A &amp; B"));
    assert_eq!(server.post("/watch/nobody/labels", &form).status, 404);

    let Some(mut inspection) = Inspection::start(&own, "WATCH_PICTURES").unwrap() else { return };
    let with_key = own.replace("http://", &format!("http://me:{TOKEN}@"));
    for (name, path) in [("wallets", "/"), ("wallet", "/watch/Shop")] {
        inspection
            .inspect(name, |browser| {
                // Chromium keeps the password for the address without it.
                browser.open(&format!("{with_key}{path}"))?;
                browser.open(&format!("{own}{path}"))
            })
            .unwrap();
    }
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");

    let Some(mut browser) = browser().unwrap() else { return };
    browser.disable_scripts().unwrap();
    browser.open(&format!("{with_key}/watch/Shop")).unwrap();
    let line = format!("{{\"type\":\"output\",\"ref\":\"{paid}:0\",\"label\":\"From a form\"}}");
    let submit = format!(
        "document.querySelector('#lines').value = {line:?}; document.querySelector('#lines').form.requestSubmit()"
    );
    browser.evaluate(&submit).unwrap();
    browser.wait_for("document.readyState === 'complete' && document.querySelector('[role=status]') !== null").unwrap();
    assert!(server.get("/watch/Shop").text.contains("From a form"));
}
