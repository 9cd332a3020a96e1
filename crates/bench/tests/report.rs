//! The report in a browser: headless Chromium lays a page out at two widths, and a script measures it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::json;

const RECORDS: [&str; 2] = ["electrum.json", "relay.json"];
const MARK: &str = "FINDINGS:";

/// Findings of the script in one frame.
#[derive(Debug, Deserialize)]
struct Findings {
    width: u32,
    plots: usize,
    texts: usize,
    /// Plots without an axis title.
    untitled: Vec<String>,
    /// Texts of one plot that cover each other.
    overlaps: Vec<String>,
    /// Texts that leave their plot.
    clipped: Vec<String>,
    /// Elements beyond the viewport, except those in a scrolling box.
    wide: Vec<String>,
}

#[test]
#[cfg_attr(no_chromium, ignore = "no Chromium: apt-get install chromium, or set CHROMIUM, and build again")]
fn plots_are_readable_and_nothing_is_wider_than_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    for findings in look(folder.path(), &page) {
        assert!(findings.plots >= 11 && findings.texts > 150, "too little was drawn: {findings:?}");
        assert!(findings.untitled.is_empty(), "plots without axis titles at {}: {findings:?}", findings.width);
        assert!(findings.overlaps.is_empty(), "texts overlap at {}: {:#?}", findings.width, findings.overlaps);
        assert!(findings.clipped.is_empty(), "texts are cut off at {}: {:#?}", findings.width, findings.clipped);
        assert!(findings.wide.is_empty(), "wider than {}: {:#?}", findings.width, findings.wide);
    }
}

#[test]
#[cfg_attr(no_chromium, ignore = "no Chromium: apt-get install chromium, or set CHROMIUM, and build again")]
fn script_finds_what_it_looks_for() {
    let folder = tempfile::tempdir().unwrap();
    let bad = r#"<meta charset="utf-8"><body style="margin:0"><div class="far" style="width:2000px">wide</div>
        <svg width="200" height="40"><text x="0" y="20">first</text><text x="4" y="22">second</text>
        <text x="190" y="20">beyond</text></svg>"#;
    for findings in look(folder.path(), bad) {
        assert_eq!((findings.plots, findings.texts, findings.untitled.len()), (1, 3, 1), "{findings:?}");
        assert_eq!((findings.overlaps.len(), findings.clipped.len()), (1, 1), "{findings:?}");
        assert!(findings.wide.iter().any(|element| element.contains("far")), "{findings:?}");
    }
}

/// Renders the page of the sample records.
fn report(folder: &Path) -> String {
    let (html, markdown) = (folder.join("report.html"), folder.join("report.md"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_birdhouse-bench"));
    command.arg("report").args(RECORDS.map(|name| format!("tests/records/{name}")));
    let status = command.arg("--html").arg(&html).arg("--markdown").arg(&markdown).status().unwrap();
    assert!(status.success());
    assert!(fs::read_to_string(markdown).unwrap().contains("| electrs 0.12.0 | failed: it ran out of memory |"));
    fs::read_to_string(html).unwrap()
}

/// Lays a page out in frames of 1200 and 400 pixels. (A window of Chromium is never as narrow as a telephone.)
fn look(folder: &Path, page: &str) -> [Findings; 2] {
    let script = include_str!("look.js");
    let content = json!(page).to_string().replace("</", r"<\/");
    let checker = folder.join("checker.html");
    let html =
        format!("<!DOCTYPE html><meta charset=\"utf-8\"><body><script>const page = {content};\n{script}</script>");
    fs::write(&checker, html).unwrap();
    let output = Command::new(env!("CHROMIUM"))
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--window-size=1600,1200", "--dump-dom"])
        .arg(format!("file://{}", checker.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let (_, found) = dom.rsplit_once(MARK).unwrap_or_else(|| panic!("the script did not end: {errors}"));
    let (found, _) = found.split_once("</pre>").unwrap();
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let all: [Findings; 2] = serde_json::from_str(&found).unwrap();
    assert_eq!([all[0].width, all[1].width], [1200, 400]);
    all
}
