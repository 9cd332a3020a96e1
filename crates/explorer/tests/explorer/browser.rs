//! Every page in Chromium: on a telephone and on a desk, light and dark, with and without scripts.
//!
//! `EXPLORER_PICTURES=DIR` keeps the pictures.

use std::time::Duration;

use birdhouse_testkit::Result;
use birdhouse_testkit::browser::{Browser, Event};
use birdhouse_testkit::inspection::{Inspection, browser};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::pages::{Places, places};
use crate::scan;
use crate::silent_sender::Receiver;
use crate::world::World;

#[test]
fn every_page_fits_and_is_usable_in_a_browser() {
    let mut world = World::start(91);
    let places = places(&mut world);
    let own = world.rest.url();
    let Some(mut inspection) = Inspection::start(&own, "EXPLORER_PICTURES").unwrap() else { return };
    for (name, path) in places.all() {
        inspection.inspect(name, |browser| open(browser, &own, &path)).unwrap();
    }
    let receiver = Receiver::new(1);
    scan::pay_once(&mut world, &receiver);
    inspection.inspect("scan", |browser| open_scan(browser, &own, &receiver)).unwrap();
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Opens the page of a scan, by its form.
fn open_scan(browser: &mut Browser, own: &str, receiver: &Receiver) -> Result<()> {
    browser.open(&format!("{own}/silent-payments"))?;
    let (scan, spend) = (receiver.scan_hex(), receiver.spend_hex());
    browser.evaluate(&format!(
        "document.querySelector('#scan').value = '{scan}'; document.querySelector('#spend').value = '{spend}'; \
        document.querySelector('#scan').form.requestSubmit()"
    ))?;
    browser.wait_for("document.readyState === 'complete' && document.querySelector('#sum') !== null")
}

/// Opens a page; one that answers a form is asked for by the form.
fn open(browser: &mut Browser, own: &str, path: &str) -> Result<()> {
    let Some((form, text)) = path.split_once('\n') else { return browser.open(&format!("{own}{path}")) };
    browser.open(&format!("{own}{form}"))?;
    let fill = format!(
        "const area = document.querySelector('main textarea'); area.value = {text:?}; \
        area.form.action = {form:?}; area.form.submit()"
    );
    browser.evaluate(&fill)?;
    browser.wait_for(
        "document.readyState === 'complete' && document.querySelector('main textarea') !== null \
        && document.querySelector('main .balance, main [role=alert], main [role=status]') !== null",
    )
}

#[test]
fn a_visitor_without_a_mouse_or_scripts_reaches_every_page() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(92);
    let Places { txid, .. } = places(&mut world);
    browser.open(&world.rest.url()).unwrap();
    // The first thing that the keyboard reaches leads past the navigation.
    let first = browser.evaluate("document.querySelector('a, button, input').getAttribute('href')").unwrap();
    assert_eq!(first, "#main");
    let unlabelled = browser
        .evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), textarea')].filter(e => !e.labels.length).length",
        )
        .unwrap();
    assert_eq!(unlabelled, 0);
    browser.disable_scripts().unwrap();
    browser
        .evaluate(&format!("document.querySelector('#q').value = '{txid}'; document.querySelector('#q').form.submit()"))
        .unwrap();
    browser.wait_for(&format!("location.pathname === '/tx/{txid}' && document.readyState === 'complete'")).unwrap();
}

#[test]
fn a_page_shows_a_new_block_and_a_payment_by_itself() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(93);
    let places = places(&mut world);
    let height = world.live.ledger().height();
    browser.open(&world.rest.url()).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let has_block = |height: u32| format!("document.querySelector('.mined .name').textContent === '{height}'");
    browser.wait_for(&has_block(height + 1)).unwrap();
    browser.open(&format!("{}/address/{}", world.rest.url(), places.fresh)).unwrap();
    let lock = Lock::new(Form::P2wpkh, 77);
    let txid = world.live.pay(&[Payment::to_lock(lock, 31_000)]).unwrap().compute_txid();
    world.sync();
    browser.wait_for(&format!("document.querySelector('main a[href$=\"/tx/{txid}\"]') !== null")).unwrap();
    assert!(browser.events().iter().all(|event| matches!(event, Event::Request(_))), "{:?}", browser.events());
}

