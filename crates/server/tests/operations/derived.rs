//! Derived indexes, of which headers of block filters are one: seen by the operator, verified, backed up and examined.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use birdhouse_store::{ArraySpec, SegmentOptions, SegmentStore, Store as _};
use birdhouse_testkit::metrics;
use serde_json::{Value, json};

use crate::process::Birdhouse;

const HEADERS: ArraySpec = ArraySpec { name: "filter-header", record_bytes: 32 };
const ON: [(&str, &str); 2] = [("BIRDHOUSE_BLOCK_FILTERS", "on"), ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")];
/// Blocks of the node.
const BLOCKS: u32 = 11;

/// Runs `birdhouse doctor`; returns its line about derived indexes.
fn examined(server: &Birdhouse) -> Value {
    let lines: Vec<Value> = serde_json::from_str(&server.run("doctor", &["--json"]).1).unwrap();
    lines.into_iter().find(|line| line["check"] == "derived index").unwrap()
}

fn assert_said((succeeded, said): (bool, String), expected: (bool, &str)) {
    assert!(succeeded == expected.0 && said.contains(expected.1), "{expected:?}: {said}");
}

/// Replaces a record, with a checksum of its own.
fn overwrite(folder: &Path, record: u64) {
    let store = Arc::new(SegmentStore::open(folder, &[], SegmentOptions::default()).unwrap());
    store.array(HEADERS).unwrap().write(record, &[7; 32]).unwrap();
    let manifest = store.manifest().unwrap().unwrap();
    store.publish(&manifest).unwrap();
}

#[test]
fn the_operator_sees_verifies_and_backs_up_a_derived_index() {
    let node = crate::node();
    let mut server = Birdhouse::start_with(&node, &ON);
    let covered = json!([{ "name": "filters", "blocks": BLOCKS, "of_blocks": BLOCKS, "failure": null }]);
    server.until("covers the chain", || (server.ctl_json(&["status"])["derived"] == covered).then_some(()));
    let health: Value = serde_json::from_str(&server.get("/health").body).unwrap();
    let derived = json!({ "filters": { "blocks": BLOCKS, "of_blocks": BLOCKS } });
    assert_eq!(health, json!({ "status": "serving", "height": 10, "derived": derived }));
    let values = metrics::values(&server.get("/metrics").body);
    for (name, least, most) in [("blocks", 11.0, 11.0), ("behind_blocks", 0.0, 0.0), ("bytes", 352.0, 1e6)] {
        let value = values[&format!(r#"birdhouse_derived_{name}{{index="filters"}}"#)];
        assert!((least..=most).contains(&value), "{name}: {value}");
    }
    assert_eq!(examined(&server)["verdict"], "ok");

    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("backup");
    assert_said(server.run("backup", &[target.to_str().unwrap()]), (true, "filters: backed up"));
    assert_said(server.run("verify", &["--quick"]), (true, " 0 damaged places"));
    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success());
    assert_said(server.run("verify", &[]), (true, "verified filters, computed below height 11: 11 blocks, 0 diff"));
    assert_eq!(examined(&server)["verdict"], "ok");

    let folder = server.dir().join("regtest/filters");
    overwrite(&folder, 3);
    let (sound, said) = server.run("verify", &[]);
    assert!(!sound && said.contains("filters: block 3: array 0 differs"), "{said}");
    assert!(said.contains(&format!("remove {}, and it is made again", folder.display())), "{said}");
    assert_said(server.run("verify", &["--quick"]), (true, " 0 damaged places"));

    let file = std::fs::File::options().write(true).open(folder.join("arrays/filter-header")).unwrap();
    file.write_all_at(&[9], 100).unwrap();
    let (sound, said) = server.run("verify", &["--quick"]);
    assert!(!sound && said.contains("filters: remove its folder in that of the index, and it is made again"), "{said}");
    assert_eq!(examined(&server)["verdict"], "fail");

    // The index and the headers come back from the backup.
    let mut restored = Birdhouse::start_in(&target, &node, &ON);
    assert_eq!(restored.ctl_json(&["status"])["derived"], covered);
    restored.ctl_json(&["stop"]);
    assert!(restored.wait().0.success());
    assert_said(restored.run("verify", &[]), (true, "11 blocks, 0 differences"));

    // Without the folder, `birdhouse index` computes them, also where nothing serves them.
    std::fs::remove_dir_all(&folder).unwrap();
    assert_said(
        server.run("index", &["--block-filters=on"]),
        (true, "the index was built before; caught up to height 10"),
    );
    assert_said(server.run("verify", &[]), (true, "verified filters, computed below height 11: 11 blocks, 0 diff"));
}

/// Publishes a manifest of another format; returns the bytes of the records.
fn set_format(folder: &Path, format: u8) -> u64 {
    let store = Arc::new(SegmentStore::open(folder, &[], SegmentOptions::default()).unwrap());
    let mut manifest = store.manifest().unwrap().unwrap();
    manifest[0] = format;
    store.publish(&manifest).unwrap();
    std::fs::metadata(folder.join("arrays").join(HEADERS.name)).unwrap().len()
}

#[test]
fn a_derived_index_of_a_newer_version_is_refused_and_one_of_an_older_version_is_made_again() {
    let node = crate::node();
    let mut server = Birdhouse::start_with(&node, &ON);
    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success());
    let folder = server.dir().join("regtest/filters");
    let before = set_format(&folder, 2);
    assert_said(server.run("index", &[]), (false, "install the newer version"));
    assert_eq!(set_format(&folder, 0), before);
    assert_said(server.run("index", &[]), (true, "removed a derived index"));
    assert_said(server.run("verify", &[]), (true, "11 blocks, 0 differences"));
}

/// Returns the names of the arrays in a folder, sorted.
fn arrays(folder: &Path) -> Vec<String> {
    let files = folder.join("arrays").read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.contains('.'));
    names.sort_unstable();
    names
}

