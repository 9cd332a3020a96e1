//! Every page in Chromium: on a telephone and on a desk, light and dark, with and without scripts.
//!
//! `EXPLORER_PICTURES=DIR` keeps the pictures.

use birdhouse_testkit::Result;
use birdhouse_testkit::browser::{Browser, Event};
use birdhouse_testkit::inspection::{Inspection, browser};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;

use crate::pages::{Places, places};
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
    let findings = inspection.finish();
    assert!(findings.is_empty(), "{findings:#?}");
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
    browser.set_scripts(true).unwrap();
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