/// Holds the events of a page back until `begin()`, as a slow network does. `heard` is the kind of the last one.
const HOLD_EVENTS: &str = "const Real = EventSource; \
     window.EventSource = class extends EventTarget { \
         constructor(url) { \
             super(); \
             const kinds = ['tip', 'block', 'reorg', 'address', 'tx']; \
             const pass = (event) => { \
                 this.dispatchEvent(new MessageEvent(event.type, { data: event.data })); \
                 window.heard = event.type; \
             }; \
             window.begin = () => { \
                 const real = new Real(url); \
                 for (const kind of kinds) real.addEventListener(kind, pass); \
             }; \
         } \
         close() {} \
     };";

#[test]
fn a_page_whose_events_begin_late_shows_what_happened_meanwhile() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(96);
    let places = places(&mut world);
    browser.run_first(HOLD_EVENTS).unwrap();
    browser.open(&world.rest.url()).unwrap();
    world.live.mine().unwrap();
    world.sync();
    browser.evaluate("begin()").unwrap();
    let height = world.live.ledger().height();
    browser.wait_for(&format!("document.querySelector('.mined .name').textContent === '{height}'")).unwrap();
    let address = format!("{}/address/{}", world.rest.url(), places.fresh);
    browser.open(&address).unwrap();
    let txid = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 77), 31_000)]).unwrap().compute_txid();
    world.sync();
    browser.evaluate("begin()").unwrap();
    browser.wait_for(&format!("document.querySelector('main a[href$=\"/tx/{txid}\"]') !== null")).unwrap();
    // A page to which nothing happened is not read again.
    for (page, kind) in [(address, "address"), (format!("{}/tx/{txid}", world.rest.url()), "tx")] {
        browser.open(&page).unwrap();
        browser.evaluate("begin()").unwrap();
        browser.wait_for(&format!("window.heard === '{kind}'")).unwrap();
        // Proves that nothing happens: the page would be read in this time.
        std::thread::sleep(Duration::from_secs(1));
        browser.evaluate("0").unwrap();
        let reads = browser.events().iter().filter(|event| **event == Event::Request(page.clone())).count();
        assert_eq!(reads, 1, "{page}");
    }
}

/// Lines of the example of [BIP 329](https://github.com/bitcoin/bips/blob/master/bip-0329.mediawiki).
const LABELS: &str = r#"{ "type": "tx", "ref": "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd", "label": "Transaction", "origin": "wpkh([d34db33f/84'/0'/0'])" }
{ "type": "addr", "ref": "bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c", "label": "Address" }
{ "type": "pubkey", "ref": "0283409659355b6d1cc3c32decd5d561abaac86c37a353b52895a5e6c196d6f448", "label": "Public Key" }
{ "type": "input", "ref": "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd:0", "label": "Input" }
{ "type": "output", "ref": "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd:1", "label": "Output", "spendable": false }"#;

/// The lines of the page with all labels, which is open.
fn kept_labels(browser: &mut Browser) -> Vec<Value> {
    let text = browser.evaluate("document.querySelector('#labels').value").unwrap();
    text.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// BIP 329, "Importing": what a line leaves out is not altered.
#[test]
fn members_that_a_label_leaves_out_stay_as_they_are() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(95);
    let Places { txid, .. } = places(&mut world);
    let own = world.rest.url();
    let output =
        |label: &str| json!({ "type": "output", "ref": format!("{txid}:0"), "label": label, "spendable": false });
    let of_tx = json!({ "type": "tx", "ref": txid, "label": "Rent", "origin": "wpkh([d34db33f/84'/0'/0'])" });
    let labels = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let first = labels(&[output("Frozen"), of_tx.clone()]);
    let second = labels(&[
        json!({ "type": "output", "ref": format!("{txid}:0"), "label": "Cold", "spendable": null }),
        json!({ "type": "tx", "ref": txid }),
    ]);
    browser.open(&format!("{own}/labels")).unwrap();
    browser.wait_for("!document.querySelector('main form').hidden").unwrap();
    for lines in [first, second] {
        browser
            .evaluate(&format!(
                "document.querySelector('#outcome').textContent = ''; var area = document.querySelector('#labels'); \
                 area.value = {lines:?}; area.form.requestSubmit()"
            ))
            .unwrap();
        browser.wait_for("document.querySelector('#outcome').textContent.startsWith('2 labels are kept')").unwrap();
    }
    assert_eq!(kept_labels(&mut browser), [output("Cold"), of_tx]);
    // A label that is taken away takes nothing else with it.
    browser.open(&format!("{own}/tx/{txid}")).unwrap();
    browser.wait_for("document.querySelector('.own-label input')?.value === 'Rent'").unwrap();
    browser
        .evaluate(
            "const form = document.querySelector('.own-label'); form.querySelector('input').value = ''; \
             form.requestSubmit()",
        )
        .unwrap();
    browser.open(&format!("{own}/labels")).unwrap();
    browser.wait_for("document.querySelector('#labels').value.includes('Cold')").unwrap();
    let left = kept_labels(&mut browser);
    assert_eq!(left, [output("Cold"), json!({ "type": "tx", "ref": txid, "origin": "wpkh([d34db33f/84'/0'/0'])" })]);
}

