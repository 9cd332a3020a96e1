//! Tools of the other boxes: shells, the schema of compose files, Nix, Ruby, makepkg.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::unistd::Uid;
use serde_json::Value;

use crate::released::{REPOSITORY, Released, VERSION};
use crate::{beside, has, packages, repository, run, said};

/// The user `nobody`, because makepkg refuses root.
const NOBODY: &str = "65534";

#[test]
fn shells_accept_the_scripts() {
    let released = Released::new();
    let scripts =
        ["raspiblitz/bonus.birdhouse.sh", "umbrel/birdhouse/exports.sh", "aur/PKGBUILD", "aur/birdhouse.install"];
    for script in scripts {
        run(Command::new("bash").arg("-n").arg(released.of_box(script)));
    }
    if !has("shellcheck") {
        return;
    }
    for script in scripts {
        let mut shellcheck = Command::new("shellcheck");
        shellcheck.args(["--shell=bash"]);
        // makepkg reads these variables, sets others, and changes into the folder by itself.
        if script == "aur/PKGBUILD" {
            shellcheck.arg("--exclude=SC2034,SC2154,SC2164");
        }
        run(shellcheck.arg(released.of_box(script)));
    }
}

#[test]
fn the_script_of_raspiblitz_knows_its_actions() {
    let script = repository().join("contrib/boxes/raspiblitz/bonus.birdhouse.sh");
    let usage = Command::new(&script).output().unwrap();
    assert_eq!(usage.status.code(), Some(1));
    for action in ["on", "off [delete-data]", "update", "status", "menu", "prestart"] {
        assert!(said(&usage).contains(&format!("bonus.birdhouse.sh {action} ")), "{action}");
    }
    assert!(said(&Command::new(&script).arg("dance").output().unwrap()).contains("# FAIL - Unknown Parameter dance"));
    // Every line of the state is a comment or key=value.
    let status = run(Command::new(&script).arg("status"));
    assert!(status.contains("isInstalled=") && status.lines().all(|line| line.starts_with('#') || line.contains('=')));
}

#[test]
fn compose_files_follow_the_schema() {
    let Some(packages) = packages() else { return };
    let released = Released::new();
    let (plain, umbrel) = ("compose/compose.yml", "umbrel/birdhouse/docker-compose.yml");
    let check = || {
        let mut node = Command::new("node");
        node.arg(beside("compose.cjs")).arg(&packages).arg(released.of_box(plain)).arg(released.of_box(umbrel));
        node.output().unwrap()
    };
    let checked = check();
    assert!(checked.status.success(), "{}", said(&checked));
    fs::write(released.of_box(plain), released.read(plain).replace("restart:", "restarts:")).unwrap();
    assert!(!check().status.success());
}

/// Evaluates a file of Nix beside these tests.
fn nix(released: &Released, file: &str, arguments: &[&str]) -> Value {
    let state = released.folder(file);
    let mut nix = Command::new("nix-instantiate");
    for (variable, folder) in
        [("NIX_STORE_DIR", "store"), ("NIX_STATE_DIR", "var"), ("NIX_LOG_DIR", "log"), ("NIX_CONF_DIR", "conf")]
    {
        nix.env(variable, state.join(folder));
    }
    nix.args(["--eval", "--strict", "--json"]).args(arguments).arg(beside(file));
    serde_json::from_str(&run(&mut nix)).unwrap()
}

#[test]
fn the_module_of_nix_bitcoin_takes_a_pruned_node_and_reads_its_blocks() {
    if !has("nix-instantiate") {
        return;
    }
    let module = nix(&Released::new(), "nix-bitcoin.nix", &["--arg", "prune", "1"]);
    assert_eq!(module["assertions"].as_array().unwrap().len(), 0, "{module}");
    assert_eq!(module["bitcoind"]["dataDirReadableByGroup"], true);
    assert!(module["bitcoind"].get("txindex").is_none() && module["bitcoind"].get("prune").is_none(), "{module}");
    assert_eq!(module["groups"], serde_json::json!(["bitcoin"]));
    let credential = module["service"]["LoadCredential"].as_str().unwrap();
    assert!(credential.starts_with("rpc-password:/etc/nix-bitcoin-secrets/"), "{credential}");
    // The methods that a login needs, and those beside a pruned node.
    let manual = fs::read_to_string(repository().join("docs/service.md")).unwrap();
    let needed = manual.split("rpcwhitelist=birdhouse:").nth(1).unwrap().lines().next().unwrap();
    let allowed = module["bitcoind"]["rpc"]["users"]["birdhouse"]["rpcwhitelist"].to_string();
    for method in needed.split(',').chain(["pruneblockchain", "gettxout", "getblockfrompeer", "getpeerinfo"]) {
        assert!(allowed.contains(&format!("\"{method}\"")), "{method}");
    }
}

