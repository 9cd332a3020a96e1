use birdhouse_chain::Height;

use super::super::facts::{Bitcoin, Certificate, Folder, Machine, Port};
use super::super::finding::Verdict;
use super::super::report;
use super::*;
use crate::sockets::Validity;

const GB: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000;

/// A certificate of a year that ends then.
fn valid_until(until: u64) -> Validity {
    Validity { from: until - 365 * 86_400, until }
}

/// The facts of a server that can start.
fn healthy() -> Facts {
    Facts {
        settings: Ok(()),
        file: Some("/etc/birdhouse.toml".into()),
        warnings: Vec::new(),
        other_user: None,
        bitcoin: Some(Bitcoin {
            node: Some(Node {
                answer: Answer::Ready {
                    user_agent: "/Satoshi:31.0.0/".into(),
                    height: 365,
                    kept: kept(PruneMode::Off, 0),
                },
                other_network: None,
                full_peers: Some(8),
                forbidden: Vec::new(),
                zmq: None,
                fork: None,
                clear_rpc: None,
                clock: Some((NOW - 600, 0)),
            }),
            source: Ok("block files in /node/blocks".into()),
            skipped: Vec::new(),
            index_bytes: Some(20 * GB),
            prunable_bytes: Some(30 * GB),
            blocks_bytes: Some(100 * GB),
            index: Store::Whole { bytes: 20 * GB },
            other_indexes: None,
            index_dir: Some("/data/bitcoin".into()),
            height: Some(365),
            tip_is_known: Some(true),
        }),
        derived: vec![("filters", Store::Whole { bytes: GB }), ("other", Store::Absent)],
        relay: Some(Store::Whole { bytes: GB }),
        plugin: Some(Plugin { program: "/usr/local/bin/policy".into(), can_run: true }),
        watches: Some(Ok("2 watches and 1 channels, readable for this user alone".into())),
        media: Some(Media {
            folder: Folder { path: "/data/blossom".into(), mode: Some(0o700), is_writable: true },
            disk_free_bytes: Some(100 * GB),
            floor_bytes: Some(GB),
        }),
        data_dir: Some(Folder { path: "/data".into(), mode: Some(0o700), is_writable: true }),
        machine: Machine {
            disk_free_bytes: Some(100 * GB),
            memory_free_bytes: Some(8 * GB),
            memory_wanted_bytes: GB,
            index_percent: 20,
            build_temp_bytes: 16 * GB,
            files_max: 65_536,
            connections_max: 20_000,
            now: NOW,
        },
        ports: vec![Port { name: "tcp".into(), addr: ([127, 0, 0, 1], 50_001).into(), state: PortState::Free }],
        certificates: vec![Certificate { listener: "tls".into(), validity: Ok(Some(valid_until(NOW + 365 * 86_400))) }],
    }
}

/// Plants a fault; returns the findings that are not ok: check, verdict, and text with advice.
fn findings(plant: impl FnOnce(&mut Facts)) -> Vec<(&'static str, Verdict, String)> {
    let mut facts = healthy();
    plant(&mut facts);
    let lines = report(&facts).into_iter().filter(|line| line.finding.verdict != Verdict::Ok);
    lines
        .map(|line| {
            let text = format!("{} -> {}", line.finding.found, line.finding.mend.unwrap_or_default());
            (line.check, line.finding.verdict, text)
        })
        .collect()
}

/// Plants a fault that exactly one check finds, and whose text contains all of `expected`.
fn found_by(check: &str, verdict: Verdict, expected: &[&str], plant: impl FnOnce(&mut Facts)) {
    let found = findings(plant);
    assert!(found.len() == 1 && (found[0].0, found[0].1) == (check, verdict), "{found:?}");
    for part in expected {
        assert!(found[0].2.contains(part), "{part}: {found:?}");
    }
}

fn bitcoin(facts: &mut Facts) -> &mut Bitcoin {
    facts.bitcoin.as_mut().expect("it is on")
}

fn node_in(facts: &mut Facts) -> &mut Node {
    bitcoin(facts).node.as_mut().expect("there is one")
}

fn kept(mode: PruneMode, first: u32) -> KeptBlocks {
    KeptBlocks { mode, first: Height(first), headers: Height(365) }
}

#[test]
fn a_server_that_can_start_has_no_finding() {
    assert_eq!(findings(|_| {}), []);
}

