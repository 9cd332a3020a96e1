//! Inspection of web pages in Chromium: on a telephone and on a desk, light and dark, for pages that are too wide,
//! requests to other hosts, messages of the console, and violations of accessibility that axe-core finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::clients::browser::{Browser, Event, Look, find_axe};
use crate::error::Result;

/// Windows of a telephone and of a desk.
const SIZES: [(u32, u32); 2] = [(390, 844), (1280, 800)];
/// Elements that are wider than the window, but for those in a box that scrolls.
const WIDE: &str = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
    && !e.closest('pre, .long, svg, .unseen, .skip')).map(e => e.tagName + '.' + e.className)";

/// Units of amounts and rates that a line break cuts in two.
const CUT_UNITS: &str = "[...document.querySelectorAll('.amount, .rate')].filter(e => { \
    let unit = e.lastChild; if (unit.className === 'unit') unit = unit.firstChild; \
    if (unit.nodeType !== Node.TEXT_NODE) return false; const range = document.createRange(); \
    range.setStart(unit, Math.max(0, unit.data.search(/[a-z]/i))); range.setEnd(unit, unit.data.length); \
    return range.getClientRects().length > 1 }).map(e => e.textContent)";

/// A browser, and its findings by page and look.
#[derive(Debug)]
pub struct Inspection {
    browser: Browser,
    /// The script of axe-core, if it is installed.
    axe: Option<String>,
    /// Where all requests must go.
    own: String,
    /// Folder for pictures.
    pictures: Option<PathBuf>,
    findings: BTreeMap<String, Vec<String>>,
}

/// Starts Chromium; `None` with a printed reason where it is not installed.
///
/// # Errors
/// It does not start.
pub fn browser() -> Result<Option<Browser>> {
    match Browser::start() {
        Err(error) if error.is_missing_program() => {
            eprintln!("skipped: {error}");
            Ok(None)
        }
        started => started.map(Some),
    }
}

impl Inspection {
    /// Starts Chromium for pages whose addresses begin with `own`; `None` with a printed reason where it is not
    /// installed. Pictures go to the folder that the variable `pictures` names.
    ///
    /// # Errors
    /// It does not start, or axe-core cannot be read.
    pub fn start(own: &str, pictures: &str) -> Result<Option<Self>> {
        let Some(browser) = browser()? else { return Ok(None) };
        let axe = match find_axe() {
            Ok(path) => Some(fs::read_to_string(path)?),
            Err(error) => {
                eprintln!("skipped, accessibility: {error}");
                None
            }
        };
        let pictures = std::env::var_os(pictures).map(PathBuf::from);
        Ok(Some(Self { browser, axe, own: own.to_owned(), pictures, findings: BTreeMap::new() }))
    }

    /// Inspects a page in every look; `open` opens it.
    ///
    /// # Errors
    /// The browser's.
    pub fn inspect(&mut self, name: &str, mut open: impl FnMut(&mut Browser) -> Result<()>) -> Result<()> {
        for size in SIZES {
            for is_dark in [false, true] {
                self.browser.look(Look { size, is_dark })?;
                open(&mut self.browser)?;
                let found = self.findings(size.0)?;
                let key = format!("{name}-{}-{}", size.0, if is_dark { "dark" } else { "light" });
                if let Some(folder) = &self.pictures {
                    fs::write(folder.join(format!("{key}.png")), decoded(&self.browser.picture()?))?;
                }
                if !found.is_empty() {
                    self.findings.insert(key, found);
                }
            }
        }
        Ok(())
    }

    /// Returns all findings by page and look.
    pub fn finish(self) -> BTreeMap<String, Vec<String>> {
        self.findings
    }

    fn findings(&mut self, width: u32) -> Result<Vec<String>> {
        let Self { browser, axe, own, .. } = self;
        let mut found = Vec::new();
        let wide = browser.evaluate(WIDE)?;
        let scrolled = browser.evaluate("document.documentElement.scrollWidth")?;
        if wide != json!([]) || scrolled.as_u64().is_none_or(|scrolled| scrolled > width.into()) {
            found.push(format!("wider than the window, {scrolled}: {wide}"));
        }
        let cut = browser.evaluate(CUT_UNITS)?;
        if cut != json!([]) {
            found.push(format!("units cut in two: {cut}"));
        }
        if let Some(axe) = axe {
            browser.evaluate(axe)?;
            let violations = browser.evaluate("axe.run().then(found => found.violations)")?;
            found.extend(violations.as_array().into_iter().flatten().map(violation));
        }
        for event in browser.events() {
            match event {
                Event::Request(url) if url.starts_with(own.as_str()) => {}
                Event::Request(url) => found.push(format!("asks {url}")),
                // Chromium says so of every such page.
                Event::Message(text) if text.contains("the server responded with a status of 4") => {}
                Event::Message(text) => found.push(format!("says {text}")),
            }
        }
        Ok(found)
    }
}

fn violation(violation: &Value) -> String {
    let nodes = violation["nodes"].as_array().into_iter().flatten();
    let nodes: Vec<String> = nodes.map(|node| format!("{} {}", node["html"], node["failureSummary"])).collect();
    format!("{}: {}", violation["id"], nodes.join("; "))
}

/// Bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        let digit = u32::try_from(digit).expect("below 64");
        (bits, held) = ((bits << 6) | digit, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).expect("eight bits"));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        assert_eq!(decoded("iVBORw0KGgo="), b"\x89PNG\r\n\x1a\n");
    }
}