#[test]
fn another_detail_makes_a_derived_index_again_and_off_gives_its_disk_back() {
    let (node, empty) = (crate::node(), tempfile::tempdir().unwrap());
    let kept = ["silent-prefix", "silent-prefix-end", "silent-transaction", "silent-transaction-end"];
    let full = [&["silent-output", "silent-output-end"][..], &kept].concat();
    let covered = json!([{ "name": "silent-payments", "blocks": BLOCKS, "of_blocks": BLOCKS, "failure": null }]);
    let mut data = empty.path().to_owned();
    let mut servers = Vec::new();
    for (detail, expected) in [
        (Some("scan"), Some(kept.to_vec())),
        (Some("full"), Some(full)),
        (Some("scan"), Some(kept.to_vec())),
        (None, Some(kept.to_vec())),
        (Some("off"), None),
    ] {
        let settings = detail.map(|detail| ("BIRDHOUSE_SILENT_PAYMENTS", detail));
        let mut server = Birdhouse::start_in(&data, &node, settings.as_slice());
        let is_on = matches!(detail, Some("scan" | "full"));
        let derived = if is_on { &covered } else { &json!([]) };
        server.until("covers the chain", || (server.ctl_json(&["status"])["derived"] == *derived).then_some(()));
        server.ctl_json(&["stop"]);
        assert!(server.wait().0.success());
        let folder = server.dir().join("regtest/silent-payments");
        let found = folder.exists().then(|| arrays(&folder));
        assert_eq!(found, expected.map(|names| names.into_iter().map(str::to_owned).collect()), "{detail:?}");
        if is_on {
            let verified = "verified silent-payments, computed below height 11: 11 blocks, 0";
            assert_said(server.run("verify", &[]), (true, verified));
            assert_eq!(examined(&server)["verdict"], "ok", "{detail:?}");
        }
        data = server.dir().to_owned();
        servers.push(server);
    }
}
