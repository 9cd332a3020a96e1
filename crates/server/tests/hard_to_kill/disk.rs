//! A full disk: a small private file system where mounting is allowed, otherwise a limit on file sizes.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use birdhouse_chain::Profile;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::slow_link::SlowLink;
use birdhouse_testkit::small_disk::{SmallDisk, command_on};
use birdhouse_testkit::{Bitcoind, Options};

use super::bird::fresh_answers;
use super::pruned::assert_same_answers;
use super::{Home, grow, node_with};

/// A private mount: `$1` is the folder, `$2` its size, `$3` a script that sees the mount alone.
const MOUNTED: &str = r#"mount -t tmpfs -o "size=$2" birdhouse-test "$1" && shift 2 && eval "$1""#;

/// Returns `true` if a private file system can be mounted here.
fn can_mount() -> bool {
    let probe = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "probe", "/mnt"]).output();
    let can = probe.is_ok_and(|output| output.status.success());
    if !can {
        println!("no file system can be mounted here: only the limit on the size of files is tested");
    }
    can
}

/// Returns a command that runs `script` on a private file system of this size over the home's index, and copies the
/// files back at the end.
fn on_small_disk(home: &Home, size: &str, script: &str) -> Vec<String> {
    let disk = home.index_dir().display().to_string();
    std::fs::create_dir_all(&disk).unwrap();
    let kept = home.dir.path().join("kept").display().to_string();
    let script = format!("{script}\ncp -r {disk} {kept}");
    ["unshare", "-Urm", "sh", "-ec", MOUNTED, "sh", &disk, size, &script].map(str::to_owned).into()
}

/// Replaces the index by the files that were copied back.
fn take_back(home: &Home) {
    std::fs::remove_dir_all(home.index_dir()).unwrap();
    std::fs::rename(home.dir.path().join("kept"), home.index_dir()).unwrap();
}

fn quoted(line: &[String]) -> String {
    line.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

#[test]
fn build_on_a_full_disk_fails_with_a_message_and_resumes_with_room() {
    if !can_mount() {
        return;
    }
    let (node, chain) = node_with(31, Size::SMALL);
    let home = Home::new(&node, Profile::Full);
    let index = quoted(&home.command_line("index"));
    // From no room to almost enough: each attempt gets further.
    let script = format!(
        "for left in 0 16 64 256 512 1024; do
             head -c 100M /dev/zero > {disk}/filler 2>/dev/null || true
             truncate -s -${{left}}K {disk}/filler
             echo \"with $left KiB\"; {index} && echo enough || true
             rm {disk}/filler
         done
         {index}",
        disk = home.index_dir().display()
    );
    let status = home.spawn(&on_small_disk(&home, "64m", &script)).wait();
    let log = home.log();
    assert!(status.success(), "{log}");
    let attempts: Vec<&str> = log.split("with ").skip(1).collect();
    let failed: Vec<&&str> = attempts.iter().filter(|said| said.contains("birdhouse: ")).collect();
    assert!(failed.len() >= 3, "{log}");
    for said in failed {
        let words = said.lines().find(|line| line.starts_with("birdhouse: ")).unwrap();
        assert!(words.contains("No space left on device"), "{words}");
        assert!(words.contains(&*home.index_dir().to_string_lossy()), "the path is not named: {words}");
    }
    take_back(&home);
    home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), "after the disk was full");
}

#[test]
fn follower_on_a_full_disk_serves_on_says_so_and_goes_on_with_room() {
    if !can_mount() {
        return;
    }
    let (node, mut chain) = node_with(32, Size::SMALL);
    let home = Home::new(&node, Profile::Full);
    let (index, run) = (quoted(&home.command_line("index")), quoted(&home.command_line("run")));
    let script = format!(
        "{index}
         {run} &
         until [ -e {home}/full ]; do sleep 0.05; done
         head -c 100M /dev/zero > {disk}/filler 2>/dev/null || true
         touch {home}/filled
         until [ -e {home}/room ]; do sleep 0.05; done
         rm {disk}/filler
         until [ -e {home}/end ]; do sleep 0.05; done
         kill $!
         wait $!
         {index}",
        disk = home.index_dir().display(),
        home = home.dir.path().display(),
    );
    let tell = |word: &str| std::fs::write(home.dir.path().join(word), []).unwrap();
    let disk = home.spawn(&on_small_disk(&home, "64m", &script));
    home.wait_for_tip(&chain);
    tell("full");
    home.wait_until("the disk is filled", || home.dir.path().join("filled").exists());
    let mut served = chain.clone();
    // The engine has some room in its files; a few blocks use it up.
    while !home.log().contains("failed to index; serving what is known, trying again") {
        served.clone_from(&chain);
        grow(&mut chain, 3);
        chain.submit_to(&node).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let log = home.log();
    let words = log.lines().find(|line| line.contains("failed to index; serving what is known")).unwrap();
    assert!(words.contains("No space left on device"), "{words}");
    assert!(words.contains(&*home.index_dir().to_string_lossy()), "the path is not named: {words}");
    assert!(home.served_height().is_some_and(|height| height + 6 >= served.height()), "the last snapshot is served");
    tell("room");
    home.wait_for_tip(&chain);
    tell("end");
    let status = disk.wait();
    assert!(status.success(), "{}", home.log());
    take_back(&home);
    home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), "after the disk was full");
}