#[test]
fn the_flake_builds_the_sources_around_it() {
    if !has("nix-instantiate") {
        return;
    }
    let package = nix(&Released::new(), "nix-package.nix", &[]);
    let root = repository();
    assert_eq!(package["version"], VERSION);
    assert_eq!(PathBuf::from(package["src"].as_str().unwrap()), root);
    assert_eq!(PathBuf::from(package["lock"].as_str().unwrap()), root.join("Cargo.lock"));
    assert!(PathBuf::from(package["module"].as_str().unwrap()).is_file());
    assert_eq!(package["systems"], serde_json::json!(["aarch64-linux", "x86_64-linux"]));
}

#[test]
fn the_formula_installs_what_the_tarball_has() {
    if !has("ruby") {
        return;
    }
    let released = Released::new();
    let formula = released.of_box("homebrew/birdhouse.rb");
    run(Command::new("ruby").arg("-c").arg(&formula));
    let mut ruby = Command::new("ruby");
    let said = run(ruby.arg(beside("formula.rb")).arg(&formula).current_dir(released.unpacked()));
    let found: Value = serde_json::from_str(&said).unwrap();
    let url =
        |cpu: &str| format!("{REPOSITORY}/releases/download/v{VERSION}/birdhouse-{VERSION}-{cpu}-linux-gnu.tar.xz");
    assert_eq!(found["downloads"]["on_intel"]["url"], url("x86_64"));
    assert_eq!(found["downloads"]["on_arm"]["url"], url("aarch64"));
    for name in ["bin/birdhouse", "etc/birdhouse.toml", "man1/birdhouse.1", "zsh_completion/_birdhouse"] {
        assert!(found["installed"].as_array().unwrap().iter().any(|one| one == name), "{name}: {found}");
    }
    let started = serde_json::json!(["opt_bin/birdhouse", "run", "--config", "etc/birdhouse.toml"]);
    assert_eq!(found["service"]["run"], started);
}

/// Builds the package of Arch from the tarball, which lies where makepkg would download it to.
#[test]
fn makepkg_builds_the_package_of_arch() {
    let architecture = std::env::consts::ARCH;
    if !["makepkg", "bsdtar", "fakeroot"].into_iter().all(has) {
        return;
    }
    let released = Released::new();
    let folder = released.of_box("aur");
    let tarball = format!("birdhouse-{VERSION}-{architecture}-linux-gnu.tar.xz");
    fs::copy(released.out().join(&tarball), folder.join(&tarball)).unwrap();
    let mut makepkg = if Uid::effective().is_root() {
        run(Command::new("chmod").arg("755").arg(released.of_box("..")));
        run(Command::new("chown").args(["-R", NOBODY]).arg(&folder));
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "makepkg"]);
        setpriv
    } else {
        Command::new("makepkg")
    };
    // There is no pacman, which would look for the packages that this one needs.
    makepkg.args(["--nodeps"]).envs([("PACMAN", "true"), ("PKGEXT", ".pkg.tar")]);
    run(makepkg.env("CARCH", architecture).env("HOME", &folder).current_dir(&folder));
    let package = folder.join(format!("birdhouse-bin-{VERSION}-1-{architecture}.pkg.tar"));
    let list = run(Command::new("tar").arg("--list").arg("--verbose").arg("--file").arg(&package));
    for (mode, name) in [
        ("-rwxr-xr-x root/root", "usr/bin/birdhouse"),
        ("-rw-r----- root/root", "etc/birdhouse.toml"),
        ("-rw-r--r-- root/root", "usr/lib/systemd/system/birdhouse.service"),
        ("-rw-r--r-- root/root", "usr/lib/sysusers.d/birdhouse.conf"),
        ("-rw-r--r-- root/root", "usr/lib/tmpfiles.d/birdhouse.conf"),
        ("-rw-r--r-- root/root", "usr/share/man/man1/birdhouse.1.gz"),
    ] {
        assert!(
            list.lines().any(|line| line.starts_with(mode) && line.ends_with(&format!(" {name}"))),
            "{name}: {list}"
        );
    }
    let of =
        |name: &str| run(Command::new("tar").arg("--extract").arg("--to-stdout").arg("--file").arg(&package).arg(name));
    assert!(of("etc/birdhouse.toml").contains("\ndata-dir = \"/var/lib/birdhouse\"\n"));
    assert!(of("usr/lib/systemd/system/birdhouse.service").contains("ExecStart=/usr/bin/birdhouse run "));
    assert_eq!(of("usr/lib/sysusers.d/birdhouse.conf").lines().count(), 1);
}
