use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::*;

const NOW: u64 = 1_700_000_000;

fn key(number: u8) -> Pubkey {
    Pubkey([number; 32])
}

fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash(Sha256::digest(bytes).into())
}

fn settling(owner: u8, now: u64) -> Settling<'static> {
    Settling { owner: key(owner), media_type: "text/plain", now, quotas: Quotas::Counted }
}

fn put(store: &Store, owner: u8, bytes: &[u8], now: u64) -> Stored {
    let mut incoming = store.begin().unwrap();
    incoming.write(bytes).unwrap();
    store.settle(&incoming, settling(owner, now)).unwrap()
}

fn all() -> ListPage {
    ListPage { after: None, limit: 100, since: 0, until: u64::MAX }
}

/// Returns the names of the files of a store, and panics at a file whose content has another hash.
fn files(folder: &Path) -> BTreeSet<BlobHash> {
    let mut files = BTreeSet::new();
    for part in fs::read_dir(folder.join(FILES)).unwrap() {
        for file in fs::read_dir(part.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let hash = hash_of(&fs::read(&path).unwrap());
            assert_eq!(path.file_name().unwrap().to_str(), Some(&*hash.to_string()));
            files.insert(hash);
        }
    }
    files
}

fn sweep(store: &Store) -> Swept {
    let mut all = Swept::default();
    for part in 0..=u8::MAX {
        let Swept { kept, removed, left } = store.sweep(part, u64::MAX).unwrap();
        all = Swept { kept: all.kept + kept, removed: all.removed + removed, left: all.left + left };
    }
    all
}

#[test]
fn a_blob_of_several_owners_goes_with_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let hash = hash_of(b"hello");
    let blob = Blob { hash, size: 5, uploaded: NOW, media_type: "text/plain".to_owned() };
    assert_eq!(put(&store, 1, b"hello", NOW), Stored::New(blob.clone()));
    assert_eq!(put(&store, 1, b"hello", NOW + 1), Stored::Known(blob.clone()), "the second upload changes nothing");
    assert_eq!(put(&store, 2, b"hello", NOW + 2), Stored::Known(blob.clone()));
    let one = Usage { bytes: 5, files: 1 };
    assert_eq!([store.usage_of(key(1)).unwrap(), store.usage_of(key(2)).unwrap(), store.total().unwrap()], [one; 3]);
    assert_eq!(store.list(key(2), all()).unwrap(), Some(vec![Blob { uploaded: NOW + 2, ..blob.clone() }]));
    assert_eq!(store.remove(hash, key(3)).unwrap(), Removed::NotOwned);
    assert_eq!(store.remove(hash, key(1)).unwrap(), Removed::Owner);
    assert_eq!((store.blob(hash).unwrap(), files(folder.path()).len()), (Some(blob), 1));
    assert!(store.is_owner(hash, key(2)).unwrap() && !store.is_owner(hash, key(1)).unwrap());
    assert_eq!(store.remove(hash, key(2)).unwrap(), Removed::Blob);
    assert_eq!(store.remove(hash, key(2)).unwrap(), Removed::Unknown);
    assert_eq!((store.blob(hash).unwrap(), files(folder.path()).len()), (None, 0));
    assert_eq!([store.usage_of(key(1)).unwrap(), store.usage_of(key(2)).unwrap()], [Usage::default(); 2]);
    assert_eq!(store.total().unwrap(), Usage::default());
    assert!(fs::read_dir(folder.path().join(INCOMING)).unwrap().next().is_none());
}

#[test]
fn a_list_has_the_newest_first_and_goes_on_after_any_of_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for number in 0..10_u8 {
        // Two of each second.
        put(&store, 1, &[number], NOW + u64::from(number / 2));
        put(&store, 2, &[number, 0], NOW);
    }
    let whole = store.list(key(1), all()).unwrap().unwrap();
    let mut expected: Vec<_> = (0..10_u8).map(|number| (NOW + u64::from(number / 2), hash_of(&[number]))).collect();
    expected.sort();
    expected.reverse();
    assert_eq!(whole.iter().map(|blob| (blob.uploaded, blob.hash)).collect::<Vec<_>>(), expected);
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = store.list(key(1), ListPage { after, limit: 3, ..all() }).unwrap().unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.hash);
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    let within = |since, until| store.list(key(1), ListPage { since, until, ..all() }).unwrap().unwrap();
    assert_eq!(within(NOW + 1, NOW + 2), whole[4..8]);
    assert_eq!(within(NOW + 2, NOW + 1), []);
    let later = ListPage { after: Some(whole[0].hash), until: NOW, ..all() };
    assert_eq!(store.list(key(1), later).unwrap().unwrap(), whole[8..]);
    let unknown = ListPage { after: Some(hash_of(&[0, 0])), ..all() };
    assert_eq!(store.list(key(1), unknown).unwrap(), None, "the blob of another key");
    assert_eq!(store.list(key(3), all()).unwrap(), Some(Vec::new()));
}