/// Mebibytes of a disk that a node and its index share. Core ends once it has less than 50 MB.
const SHARED_MIB: u64 = 128;

#[test]
fn a_disk_that_node_and_index_share_becomes_full_during_the_download_and_both_go_on_with_room() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let holder = Home::of_relay(&[]);
    let line = command_on(folder.path(), SHARED_MIB);
    let holding = holder.spawn(&["sh", "-c", &line, "sleep", "infinity"].map(str::to_owned));
    let comm = format!("/proc/{}/comm", holding.pid());
    holder.wait_until("the disk is mounted", || fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
    let disk = SmallDisk::of(holding.pid(), folder.path()).unwrap();
    let on_disk = |name: &str| {
        fs::create_dir(disk.folder().join(name)).unwrap();
        disk.folder().join(name)
    };

    let (port, mut chain) = (free_port().unwrap(), mix::sample(34, Size::SMALL));
    let twin = Options::default().arg("-fastprune").arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"));
    let twin = Bitcoind::start(twin).unwrap();
    grow(&mut chain, 400);
    chain.submit_to(&twin).unwrap();
    let link = SlowLink::open(port, Duration::from_millis(500)).unwrap();
    let datadir = folder.path().join("node");
    fs::create_dir_all(datadir.join("regtest")).unwrap();
    symlink(on_disk("blocks"), datadir.join("regtest/blocks")).unwrap();
    let options = Options::default().in_datadir(&datadir).arg("-fastprune").arg("-maxtipage=1");
    let mut node = Bitcoind::start(options).unwrap();
    let home = Home::new(&node, Profile::Full);
    symlink(on_disk("index"), home.index_dir()).unwrap();
    let server = home.start("run");
    node.connect(link.port()).unwrap();
    home.wait_until("the index grows", || home.served_height().is_some_and(|height| height > 50));

    disk.fill_up_to(0).unwrap();
    home.wait_until("the node ends", || node.height().is_err());
    home.wait_for_log(0, "the node cannot answer, trying again");
    let served = home.served_height().unwrap();
    assert!(served < chain.height(), "the download was over before");
    // The index has the same disk, and must not end with the node.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(home.served_height(), Some(served));

    disk.make_room().unwrap();
    node.kill9();
    node.restart().unwrap();
    node.connect(link.port()).unwrap();
    home.wait_for_tip(&chain);
    drop(server);
    assert!(!home.log().contains("panicked"), "{}", home.log());
    assert_same_answers(&home, &twin, &chain, "after the shared disk was full");
}

#[test]
fn build_with_a_file_size_limit_fails_with_a_message_and_resumes_without() {
    let (node, chain) = node_with(33, Size::SMALL);
    let home = Home::new(&node, Profile::Full);
    // The array of txids needs 54 blocks.
    for blocks in [1, 16, 48] {
        let said = home.log().len();
        // Ignores the limit's signal, so that writes fail instead. Units of 512 bytes.
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec {}", quoted(&home.command_line("index")));
        // The log has to fit as well.
        let limited = format!("({limited}) 2>&1 | cat; exit 1");
        assert!(!home.spawn(&["sh".to_owned(), "-c".to_owned(), limited]).wait().success());
        let log = home.log().split_off(said);
        let words = log.lines().find(|line| line.starts_with("birdhouse: "));
        let words = words.unwrap_or_else(|| panic!("no words with {blocks}: {log}"));
        assert!(words.contains("File too large"), "{words}");
        assert!(words.contains(&*home.index_dir().to_string_lossy()), "the path is not named: {words}");
    }
    home.index();
    home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), "after the limit was lifted");
}