#[test]
fn labels_units_and_times_are_kept_in_the_browser() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(94);
    let Places { txid, fresh, .. } = places(&mut world);
    let own = world.rest.url();
    let lines = |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let more = format!("{LABELS}\n{{\"type\":\"addr\",\"ref\":\"{fresh}\",\"label\":\"Rent <b>\"}}");
    browser.open(&format!("{own}/labels")).unwrap();
    browser.wait_for("!document.querySelector('main form').hidden").unwrap();
    browser
        .evaluate(&format!(
            "const area = document.querySelector('#labels'); area.value = {more:?}; area.form.requestSubmit()"
        ))
        .unwrap();
    browser.wait_for("document.querySelector('#outcome').textContent.startsWith('6 labels are kept')").unwrap();
    // Another page shows the label, and the export has every line with every member.
    browser.open(&format!("{own}/tx/{txid}")).unwrap();
    browser.wait_for("document.querySelector('.label')?.textContent === 'Rent <b>'").unwrap();
    browser
        .evaluate(
            "const form = document.querySelector('.own-label'); form.querySelector('input').value = 'Mine'; \
             form.requestSubmit()",
        )
        .unwrap();
    browser.open(&format!("{own}/labels")).unwrap();
    browser.wait_for("document.querySelector('#labels').value.includes('Mine')").unwrap();
    let kept = browser.evaluate("document.querySelector('#labels').value").unwrap();
    let expected = format!("{more}\n{{\"type\":\"tx\",\"ref\":\"{txid}\",\"label\":\"Mine\"}}");
    assert_eq!(lines(kept.as_str().unwrap()), lines(&expected));
    // A line that is none keeps nothing of its text.
    browser
        .evaluate("const wrong = document.querySelector('#labels'); wrong.value = 'x'; wrong.form.requestSubmit()")
        .unwrap();
    browser.wait_for("document.querySelector('#outcome').textContent.startsWith('Nothing was kept')").unwrap();
    // A bad line among good ones costs only itself.
    browser
        .evaluate(&format!(
            "const mixed = document.querySelector('#labels'); mixed.value = 'x\\n{{}}\\nnull\\n' + {more:?}; \
             mixed.form.requestSubmit()"
        ))
        .unwrap();
    browser.wait_for("document.querySelector('#outcome').textContent.endsWith('left out: 3.')").unwrap();
    // A browser without room, or a private window, keeps nothing, and the page says so.
    let full = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };";
    browser
        .evaluate(&format!(
            "{full} const again = document.querySelector('#labels'); again.value = {more:?}; \
             document.querySelector('#outcome').textContent = ''; again.form.requestSubmit()"
        ))
        .unwrap();
    browser.wait_for("document.querySelector('#outcome').textContent.includes('has no room')").unwrap();
    browser.open(&format!("{own}/tx/{txid}")).unwrap();
    browser.wait_for("document.querySelector('.own-label') !== null").unwrap();
    browser
        .evaluate(&format!(
            "{full} const own = document.querySelector('.own-label'); own.querySelector('input').value = 'Lost'; \
             own.requestSubmit()"
        ))
        .unwrap();
    browser.wait_for("document.querySelector('.own-label input').validationMessage.startsWith('Not kept')").unwrap();
    // Units.
    browser.open(&format!("{own}/tx/{txid}")).unwrap();
    browser.wait_for("document.querySelector('.switch') !== null && document.querySelector('.copy') !== null").unwrap();
    let fee = "[...document.querySelectorAll('dt')].find(term => term.textContent === 'Fee').nextSibling.textContent";
    assert_eq!(browser.evaluate(fee).unwrap(), "0.00001000 BTC");
    browser.evaluate("document.querySelector('.switch').click()").unwrap();
    assert_eq!(browser.evaluate(fee).unwrap(), "1\u{202f}000 sat");
    browser.open(&format!("{own}/tx/{txid}")).unwrap();
    browser.wait_for(&format!("{fee} === '1\u{202f}000 sat'")).unwrap();
}

