//! Settings in the packages for node boxes (`contrib/boxes`), as this server reads them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");
/// Variables that Umbrel and its app of Bitcoin define.
const UMBREL: &str = "APP_BITCOIN_NODE_IP=10.21.21.8 APP_BITCOIN_RPC_PORT=8332 APP_BITCOIN_RPC_USER=umbrel \
    APP_BITCOIN_RPC_PASS=secret DEVICE_DOMAIN_NAME=umbrel.local DEVICE_HOSTNAME=umbrel \
    APP_HIDDEN_SERVICE=not-enabled.onion EXPORTS_TOR_DATA_DIR=/nonexistent";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(inside: &str) -> String {
    fs::read_to_string(repository().join("contrib/boxes").join(inside)).unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the settings that are in effect and no defaults.
fn settings(variables: &BTreeMap<String, String>, file: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("birdhouse.toml");
    fs::write(&path, file).unwrap();
    let mut config = Command::new(BIRDHOUSE);
    config.arg("config").env_clear().envs(variables).env("HOME", folder.path()).env("BIRDHOUSE_CONFIG", path);
    let said = run(&mut config);
    let set = said.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    set.map(|(name, value)| (name.to_owned(), value.rsplit_once("  # ").unwrap().0.to_owned())).collect()
}

fn of_file(file: &str) -> BTreeMap<String, String> {
    settings(&BTreeMap::new(), file)
}

fn assert_settings(found: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(found.get(*name).map(String::as_str), Some(*value), "{name} of {found:?}");
    }
}

/// The variables of Birdhouse in a compose file, as a shell expands them.
fn of_compose(file: &str, before: &str) -> BTreeMap<String, String> {
    let text = read(file);
    let pairs = text.lines().filter_map(|line| line.trim().strip_prefix("BIRDHOUSE_")?.split_once(": "));
    pairs
        .map(|(name, value)| {
            let script = format!("{before}\nprintf %s \"{}\"", value.trim_matches('"'));
            (format!("BIRDHOUSE_{name}"), run(Command::new("bash").args(["-euo", "pipefail", "-c", &script])))
        })
        .collect()
}

#[test]
fn the_app_of_umbrel_serves_at_its_exported_ports_on_every_network() {
    let exports = repository().join("contrib/boxes/umbrel/birdhouse/exports.sh");
    // Umbrel's names for electrs.
    for network in ["bitcoin", "testnet", "testnet4", "signet", "regtest"] {
        let before = format!("export {UMBREL} APP_BITCOIN_NETWORK_ELECTRS={network}\n. {}", exports.display());
        let found = settings(&of_compose("umbrel/birdhouse/docker-compose.yml", &before), "");
        let name = format!("\"{network}\"");
        assert_settings(
            &found,
            &[
                ("network", &name),
                ("node-dir", "\"/node\""),
                ("rpc-addr", "\"10.21.21.8:8332\""),
                ("rpc-user", "\"umbrel\""),
                ("electrum-addr", "\"0.0.0.0:50005\""),
                ("electrum-tls-addr", "\"0.0.0.0:50006\""),
                ("http-addr", "\"0.0.0.0:8481\""),
                ("ops-addr", "\"0.0.0.0:9400\""),
                ("ops-host", "[\"umbrel.local\", \"umbrel\", \"not-enabled.onion\"]"),
                ("public-host", "[\"tcp://umbrel.local:50005\", \"ssl://umbrel.local:50006\"]"),
            ],
        );
    }
}

#[test]
fn the_settings_that_umbrel_leaves_to_its_owner_are_valid() {
    let text = read("umbrel/birdhouse/data/settings/birdhouse.toml");
    assert!(of_file(&text).len() <= 1, "nothing is set at first: {text}");
    let set: Vec<&str> =
        text.lines().map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line)).collect();
    assert_settings(
        &of_file(&set.join("\n")),
        &[
            ("preset", "\"pi4\""),
            ("profile", "\"lean\""),
            ("node-prune-keep", "\"30GB\""),
            ("silent-payments", "\"scan\""),
        ],
    );
}

#[test]
fn the_compose_file_reaches_the_node_beside_it() {
    let found = settings(&of_compose("compose/compose.yml", ""), "");
    assert_settings(
        &found,
        &[
            ("node-dir", "\"/node\""),
            ("rpc-addr", "\"bitcoind:8332\""),
            ("data-dir", "\"/data\""),
            ("electrum-addr", "\"0.0.0.0:50001\""),
            ("electrum-tls-addr", "\"0.0.0.0:50002\""),
        ],
    );
    let text = read("compose/compose.yml");
    for published in ["127.0.0.1:50001:50001", "50002:50002", "127.0.0.1:8080:8080", "127.0.0.1:9400:9400"] {
        assert!(text.contains(&format!("- \"{published}\"")), "{published}");
    }
}

