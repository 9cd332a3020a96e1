//! A packaged service: its configuration file is found, and no command needs a flag.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use birdhouse_testkit::Bitcoind;
use nix::unistd::{Uid, chown};
use tempfile::TempDir;

use crate::modes::{bound_by_modes, set_mode};
use crate::node;
use crate::process::Birdhouse;

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");
/// A user that is not the one of the tests.
const NOBODY: u32 = 65_534;

/// Makes a root with the file of a package beside a node, and a folder for the data.
fn root(node: &Bitcoind) -> TempDir {
    let root = tempfile::Builder::new().prefix("birdhouse-root-").tempdir().unwrap();
    for folder in ["etc", "data"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    // The network is that of the node's folder.
    let text = format!(
        "node-dir = \"{}\"\nrpc-addr = \"127.0.0.1:{}\"\ndata-dir = \"{}\"\nelectrum-addr = \"127.0.0.1:0\"\n\
         relay-addr = \"127.0.0.1:0\"\n",
        node.datadir().display(),
        node.rpc_port(),
        root.path().join("data").display()
    );
    fs::write(file(root.path()), text).unwrap();
    root
}

fn file(root: &Path) -> std::path::PathBuf {
    root.join("etc/birdhouse.toml")
}

/// Runs a command in a root; returns success and all output.
fn run_by(birdhouse: &mut Command, root: &Path, words: &[&str]) -> (bool, String) {
    let output: Output = birdhouse.args(words).env("BIRDHOUSE_ROOT", root).current_dir(root).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn run(root: &Path, words: &[&str]) -> (bool, String) {
    run_by(&mut Command::new(BIRDHOUSE), root, words)
}

#[test]
fn no_command_needs_a_flag_and_each_says_which_file_it_used() {
    let node = node();
    let mut server = Birdhouse::start_packaged(root(&node));
    let root = server.dir().to_owned();
    server.until("serves the tip", || {
        let (done, said) = server.ctl(&["status"]);
        (done && said.contains("serving at height 10")).then_some(())
    });
    let (file, backup) = (file(&root).display().to_string(), root.join("backup").display().to_string());
    let commands: [(&[&str], &str); 7] = [
        (&["ctl", "status"], "serving at height 10"),
        (&["top", "--once"], "regtest"),
        (&["connect"], "electrum --regtest"),
        (&["doctor"], "FAIL"),
        (&["config"], "relay-addr = \"127.0.0.1:0\"  # "),
        (&["verify", "--quick"], " 0 damaged places"),
        (&["backup", &backup], "index: backed up"),
    ];
    for (words, expected) in commands {
        let (done, said) = run(&root, words);
        let is_doctor = words == ["doctor"];
        assert!(done && said.contains(expected) != is_doctor && said.contains(&file), "{words:?}: {said}");
    }
    // Who may not read the node's configuration asks the server, too.
    let conf = node.datadir().join("bitcoin.conf");
    fs::create_dir(&conf).unwrap();
    for words in [&["ctl", "status"][..], &["top", "--once"], &["connect"]] {
        let (done, said) = run(&root, words);
        assert!(done && said.contains("regtest"), "{words:?}: {said}");
    }
    fs::remove_dir(&conf).unwrap();
    // A named file, a variable and a flag win.
    let other = root.join("other.toml").display().to_string();
    fs::write(&other, "network = \"regtest\"\n").unwrap();
    let (done, said) = run(&root, &["ctl", "--config", &other, "status"]);
    assert!(!done && said.contains(&other) && !said.contains(&file), "{said}");
    let flag = format!("--data-dir={}", root.join("nothing").display());
    assert!(!run(&root, &["ctl", &flag, "status"]).0);
    assert!(run(&root, &["ctl", "stop"]).0);
    assert!(server.wait().0.success());
}

#[test]
fn a_file_that_this_user_may_not_read_is_an_error_that_names_the_group() {
    let node = node();
    let root = root(&node);
    // The first class that a user is in counts: the owner may not read it, the group may.
    set_mode(&file(root.path()), 0o040);
    for words in [&["ctl", "status"][..], &["connect"], &["doctor"], &["config"], &["backup", "b"], &["run"]] {
        let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
        let (done, said) = run_by(&mut birdhouse, root.path(), words);
        let expected = "permission denied; members of the group ";
        assert!(!done && said.contains(expected) && said.contains("etc/birdhouse.toml"), "{words:?}: {said}");
    }
    set_mode(&file(root.path()), 0o000);
    let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
    let (_, said) = run_by(&mut birdhouse, root.path(), &["ctl", "status"]);
    assert!(said.contains("its owner "), "{said}");
}

#[test]
fn data_of_another_user_is_left_alone_and_the_user_is_named() {
    if !Uid::effective().is_root() {
        eprintln!("LEFT OUT: only root can give a folder to another user");
        return;
    }
    let node = node();
    let root = root(&node);
    let data = root.path().join("data");
    let mut server = Birdhouse::start_packaged(root);
    server.until("serves", || server.ctl(&["status"]).0.then_some(()));
    for folder in [&data, &data.join("regtest"), &data.join("relay")] {
        chown(folder, Some(Uid::from_raw(NOBODY)), None).unwrap();
    }
    // A running server answers root, and backs up.
    assert!(run(server.dir(), &["ctl", "status"]).0);
    let (_, said) = run(server.dir(), &["doctor"]);
    let expected = "this user is root, and the data folder is of nobody";
    assert!(said.contains(expected) && said.contains("-> sudo -u nobody birdhouse doctor"), "{said}");
    for guess in ["taken by", "not built yet", "chown", "remove"] {
        assert!(!said.contains(guess), "{guess}: {said}");
    }
    // Another user cannot ask; the message names the one that can.
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
    let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
    let (done, said) = run_by(&mut birdhouse, server.dir(), &["ctl", "status"]);
    assert!(!done && said.contains("is of the user nobody: `sudo -u nobody birdhouse ..`"), "{said}");
    assert!(run(server.dir(), &["ctl", "stop"]).0);
    assert!(server.wait().0.success());
    // Without a server this command would make files that nobody cannot write.
    fs::write(server.dir().join("events"), "").unwrap();
    for words in [
        &["backup", "copy"][..],
        &["verify", "--quick"],
        &["verify"],
        &["index"],
        &["prune", "--keep=1GB"],
        &["import", "events"],
        &["import", "--nostream=postgresql://127.0.0.1:1/none"],
        &["export", "copy"],
        &["sync", "ws://127.0.0.1:1"],
        &["watch", "add", "Savings", "bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry"],
    ] {
        let (done, said) = run(server.dir(), words);
        assert!(!done && said.contains("sudo -u nobody birdhouse"), "{words:?}: {said}");
    }
    assert!(!server.dir().join("copy").exists());
}

#[test]
fn data_in_a_folder_that_belongs_to_all_is_of_the_user_who_made_it() {
    if !Uid::effective().is_root() {
        eprintln!("LEFT OUT: only root can give a folder to another user");
        return;
    }
    let node = node();
    let root = root(&node);
    let data = root.path().join("data");
    // As the image has it, so that a container of any user may write there.
    chown(&data, Some(Uid::from_raw(NOBODY)), None).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o1777)).unwrap();
    let (_, said) = run(root.path(), &["doctor"]);
    assert!(said.contains("not built yet") && !said.contains("is of nobody"), "{said}");
    assert!(run(root.path(), &["index"]).0);
    let (_, said) = run(root.path(), &["doctor"]);
    assert!(said.contains("at height 10") && !said.contains("is of nobody"), "{said}");
    assert!(run(root.path(), &["verify", "--quick"]).0);
    chown(&data.join("regtest"), Some(Uid::from_raw(NOBODY)), None).unwrap();
    let (_, said) = run(root.path(), &["doctor"]);
    assert!(said.contains("this user is root, and the data folder is of nobody"), "{said}");
    assert!(!run(root.path(), &["index"]).0);
}