#[test]
fn every_check_says_something_about_a_server_with_everything() {
    let mut facts = healthy();
    node_in(&mut facts).clear_rpc = Some("the password crosses the network unencrypted".into());
    facts.other_user = Some(OtherUser { name: "birdhouse".into(), own: "alice".into() });
    let lines = report(&facts);
    for (check, _) in CHECKS {
        assert!(lines.iter().any(|line| line.check == check), "{check}");
    }
}

#[test]
fn faults_of_the_node_are_found() {
    let silent = || Answer::Silent("nothing listens there".into());
    found_by("node", Verdict::Fail, &["nothing listens", "bitcoind -daemon"], |facts| {
        node_in(facts).answer = silent();
        bitcoin(facts).source = Err("REST: nothing listens there".into());
    });
    found_by("node", Verdict::Fail, &["use --network regtest"], |facts| {
        node_in(facts).answer = silent();
        node_in(facts).other_network = Some("found regtest; use --network regtest".into());
        bitcoin(facts).source = Err("files: no folder".into());
    });
    found_by("node", Verdict::Fail, &["pruned"], |facts| {
        node_in(facts).answer = Answer::Unfit("the node is pruned; set prune=1".into());
        bitcoin(facts).source = Err("files: pruned".into());
    });
    found_by("node", Verdict::Warn, &["5 of 10 blocks", "wait"], |facts| {
        node_in(facts).answer = Answer::Waiting("5 of 10 blocks".into());
    });
    found_by("chain", Verdict::Warn, &["forks from bitcoin", "which chain the node follows"], |facts| {
        node_in(facts).fork = Some("the chain forks from bitcoin at height 840000 or below".into());
    });
    found_by("rpc rights", Verdict::Fail, &["getblock,submitpackage", "rpcwhitelist"], |facts| {
        node_in(facts).forbidden = vec!["getblock", "submitpackage"];
    });
    found_by("old blocks", Verdict::Warn, &["none of the node's peers has all blocks", "addnode"], |facts| {
        node_in(facts).full_peers = Some(0);
    });
    found_by("zmq", Verdict::Warn, &["127.0.0.1:28332", "zmqpubsequence"], |facts| {
        node_in(facts).zmq = Some(("127.0.0.1:28332".into(), false));
    });
    found_by("blocks", Verdict::Fail, &["permission denied"], |facts| {
        bitcoin(facts).source = Err("files: permission denied".into());
    });
    found_by("blocks", Verdict::Warn, &["RPC at", "several times the cost", "permission denied"], |facts| {
        bitcoin(facts).source = Ok("RPC at 127.0.0.1:8332".into());
        bitcoin(facts).skipped = vec!["files: permission denied".into()];
    });
}

#[test]
fn a_damaged_index_names_the_one_folder_that_can_go_and_damaged_events_are_not_given_up() {
    let broken = |folder: &str| Store::Damaged { folder: folder.into(), error: "table x is damaged".into() };
    let advice = ["table x is damaged", "remove the folder /data/bitcoin and nothing else", "lie elsewhere and stay"];
    found_by("index", Verdict::Fail, &advice, |facts| bitcoin(facts).index = broken("/data/bitcoin"));
    let found = findings(|facts| facts.relay = Some(broken("/data/relay")));
    assert!(found.len() == 1 && found[0].2.contains("only copy") && !found[0].2.contains("remove"), "{found:?}");
}

#[test]
fn a_wiped_node_is_told_from_one_that_is_ahead() {
    found_by(
        "index",
        Verdict::Fail,
        &["height 365", "at 20", "wiped", "set node-dir", "remove the folder /data/bitcoin and nothing else"],
        |facts| {
            node_in(facts).answer =
                Answer::Ready { user_agent: "/Satoshi/".into(), height: 20, kept: kept(PruneMode::Off, 0) };
            bitcoin(facts).tip_is_known = Some(false);
        },
    );
    assert_eq!(findings(|facts| bitcoin(facts).height = Some(300)), []);
}

#[test]
fn the_disk_of_node_and_index_is_shown_together() {
    let shown = disk(&healthy());
    let parts = ["blocks take 100000 MB", "the index 20000 MB", "together 120000 MB", "prune` can free 30000 MB"];
    assert!(shown.len() == 1 && parts.iter().all(|part| shown[0].found.contains(part)), "{shown:?}");
}