#[test]
fn the_package_of_startos_has_settings_that_this_server_knows() {
    let constants = read("startos/startos/utils.ts");
    let constants: Vec<(&str, &str)> = constants
        .lines()
        .filter_map(|line| line.strip_prefix("export const ")?.split_once(" = "))
        .map(|(name, value)| (name, value.trim_matches('\'')))
        .collect();
    let value_of = |text: &str| {
        let plain = text.trim_end_matches(',').trim_matches('`').to_owned();
        constants.iter().fold(plain, |text, (name, value)| {
            if text == *name { (*value).to_owned() } else { text.replace(&format!("${{{name}}}"), value) }
        })
    };
    let main = read("startos/startos/main.ts");
    let pairs = main.lines().filter_map(|line| line.trim().strip_prefix("BIRDHOUSE_")?.split_once(": "));
    let mut variables: BTreeMap<String, String> =
        pairs.map(|(name, value)| (format!("BIRDHOUSE_{name}"), value_of(value))).collect();
    // What StartOS says when the service starts.
    assert!(main.contains("{ BIRDHOUSE_RPC_ADDR: rpcAddr }") && variables.remove("BIRDHOUSE_CONFIG").is_some());
    variables.insert("BIRDHOUSE_RPC_ADDR".to_owned(), "10.0.3.1:8332".to_owned());
    assert!(variables.insert("BIRDHOUSE_OPS_HOST".to_owned(), "birds.local,birds.lan".to_owned()).is_some());
    assert_settings(
        &settings(&variables, ""),
        &[
            ("data-dir", "\"/data\""),
            ("node-dir", "\"/node\""),
            ("rpc-cookie-file", "\"/node/.cookie\""),
            ("electrum-addr", "\"0.0.0.0:50001\""),
            ("http-addr", "\"0.0.0.0:8080\""),
            ("ops-addr", "\"0.0.0.0:9400\""),
            ("ops-host", "[\"birds.local\", \"birds.lan\"]"),
        ],
    );
    // Each choice of the action.
    let model = read("startos/startos/fileModels/settings.ts");
    let choices = model.lines().filter_map(|line| line.trim().split_once(": z.enum(["));
    let mut count = 0;
    for (name, rest) in choices {
        let name = name.trim_matches('\'');
        for value in rest.split("])").next().unwrap().split(", ").map(|value| value.trim_matches('\'')) {
            let found = of_file(&format!("{name} = \"{value}\"\n"));
            assert_eq!(found.get(name), Some(&format!("\"{value}\"")), "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 9, "{model}");
}

#[test]
fn the_script_of_raspiblitz_writes_settings_beside_electrs_and_fulcrum() {
    let script = repository().join("contrib/boxes/raspiblitz/bonus.birdhouse.sh");
    let found = of_file(&run(Command::new(&script).arg("settings")));
    assert_settings(
        &found,
        &[
            ("node-dir", "\"/mnt/hdd/bitcoin\""),
            ("data-dir", "\"/mnt/hdd/app-storage/birdhouse\""),
            ("rpc-password-file", "\"/mnt/hdd/app-storage/birdhouse/rpc-password\""),
            ("electrum-addr", "\"0.0.0.0:50031\""),
            ("electrum-tls-addr", "\"0.0.0.0:50032\""),
        ],
    );
    // The unit of the package runs with this file, and may write beside it.
    let unit = run(Command::new(&script).arg("drop-in"));
    assert!(unit.contains("\nExecStart=\nExecStart=/usr/bin/birdhouse run --config /mnt/hdd/app-storage/birdhouse/"));
    assert!(unit.contains("\nReadWritePaths=/mnt/hdd/app-storage/birdhouse\n"), "{unit}");
    // Commands without a flag read the same file, and removing the package leaves it.
    let text = fs::read_to_string(&script).unwrap();
    let [link, removed, purged] = ["ln -sfn \"${CONFIG}\" \"${PACKAGED}\"", "sudo rm \"${PACKAGED}\"", "apt-get purge"]
        .map(|part| text.find(part));
    assert!(link.is_some() && removed.is_some() && removed < purged, "{text}");
    assert!(text.contains("\nPACKAGED=\"/etc/birdhouse.toml\"\n"), "{text}");
}

#[test]
fn the_module_of_nix_bitcoin_has_settings_that_this_server_knows() {
    let folder = tempfile::tempdir().unwrap();
    let file = repository().join("crates/testkit/tests/boxes/nix-bitcoin.nix");
    let mut nix = Command::new("nix-instantiate");
    for (variable, inside) in
        [("NIX_STORE_DIR", "store"), ("NIX_STATE_DIR", "var"), ("NIX_LOG_DIR", "log"), ("NIX_CONF_DIR", "conf")]
    {
        nix.env(variable, folder.path().join(inside));
    }
    nix.args(["--eval", "--strict", "--json", "--arg", "prune", "0"]).arg(file);
    if nix.output().is_err() {
        eprintln!("LEFT OUT: nix-instantiate is not there; see scripts/prepare");
        return;
    }
    let module: Value = serde_json::from_str(&run(&mut nix)).unwrap();
    let lines = module["settings"].as_object().unwrap().iter().map(|(name, value)| format!("{name} = {value}\n"));
    assert_settings(
        &of_file(&lines.collect::<String>()),
        &[
            ("network", "\"bitcoin\""),
            ("node-dir", "\"/var/lib/bitcoind\""),
            ("data-dir", "\"/var/lib/birdhouse\""),
            ("electrum-addr", "\"127.0.0.1:50011\""),
            ("http-addr", "\"127.0.0.1:8080\""),
        ],
    );
}