#[test]
fn what_a_process_left_half_done_is_removed_and_what_is_stored_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    put(&store, 1, b"stored", NOW);
    let orphan = hash_of(b"orphan");
    fs::write(store.path(orphan), b"orphan").unwrap();
    let foreign = store.path(orphan).with_file_name("note.txt");
    fs::write(&foreign, b"an operator's").unwrap();
    fs::write(folder.path().join(INCOMING).join("0"), b"half").unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert!(fs::read_dir(folder.path().join(INCOMING)).unwrap().next().is_none());
    assert_eq!((store.blob(orphan).unwrap(), store.total().unwrap()), (None, Usage { bytes: 6, files: 1 }));
    assert_eq!(sweep(&store), Swept { kept: 1, removed: 1, left: 0 });
    assert!(foreign.exists() && !store.path(orphan).exists());
    fs::remove_file(&foreign).unwrap();
    assert_eq!(files(folder.path()), BTreeSet::from([hash_of(b"stored")]));
    // A file that an operator has removed by hand comes back with the next upload.
    fs::remove_file(store.path(hash_of(b"stored"))).unwrap();
    assert!(store.open_file(hash_of(b"stored")).unwrap().is_none());
    assert!(matches!(put(&store, 1, b"stored", NOW), Stored::Known(_)));
    assert_eq!(files(folder.path()), BTreeSet::from([hash_of(b"stored")]));
}

#[test]
fn one_process_at_a_time_has_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    fs::write(folder.path().join(INCOMING).join("7"), b"of the first").unwrap();
    assert!(Store::open(folder.path()).unwrap_err().to_string().contains("blobs.redb"));
    assert!(folder.path().join(INCOMING).join("7").exists());
    drop(store);
}

#[test]
fn a_blob_that_many_upload_and_delete_has_a_file_exactly_while_it_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let hash = hash_of(b"same");
    std::thread::scope(|scope| {
        for owner in 1..=4 {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..15 {
                    put(store, owner, b"same", NOW);
                    store.sweep(hash.0[0], u64::MAX).unwrap();
                    assert!(store.open_file(hash).unwrap().is_some(), "its owner has not deleted it");
                    store.remove(hash, key(owner)).unwrap();
                }
            });
        }
    });
    assert_eq!((store.blob(hash).unwrap(), store.total().unwrap()), (None, Usage::default()));
    assert_eq!(files(folder.path()), BTreeSet::new());
}

#[test]
fn a_backup_has_the_state_of_one_moment_and_takes_no_space_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    for number in 0..20_u8 {
        put(&store, number % 3, &[number; 10], NOW);
        put(&store, 9, &[number; 10], NOW);
    }
    let gone = (0..20_u8).map(|number| hash_of(&[number; 10])).max().unwrap();
    let owners = (0..10).filter(|owner| store.is_owner(gone, key(*owner)).unwrap()).collect::<Vec<_>>();
    fs::write(store.path(hash_of(b"orphan")), b"orphan").unwrap();
    let target = folder.path().join("copy");
    let mut pieces = 0;
    let mut rest = || {
        pieces += 1;
        if pieces == 1 {
            // Deleted while the backup is made.
            for owner in &owners {
                store.remove(gone, key(*owner)).unwrap();
            }
        }
    };
    let copied = store.back_up(&target, &mut rest).unwrap();
    assert_eq!((copied.missing, copied.damaged.len(), pieces >= 38), (0, 0, true));
    let copied = copied.usage;
    assert_eq!(copied, Usage { bytes: 190, files: 19 });
    let copy = Store::open(&target).unwrap();
    assert_eq!((copy.blob(gone).unwrap(), copy.usage_of(key(9)).unwrap()), (None, copied));
    let mut expected = files(&folder.path().join("store"));
    expected.remove(&hash_of(b"orphan"));
    assert_eq!(files(&target), expected);
    // The copy goes its own way.
    copy.remove(hash_of(&[0; 10]), key(0)).unwrap();
    copy.remove(hash_of(&[0; 10]), key(9)).unwrap();
    assert!(store.path(hash_of(&[0; 10])).exists() && !copy.path(hash_of(&[0; 10])).exists());
    drop(copy);
    // What is missing or damaged keeps nothing else from the backup.
    let mut hashes: Vec<_> = (0..20_u8).map(|number| hash_of(&[number; 10])).collect();
    hashes.sort();
    fs::remove_file(store.path(hashes[0])).unwrap();
    fs::remove_file(store.path(hashes[1])).unwrap();
    fs::write(store.path(hashes[1]), b"other").unwrap();
    let second = folder.path().join("second");
    let copied = store.back_up(&second, &mut || ()).unwrap();
    assert_eq!((copied.usage.files, copied.missing), (18, 1));
    let copy = Store::open(&second).unwrap();
    assert_eq!((copy.blob(hashes[0]).unwrap(), copied.damaged), (None, vec![copy.path(hashes[1])]));
}