#[test]
fn faults_of_the_machine_are_found() {
    found_by("disk", Verdict::Fail, &["500 MB", "--data-dir"], |facts| {
        facts.machine.disk_free_bytes = Some(GB / 2);
    });
    found_by("disk", Verdict::Warn, &["needs about 26000 MB", "build-temp-mib"], |facts| {
        facts.machine.disk_free_bytes = Some(20 * GB);
        bitcoin(facts).height = None;
        bitcoin(facts).index = Store::Absent;
    });
    found_by("media store", Verdict::Warn, &["500 MB", "below 1000 MB", "disk-free-bytes"], |facts| {
        facts.media.as_mut().expect("the media store is on").disk_free_bytes = Some(GB / 2);
    });
    found_by("media store", Verdict::Fail, &["/data/blossom", "chown"], |facts| {
        facts.media.as_mut().expect("the media store is on").folder.is_writable = false;
    });
    found_by("memory", Verdict::Warn, &["build-memory-mib"], |facts| {
        facts.machine.memory_free_bytes = Some(GB / 2);
    });
    found_by("open files", Verdict::Warn, &["LimitNOFILE=21024"], |facts| facts.machine.files_max = 1024);
    found_by("ports", Verdict::Fail, &["127.0.0.1:50001", "ss -tlnp"], |facts| {
        facts.ports[0].state = PortState::Taken;
    });
    found_by("clock, TLS", Verdict::Fail, &["7800 s behind", "set-ntp"], |facts| {
        node_in(facts).clock = Some((NOW + 7800, 0));
    });
    found_by("clock, TLS", Verdict::Warn, &["ends in 3 days"], |facts| {
        facts.certificates[0].validity = Ok(Some(valid_until(NOW + 3 * 86_400 + 5)));
    });
    found_by("clock, TLS", Verdict::Fail, &["has expired"], |facts| {
        facts.certificates[0].validity = Ok(Some(valid_until(NOW - 1)));
    });
    found_by("data folder", Verdict::Fail, &["chown"], |facts| {
        facts.data_dir = Some(Folder { path: "/data".into(), mode: Some(0o755), is_writable: false });
    });
    found_by("data folder", Verdict::Warn, &["chmod go-w /data"], |facts| {
        facts.data_dir = Some(Folder { path: "/data".into(), mode: Some(0o777), is_writable: true });
    });
}

#[test]
fn another_network_is_told_from_an_index_that_is_not_built() {
    let absent = |facts: &mut Facts| {
        (bitcoin(facts).index, bitcoin(facts).height) = (Store::Absent, None);
    };
    assert_eq!(findings(absent), []);
    found_by("index", Verdict::Warn, &["holds an index of bitcoin", "set network back"], |facts| {
        absent(facts);
        bitcoin(facts).other_indexes = Some("bitcoin".into());
    });
}

#[test]
fn a_plugin_that_cannot_be_run_is_found() {
    found_by("plugin", Verdict::Fail, &["/usr/local/bin/policy", "relay-plugin", "chmod +x"], |facts| {
        facts.plugin = Some(Plugin { program: "/usr/local/bin/policy".into(), can_run: false });
    });
}

#[test]
fn a_watch_file_that_others_may_read_is_found() {
    let error = "failed to read /etc/birdhouse/watches.toml: others may read it; run: chmod 600 watches.toml";
    found_by("watches", Verdict::Fail, &["watches.toml", "chmod 600"], |facts| {
        facts.watches = Some(Err(error.into()));
    });
}

#[test]
fn faults_of_the_settings_are_found() {
    found_by("settings", Verdict::Fail, &["unknown setting"], |facts| {
        facts.settings = Err("line 1: unknown setting \"netwrok\"".into());
    });
    found_by("settings", Verdict::Warn, &["relay-name", "birdhouse config"], |facts| {
        facts.warnings = vec!["without effect: relay-name".into()];
    });
}

#[test]
fn a_derived_index_is_reported_by_its_name() {
    let derived = |store| move |facts: &mut Facts| facts.derived[0].1 = store;
    let broken = Store::Damaged { folder: "/data/bitcoin/filters".into(), error: "page 3 is damaged".into() };
    let expected = ["filters: page 3 is damaged", "remove /data/bitcoin/filters and nothing else"];
    found_by("derived index", Verdict::Fail, &expected, derived(broken));
    let expected = ["filters: no block", "tries again"];
    found_by("derived index", Verdict::Warn, &expected, derived(Store::Failing("no block".into())));
    assert_eq!(findings(derived(Store::InUse)), []);
}