#[test]
fn the_watch_file_of_a_packaged_service_lies_in_its_data_and_any_watch_file_is_backed_up() {
    let node = node();
    let root = root(&node);
    let (dir, copy) = (root.path().to_owned(), root.path().join("copy"));
    let address = "bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry";
    let (done, said) = run(&dir, &["watch", "add", "Savings", address]);
    assert!(done && dir.join("data/watches.toml").exists(), "{said}");
    assert!(!dir.join("etc/watches.toml").exists(), "{said}");
    // The unit names the same file.
    let config = format!("--config={}", file(&dir).display());
    assert!(run(&dir, &["watch", &config, "export"]).1.contains("Savings"));

    assert!(run(&dir, &["index"]).0);
    let other = dir.join("other.toml");
    fs::rename(dir.join("data/watches.toml"), &other).unwrap();
    fs::write(dir.join("data/onion.key"), "ED25519-V3:abc=").unwrap();
    let named = format!("--watch-file={}", other.display());
    let (done, said) = run(&dir, &["backup", &named, "copy"]);
    assert!(done && fs::read(copy.join("watches.toml")).unwrap() == fs::read(&other).unwrap(), "{said}");
    assert_eq!(fs::read_to_string(copy.join("onion.key")).unwrap(), "ED25519-V3:abc=");
    // So does a running server.
    let text = fs::read_to_string(file(&dir)).unwrap() + &format!("watch-file = \"{}\"\n", other.display());
    fs::write(file(&dir), text).unwrap();
    let server = Birdhouse::start_packaged(root);
    server.until("serves", || server.ctl(&["status"]).0.then_some(()));
    assert!(run(&dir, &["backup", "second"]).0);
    assert_eq!(fs::read(dir.join("second/watches.toml")).unwrap(), fs::read(&other).unwrap());
    assert!(dir.join("second/onion.key").exists());
}

