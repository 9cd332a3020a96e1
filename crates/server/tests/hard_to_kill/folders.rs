//! Data folders in use or of another kind, and block files that end in the middle of a block.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use birdhouse_chain::Profile;
use birdhouse_testkit::mix::Size;

use super::{Home, grow, node_with};

const TINY: Size = Size { blocks: 5, block_txs: 3, scripts_per_form: 5, busy: &[] };

#[test]
fn second_birdhouse_on_one_folder_fails_with_a_message() {
    let (node, chain) = node_with(26, TINY);
    let home = Home::new(&node, Profile::Full);
    let server = home.start("run");
    home.wait_for_tip(&chain);
    for command in ["run", "index", "verify"] {
        let (done, said) = home.output(command, &[]);
        assert!(!done && said.contains("another birdhouse uses this folder"), "{command}: {said}");
        assert!(said.contains(&*home.index_dir().to_string_lossy()), "{command}: {said}");
    }
    // The first one is not affected.
    home.wait_for_tip(&chain);
    drop(server);
}

#[test]
fn folder_of_another_profile_or_network_is_refused() {
    let (node, _) = node_with(27, TINY);
    let home = Home::new(&node, Profile::Full);
    home.index();
    let lean = Home::new(&node, Profile::Lean);
    std::fs::rename(home.index_dir(), lean.index_dir()).unwrap();
    let (done, said) = lean.output("index", &[]);
    assert!(!done && said.contains("set it back to profile = \"full\""), "{said}");

    // The folder of one network, renamed to that of another.
    let blocks = tempfile::tempdir().unwrap();
    std::fs::write(blocks.path().join("blk00000.dat"), [0; 4096]).unwrap();
    std::fs::rename(lean.index_dir(), home.dir.path().join("signet")).unwrap();
    let data_dir = format!("--data-dir={}", home.dir.path().display());
    let blocks_dir = format!("--blocks-dir={}", blocks.path().display());
    let line = [env!("CARGO_BIN_EXE_birdhouse"), "index", "--network=signet", &data_dir, &blocks_dir];
    let output = std::process::Command::new(line[0]).args(&line[1..]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("index of another network"), "{said}");
}

#[test]
fn half_written_last_record_is_ignored() {
    let (mut node, mut chain) = node_with(28, TINY);
    node.stop().unwrap();
    let whole = chain.clone();
    grow(&mut chain, 1);
    let block = bitcoin::consensus::serialize(chain.blocks().last().unwrap());
    let size = u32::try_from(block.len()).unwrap().to_le_bytes();
    let record = [&bitcoin::Network::Regtest.magic().to_bytes()[..], &size, &block].concat();
    let endings: [&[u8]; 5] = [b"garbage", &record[..5], &record[..60], &record[..record.len() - 1], &record];
    for (number, ending) in endings.iter().enumerate() {
        let blocks = tempfile::tempdir().unwrap();
        copy_folder(&node.blocks_dir(), blocks.path());
        append_to_newest(blocks.path(), ending);
        let home = Home::without_node(blocks.path());
        home.index();
        let (proved, said) = home.output("verify", &["--all"]);
        let expected = format!("blocks 0 to {}:", whole.height());
        assert!(proved && said.contains(&expected) && said.contains(" 0 differences"), "ending {number}: {said}");
    }
}

/// Returns the position of Core's next write, over the zeros that it has allocated.
fn append_to_newest(blocks_dir: &Path, ending: &[u8]) {
    let path = blocks_dir.join("blk00000.dat");
    let mut key = std::fs::read(blocks_dir.join("xor.dat")).unwrap_or_default();
    if key.is_empty() {
        key.push(0);
    }
    let bytes = std::fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let hidden: Vec<u8> = ending.iter().zip(end..).map(|(byte, at)| byte ^ key[at % key.len()]).collect();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(end as u64).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(&hidden).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}
