//! Power cuts after a publish: the array files have lost any part of the writes since their last sync.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::journal::{Due, LEAF_BYTES_MAX};

const SPECS: [ArraySpec; 2] =
    [ArraySpec { name: "bytes", record_bytes: 1 }, ArraySpec { name: "threes", record_bytes: 3 }];
/// The array of writes that are too large for a leaf, so that the next publish syncs.
const LARGE: ArraySpec = ArraySpec { name: "large", record_bytes: 1 };

#[derive(Debug, Clone)]
enum Step {
    /// Writes at `at` thousandths of the array's length; a write beyond the end leaves a hole.
    Write {
        array: usize,
        at: u64,
        records: u8,
        byte: u8,
    },
    Cut {
        array: usize,
        at: u64,
    },
    Publish,
    Sync,
    Reopen,
}

/// The state on disk of a file that was changed since its sync.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Kept,
    /// The synced bytes.
    Lost,
    /// The synced bytes, then zeros up to the length before the cut.
    Zeroed,
    /// The synced bytes, then zeros up to half of the growth.
    Half,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..2_usize, 0..1200_u64, 1..40_u8, any::<u8>())
            .prop_map(|(array, at, records, byte)| Step::Write { array, at, records, byte }),
        2 => (0..2_usize, 0..1000_u64).prop_map(|(array, at)| Step::Cut { array, at }),
        4 => Just(Step::Publish),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..60)
}

fn fates() -> impl Strategy<Value = [Fate; 2]> {
    let fate = || prop_oneof![Just(Fate::Kept), Just(Fate::Lost), Just(Fate::Zeroed), Just(Fate::Half)];
    [fate(), fate()]
}

type Files = BTreeMap<&'static str, Vec<u8>>;

/// Names of the files of an array, which share a fate.
const FILES: [[&str; 2]; 2] = [["bytes", "bytes.crc"], ["threes", "threes.crc"]];

fn files(path: &Path) -> Files {
    let read = |name| (name, fs::read(path.join("arrays").join(name)).unwrap_or_default());
    FILES.as_flattened().iter().copied().map(read).collect()
}

/// Publishes, and takes note of the files if that synced them.
fn publish(store: &SegmentStore, path: &Path, manifest: &[u8], synced: &mut Files) {
    store.publish(manifest).unwrap();
    if store.shared.writer.lock().leaves.is_empty() {
        *synced = files(path);
    }
}

/// Opens the store and publishes, because the first publish syncs everything.
fn begin(path: &Path) -> (SegmentStore, Files) {
    let store = open(path).unwrap();
    whole(&store);
    store.publish(b"opened").unwrap();
    (store, files(path))
}

/// Writes the state on disk to the files.
fn cut_power(path: &Path, synced: &Files, fates: [Fate; 2]) {
    let fates = FILES.iter().zip(fates).flat_map(|(names, fate)| names.map(|name| (name, fate)));
    for (name, fate) in fates {
        let path = path.join("arrays").join(name);
        let (now, mut left) = (fs::read(&path).unwrap_or_default(), synced[name].clone());
        match fate {
            Fate::Kept => left = now,
            Fate::Lost => {}
            Fate::Zeroed => left.resize(now.len().max(left.len()), 0),
            Fate::Half => left.resize(usize::midpoint(now.len().max(left.len()), left.len()), 0),
        }
        fs::write(path, left).unwrap();
    }
}

fn whole(store: &dyn Store) -> Vec<Vec<u8>> {
    let arrays = SPECS.iter().map(|spec| store.array(*spec).unwrap());
    arrays.map(|array| array.read_run(0, usize::try_from(array.len()).unwrap()).unwrap()).collect()
}

fn take(store: &dyn Store, step: &Step) {
    let place =
        |array: usize, at: u64| store.array(SPECS[array]).map(|array| (array.len() * at / 1000, array)).unwrap();
    match *step {
        Step::Write { array, at, records, byte } => {
            let (at, open) = place(array, at);
            open.write(at, &vec![byte; usize::from(records) * SPECS[array].record_bytes]).unwrap();
        }
        Step::Cut { array, at } => {
            let (at, open) = place(array, at);
            open.truncate(at).unwrap();
        }
        Step::Sync => store.array(LARGE).unwrap().write(0, &vec![1; LEAF_BYTES_MAX + 1]).unwrap(),
        Step::Publish | Step::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_was_published_is_whole_whatever_the_files_of_arrays_lost(steps in steps(), fates in fates()) {
        let folder = TempDir::new().unwrap();
        let (mut store, mut synced) = begin(folder.path());
        for step in &steps {
            take(&store, step);
            if !matches!(step, Step::Write { .. }) {
                publish(&store, folder.path(), b"manifest", &mut synced);
            }
            if matches!(step, Step::Reopen) {
                drop(store);
                (store, synced) = begin(folder.path());
            }
        }
        publish(&store, folder.path(), b"last", &mut synced);
        let before = whole(&store);
        drop(store);
        // The second cut strikes during recovery.
        for _ in 0..2 {
            cut_power(folder.path(), &synced, fates);
            let store = open(folder.path()).unwrap();
            prop_assert_eq!(store.manifest().unwrap(), Some(b"last".to_vec()));
            prop_assert_eq!(&whole(&store), &before);
        }
    }
}

#[test]
fn leaves_that_a_failed_publish_should_have_removed_go_with_the_next() {
    let folder = TempDir::new().unwrap();
    let (store, _) = begin(folder.path());
    let bytes = store.array(SPECS[0]).unwrap();
    for (at, byte) in [b"a", b"b", b"c"].into_iter().enumerate() {
        bytes.write(at as u64, byte).unwrap();
        store.publish(b"manifest").unwrap();
    }
    take(&store, &Step::Sync);
    // The steps of a publish that fails at its end.
    assert_eq!(store.shared.arrays.journal().take(), Due::Sync(3));
    store.shared.arrays.journal().failed();
    bytes.write(0, b"zzz").unwrap();
    store.publish(b"manifest").unwrap();
    let before = whole(&store);
    drop((store, bytes));
    assert_eq!(whole(&open(folder.path()).unwrap()), before);
}