#[test]
fn a_backup_of_the_wrong_network_or_of_nothing_is_an_error() {
    let node = node();
    let mut server = Birdhouse::start_packaged(root(&node));
    server.until("serves", || {
        let (_, said) = server.ctl(&["status"]);
        said.contains("serving at height 10").then_some(())
    });
    assert!(run(server.dir(), &["ctl", "stop"]).0);
    assert!(server.wait().0.success());
    let (done, said) = run(server.dir(), &["backup", "--network=signet", "copy"]);
    assert!(!done && said.contains("no index of signet") && said.contains("of regtest"), "{said}");
    assert!(!server.dir().join("copy").exists());
    let (_, said) = run(server.dir(), &["doctor", "--network=signet"]);
    assert!(said.contains("the data folder holds an index of regtest"), "{said}");
    fs::remove_file(server.dir().join("data/relay/VERSION")).unwrap();
    fs::remove_dir_all(server.dir().join("data/regtest")).unwrap();
    assert!(!run(server.dir(), &["backup", "copy"]).0);
}

#[test]
fn relative_folders_an_existing_certificate_and_a_missing_plugin_are_seen_as_they_are() {
    let node = node();
    let root = root(&node);
    let text = fs::read_to_string(file(root.path())).unwrap();
    let absolute = format!("\"{}\"", root.path().join("data").display());
    let text = text.replace(&absolute, "\"new-data\"") + "electrum-tls-addr = \"127.0.0.1:0\"\n";
    fs::write(file(root.path()), &text).unwrap();
    let (_, said) = run(root.path(), &["doctor"]);
    assert!(said.contains("new-data will be created") && !said.contains("chown"), "{said}");
    assert!(said.contains("a self-signed certificate will be made"), "{said}");
    fs::create_dir(root.path().join("new-data")).unwrap();
    let pair = rcgen::generate_simple_self_signed(vec!["wallets.example".to_owned()]).unwrap();
    let pem = pair.cert.pem() + &pair.signing_key.serialize_pem();
    fs::write(root.path().join("new-data/electrum-tls.pem"), pem).unwrap();
    let (_, said) = run(root.path(), &["doctor"]);
    assert!(said.contains("tls: valid for ") && !said.contains("will be made"), "{said}");
    let program = root.path().join("policy");
    let flag = format!("--relay-plugin={} --strict", program.display());
    let (done, said) = run(root.path(), &["doctor", &flag]);
    assert!(!done && said.contains("policy is no program that this user can run"), "{said}");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    set_mode(&program, 0o755);
    assert!(run(root.path(), &["doctor", &flag]).1.contains("policy can be run"));
}
