//! Every page in Chromium: on a telephone and on a desk, light and dark, with and without scripts.
//!
//! `EXPLORER_PICTURES=DIR` keeps the pictures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use birdhouse_testkit::browser::{Browser, Event, Look, find_axe};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::Value;

use crate::pages::{Places, places};
use crate::world::World;

const SIZES: [(u32, u32); 2] = [(390, 844), (1280, 800)];
/// Elements that are wider than the window, but for those in a box that scrolls.
const WIDE: &str = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
    && !e.closest('pre, .long, svg, .unseen, .skip')).map(e => e.tagName + '.' + e.className)";

/// Starts Chromium; `None` with a printed reason where it is not installed.
fn browser() -> Option<Browser> {
    match Browser::start() {
        Ok(browser) => Some(browser),
        Err(error) if error.is_missing_program() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn violations(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.evaluate(axe).unwrap();
    let found = browser.evaluate("axe.run().then(found => found.violations)").unwrap();
    let text = |one: &Value| {
        format!(
            "{}: {}",
            one["id"],
            one["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|node| { format!("{} {}", node["html"], node["failureSummary"]) })
                .collect::<Vec<_>>()
                .join("; ")
        )
    };
    found.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn every_page_fits_and_is_usable_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let axe = match find_axe() {
        Ok(path) => Some(std::fs::read_to_string(path).unwrap()),
        Err(error) => {
            eprintln!("skipped, accessibility: {error}");
            None
        }
    };
    let mut world = World::start(91);
    let places = places(&mut world);
    let own = world.rest.url();
    let pictures = std::env::var_os("EXPLORER_PICTURES").map(PathBuf::from);
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, path) in places.all() {
        for size in SIZES {
            for is_dark in [false, true] {
                browser.look(Look { size, is_dark }).unwrap();
                open(&mut browser, &own, &path);
                let mut found = Vec::new();
                let wide = browser.evaluate(WIDE).unwrap();
                let width = browser.evaluate("document.documentElement.scrollWidth").unwrap().as_u64().unwrap();
                if wide != serde_json::json!([]) || width > size.0.into() {
                    found.push(format!("wider than the window, {width}: {wide}"));
                }
                found.extend(axe.iter().flat_map(|axe| violations(&mut browser, axe)));
                for event in browser.events() {
                    match event {
                        Event::Request(url) if url.starts_with(&own) => {}
                        Event::Request(url) => found.push(format!("asks {url}")),
                        // Chromium says so of every such page.
                        Event::Message(text) if text.contains("the server responded with a status of 40") => {}
                        Event::Message(text) => found.push(format!("says {text}")),
                    }
                }
                let scheme = if is_dark { "dark" } else { "light" };
                let key = format!("{name}-{}-{scheme}", size.0);
                if let Some(folder) = &pictures {
                    std::fs::write(folder.join(format!("{key}.png")), decoded(&browser.picture().unwrap())).unwrap();
                }
                if !found.is_empty() {
                    findings.insert(key, found);
                }
            }
        }
    }
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Opens a page; one that answers a form is asked for by the form.
fn open(browser: &mut Browser, own: &str, path: &str) {
    let Some((form, text)) = path.split_once('\n') else { return browser.open(&format!("{own}{path}")).unwrap() };
    browser.open(&format!("{own}{form}")).unwrap();
    let fill =
        format!("const area = document.querySelector('main textarea'); area.value = {text:?}; area.form.submit()");
    browser.evaluate(&fill).unwrap();
    browser
        .wait_for(
            "document.readyState === 'complete' && document.querySelector('main textarea') !== null \
        && document.querySelector('main .balance, main [role=alert]') !== null",
        )
        .unwrap();
}

/// Bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        (bits, held) = ((bits << 6) | u32::try_from(digit).unwrap(), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn a_visitor_without_a_mouse_or_scripts_reaches_every_page() {
    let Some(mut browser) = browser() else { return };
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
    browser.set_scripts(true).unwrap();
    browser
        .evaluate(&format!("document.querySelector('#q').value = '{txid}'; document.querySelector('#q').form.submit()"))
        .unwrap();
    browser.wait_for(&format!("location.pathname === '/tx/{txid}' && document.readyState === 'complete'")).unwrap();
}

#[test]
fn a_page_shows_a_new_block_and_a_payment_by_itself() {
    let Some(mut browser) = browser() else { return };
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
    browser.wait_for(&format!("document.querySelector('main a[href=\"/tx/{txid}\"]') !== null")).unwrap();
    assert!(browser.events().iter().all(|event| matches!(event, Event::Request(_))), "{:?}", browser.events());
}
