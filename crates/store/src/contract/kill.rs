//! Kills at random moments: everything published is there afterwards.
//!
//! The test starts itself again as the writer, which prints each manifest after its publish returned.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::harness::{NUMBERS, OpenAt, PARTS, PLAIN, get};
use crate::batch::Batch;
use crate::store::Store;

const FOLDER_VARIABLE: &str = "BIRDHOUSE_STORE_KILL_FOLDER";
const ROUNDS: u64 = 12;
/// Number of rows of each step in each table.
const STEP_ROWS: u64 = 200;

fn key(step: u64, number: u64) -> Vec<u8> {
    [step.wrapping_mul(0x9e37_79b9).to_be_bytes(), number.to_be_bytes()].concat()
}

fn value(step: u64, number: u64) -> Vec<u8> {
    (step * STEP_ROWS + number).to_be_bytes().repeat(3)
}

fn last_step(store: &dyn Store) -> u64 {
    let manifest = store.manifest().unwrap();
    manifest.map_or(0, |manifest| u64::from_be_bytes(manifest.try_into().unwrap()))
}

/// Writes one step: rows, records and in every third step a bulk run; then publishes it.
fn write_step(store: &dyn Store, step: u64) {
    let mut batch = Batch::new();
    let records: Vec<_> = (0..STEP_ROWS).flat_map(|number| value(step, number)[..8].to_vec()).collect();
    store.array(NUMBERS).unwrap().write((step - 1) * STEP_ROWS, &records).unwrap();
    for number in 0..STEP_ROWS {
        batch.put(PLAIN, key(step, number), value(step, number));
    }
    store.write(batch).unwrap();
    if step.is_multiple_of(3) {
        let mut run = store.bulk_run(PARTS).unwrap();
        for number in 0..STEP_ROWS {
            run.push(&key(step, number), &value(step, number)).unwrap();
        }
        store.bulk_load(vec![run.finish().unwrap()]).unwrap();
    } else {
        let mut batch = Batch::new();
        for number in 0..STEP_ROWS {
            batch.put(PARTS, key(step, number), value(step, number));
        }
        store.write(batch).unwrap();
    }
    store.publish(&step.to_be_bytes()).unwrap();
}

/// Asserts every row and record of every step up to the manifest.
fn prove(store: &dyn Store, manifest: u64) {
    let array = store.array(NUMBERS).unwrap();
    for step in 1..=manifest {
        for table in [PLAIN, PARTS] {
            for number in (0..STEP_ROWS).step_by(17) {
                let found = get(store, table, &key(step, number));
                assert_eq!(found, Some(value(step, number)), "step {step} of {manifest}");
            }
        }
        let first = (step - 1) * STEP_ROWS;
        let records = array.read_run(first, usize::try_from(STEP_ROWS).unwrap()).unwrap();
        assert_eq!(records[..8], value(step, 0)[..8], "step {step} of {manifest}");
    }
}

/// Writes and publishes until it is killed, in the folder that [`survive`] names; nothing without one.
pub(crate) fn write_until_killed(open: OpenAt) {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let store = open(Path::new(&folder)).expect("the store opens");
    let store = &*store;
    let done = last_step(store);
    prove(store, done);
    store.array(NUMBERS).unwrap().truncate(done * STEP_ROWS).unwrap();
    if done > 0 {
        store.publish(&done.to_be_bytes()).unwrap();
    }
    println!("\nready {done}");
    for step in done + 1.. {
        write_step(store, step);
        println!("\npublished {step}");
    }
}

/// Kills a writer again and again, and proves what it published. `writer` is the path of the test that calls
/// [`write_until_killed`]; it gets the `variables`.
pub(crate) fn survive(open: OpenAt, writer: &str, variables: &[(&str, String)]) {
    let folder = TempDir::new().unwrap();
    let mut published = 0;
    for round in 0..ROUNDS {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", writer, "--nocapture"])
            .env(FOLDER_VARIABLE, folder.path())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut steps = out.lines().map_while(std::result::Result::ok).filter_map(|line| {
            let (word, step) = line.split_once(' ')?;
            (word == "ready" || word == "published").then(|| step.parse::<u64>().ok())?
        });
        // Wait for a few steps, then for a moment inside the next one.
        let wanted = round % 5;
        let reported = steps.by_ref().take(1 + usize::try_from(wanted).unwrap()).last();
        std::thread::sleep(std::time::Duration::from_micros(round * 1700 % 20_000));
        process.kill().unwrap();
        // What it still reported before it died counts too.
        let reported = steps.last().or(reported).expect("the writer came to work");
        process.wait().unwrap();
        assert!(reported >= published, "round {round} fell back from {published} to {reported}");
        let store = open(folder.path()).expect("the store opens");
        let store = &*store;
        published = last_step(store);
        assert!(published >= reported, "round {round}: {reported} was published, {published} is there");
        prove(store, published);
    }
    assert!(published > ROUNDS, "the writer hardly wrote: {published}");
}