#[test]
fn files_whose_index_is_gone_are_not_taken_for_orphans() {
    let folder = tempfile::tempdir().unwrap();
    put(&Store::open(folder.path()).unwrap(), 1, b"kept", NOW);
    let (index, aside) = (folder.path().join(INDEX), folder.path().join("aside"));
    fs::rename(&index, &aside).unwrap();
    assert!(Store::open(folder.path()).unwrap_err().to_string().contains("missing or empty"));
    fs::write(&index, b"").unwrap();
    assert!(Store::open(folder.path()).unwrap_err().to_string().contains("missing or empty"));
    fs::rename(&aside, &index).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!((sweep(&store).kept, files(folder.path()).len()), (1, 1));
    // An older index knows few of the files: a sweep ends when there are too many.
    for number in 0..100_u8 {
        let mut name = hash_of(b"kept").0;
        name[1] ^= 0xff;
        name[2] = number;
        fs::write(store.path(BlobHash(name)), b"orphan").unwrap();
    }
    let swept = store.sweep(hash_of(b"kept").0[0], 30).unwrap();
    assert_eq!(swept, Swept { kept: 1, removed: 30, left: 70 });
}

#[test]
fn a_deletion_that_changes_nothing_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    put(&store, 1, b"kept", NOW);
    let index = || fs::read(folder.path().join(INDEX)).unwrap();
    let before = index();
    assert_eq!(store.remove(hash_of(b"unknown"), key(1)).unwrap(), Removed::Unknown);
    assert_eq!(store.remove(hash_of(b"kept"), key(2)).unwrap(), Removed::NotOwned);
    assert!(index() == before);
}

#[test]
fn a_file_that_was_cut_short_comes_back_with_the_next_upload() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    put(&store, 1, b"whole file", NOW);
    fs::write(store.path(hash_of(b"whole file")), b"whole").unwrap();
    assert!(matches!(put(&store, 2, b"whole file", NOW), Stored::Known(_)));
    assert_eq!(files(folder.path()), BTreeSet::from([hash_of(b"whole file")]));
    assert_eq!(store.counted(), Usage { bytes: 10, files: 1 });
}

#[test]
fn an_upload_that_did_not_count_is_not_added_after_a_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let again = || {
        let mut incoming = store.begin().unwrap();
        incoming.write(b"twice").unwrap();
        store.settle(&incoming, Settling { quotas: Quotas::Owned, ..settling(1, NOW) }).unwrap()
    };
    put(&store, 1, b"twice", NOW);
    assert!(matches!(again(), Stored::Known(_)));
    store.remove(hash_of(b"twice"), key(1)).unwrap();
    assert_eq!((again(), store.total().unwrap()), (Stored::Uncounted, Usage::default()));
    assert_eq!(files(folder.path()), BTreeSet::new());
}

#[test]
fn what_is_no_file_among_the_uploads_stays() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let foreign = folder.path().join(INCOMING).join("lost+found");
    fs::create_dir(&foreign).unwrap();
    Store::open(folder.path()).unwrap();
    assert!(foreign.exists());
}

/// Bytes of the blob with a number.
fn numbered(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(6000)
}

const CHILD_FOLDER: &str = "BLOSSOM_CHILD_FOLDER";

/// The process that [`a_process_that_is_killed_loses_nothing_that_it_has_acknowledged`] kills: uploads and deletes, and
/// acknowledges each on its output.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn child() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = Store::open(Path::new(&folder)).unwrap();
    let first = store.total().unwrap().files * 3000;
    // After what the test harness writes.
    println!();
    for number in first.. {
        put(&store, 1, &numbered(number), NOW);
        println!("put {number}");
        if number % 3 == 2 {
            store.remove(hash_of(&numbered(number - 1)), key(1)).unwrap();
            println!("deleted {}", number - 1);
        }
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_has_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut stored = BTreeSet::new();
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::disk_store::tests::child", "--ignored", "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        let mut deleting = BTreeSet::new();
        let mut note = |line: String, stored: &mut BTreeSet<BlobHash>| {
            let Some((verb, number)) = line.split_once(' ') else { return };
            let Ok(number) = number.parse() else { return };
            let hash = hash_of(&numbered(number));
            match verb {
                "put" => {
                    stored.insert(hash);
                    // Deleted soon after, and perhaps not acknowledged.
                    if number % 3 == 2 {
                        deleting.insert(hash_of(&numbered(number - 1)));
                    }
                }
                "deleted" => assert!(stored.remove(&hash) && deleting.remove(&hash)),
                _ => {}
            }
        };
        for line in lines.by_ref().take(4 + 3 * round) {
            note(line, &mut stored);
        }
        std::thread::sleep(Duration::from_micros(700 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        // The last line may be cut.
        let rest: Vec<_> = lines.collect();
        for line in rest {
            note(line, &mut stored);
        }
        let store = Store::open(folder.path()).unwrap();
        sweep(&store);
        let found = files(folder.path());
        assert!(found.iter().all(|hash| store.blob(*hash).unwrap().is_some()));
        assert_eq!(store.total().unwrap().files, found.len() as u64);
        assert!(stored.difference(&found).all(|hash| deleting.contains(hash)), "round {round}");
        // At most the one that was under way.
        assert!(found.difference(&stored).count() <= 1, "round {round}");
        stored = found;
    }
}