/// With a clipboard, and without one, as over plain HTTP.
#[test]
fn a_button_copies_the_name_before_it() {
    let Some(mut browser) = browser().unwrap() else { return };
    let mut world = World::small(95);
    let Places { txid, .. } = places(&mut world);
    browser.open(&format!("{}/tx/{txid}", world.rest.url())).unwrap();
    browser.wait_for("document.querySelector('.copy') !== null").unwrap();
    // A browser without a window may keep the clipboard from pages.
    browser
        .evaluate(
            "window.copied = []; const fake = { writeText: async (text) => { window.copied.push(text); } }; \
             Object.defineProperty(navigator, 'clipboard', { value: fake, configurable: true })",
        )
        .unwrap();
    browser.evaluate("document.querySelector('.copy').click()").unwrap();
    browser.wait_for("document.querySelector('.copy').textContent === 'Copied'").unwrap();
    assert_eq!(browser.evaluate("window.copied.join()").unwrap(), txid.to_string());
    browser.wait_for("document.querySelector('.copy').textContent === 'Copy'").unwrap();
    // Without a clipboard the script selects the name, and copies what is selected.
    browser
        .evaluate(
            "Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true }); \
             document.execCommand = (command) => window.copied.push(command, document.activeElement.value)",
        )
        .unwrap();
    browser.evaluate("document.querySelector('.copy').click()").unwrap();
    browser.wait_for("document.querySelector('.copy').textContent === 'Copied'").unwrap();
    assert_eq!(browser.evaluate("window.copied.slice(1).join()").unwrap(), format!("copy,{txid}"));
    assert_eq!(browser.evaluate("document.querySelectorAll('textarea').length").unwrap(), 0);
}

#[test]
fn the_switch_of_times_shows_local_ones_and_utc_again() {
    let Some(mut browser) = browser().unwrap() else { return };
    let world = World::small(96);
    let mined = world.live.ledger().chain().last().unwrap();
    let (hash, time) = (mined.hash, mined.block.header.time);
    let page = format!("{}/block/{hash}", world.rest.url());
    let shown = "(() => { const time = document.querySelector('main time'); \
                 return time.hasAttribute('title') ? time.title : time.textContent; })()";
    browser.open(&page).unwrap();
    browser.wait_for("document.querySelectorAll('.switch').length === 2").unwrap();
    let utc = browser.evaluate(shown).unwrap();
    let local = browser.evaluate(&format!("new Date({time}000).toLocaleString()")).unwrap();
    assert_ne!(utc, local);
    browser.evaluate("document.querySelectorAll('.switch')[1].click()").unwrap();
    assert_eq!(browser.evaluate(shown).unwrap(), local);
    assert_eq!(browser.evaluate("document.querySelectorAll('.switch')[1].textContent").unwrap(), "Show UTC");
    // It is kept for the next page.
    browser.open(&page).unwrap();
    browser.wait_for("document.querySelectorAll('.switch')[1]?.textContent === 'Show UTC'").unwrap();
    assert_eq!(browser.evaluate(shown).unwrap(), local);
    browser.evaluate("document.querySelectorAll('.switch')[1].click()").unwrap();
    assert_eq!(browser.evaluate(shown).unwrap(), utc);
}
