//! Tweaks of silent payments over HTTP, against files that a model of BIP 352 and an own writer make from the blocks.

use birdhouse_chain::TweakDetail;
use birdhouse_esplora::Limits;
use birdhouse_testkit::openapi::OpenApi;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::Network;
use bitcoin::hex::DisplayHex as _;
use serde_json::{Value, json};

use crate::eligible::{Eligible, eligible};
use crate::world::{Got, Rest, World};

const LIMITS: [u64; 4] = [0, 600, 1000, 3750];

/// A file, as block-dn writes it (`serializeSPTweaks`). No block of a test has 253 tweaks.
fn file(blocks: &[Vec<Eligible>], start: usize, dust: u64) -> Vec<u8> {
    let mut file = Network::Regtest.magic().to_bytes().to_vec();
    file.extend([0, 2]);
    file.extend(u32::try_from(start).unwrap().to_le_bytes());
    file.extend(dust.to_le_bytes());
    for block in blocks.iter().skip(start).take(2000) {
        let left: Vec<_> = block.iter().filter(|one| one.largest > dust).collect();
        file.push(u8::try_from(left.len()).unwrap());
        for one in left {
            file.extend(one.tweak);
        }
    }
    file
}

/// Pays taproot outputs with values around every limit, each in a transaction of its own, and one of several.
fn pay_around_the_limits(world: &mut World) {
    let lock = |salt| Lock::new(Form::P2tr, salt);
    for (salt, sats) in (300..).zip([330, 599, 600, 601, 999, 1000, 1001, 3749, 3750, 3751, 100_000]) {
        world.live.pay(&[Payment::to_lock(lock(salt), sats)]).unwrap();
        world.live.mine().unwrap();
    }
    let several = [(401, 330), (402, 5000), (403, 700)].map(|(salt, sats)| Payment::to_lock(lock(salt), sats));
    world.live.pay(&several).unwrap();
    world.live.mine().unwrap();
    let coin = world.live.confirmed_coins().remove(0);
    let worthless = world.live.sign(&[coin], &[Payment::to_lock(lock(404), 0)]);
    world.live.mine_these(vec![worthless]).unwrap();
    world.sync();
}

fn get(world: &World, start: u32, dust: u64) -> Got {
    world.rest.get(&format!("/block-dn/sp/tweaks/{dust}/{start}"))
}

#[test]
fn files_have_the_tweaks_of_the_model_above_each_limit() {
    let mut world = World::start(181);
    pay_around_the_limits(&mut world);
    let behind = get(&world, 0, 0);
    assert_eq!((behind.status, behind.header("retry-after")), (503, "10"), "{}", behind.text());
    world.rest.compute_derived();
    let blocks = eligible(world.live.ledger());
    assert!(blocks.iter().flatten().any(|one| one.largest == 0), "one pays nothing");
    let files = LIMITS.map(|dust| {
        let got = get(&world, 0, dust);
        assert_eq!((got.status, got.header("content-type")), (200, "application/octet-stream"), "{dust}");
        assert_eq!(got.header("cache-control"), "public, max-age=60");
        assert!(got.body == file(&blocks, 0, dust), "{dust}");
        got.body
    });
    assert!(files.windows(2).all(|two| two[0].len() > two[1].len()), "each limit leaves some out");
    let tip = blocks.len() - 1;
    let status = world.rest.json("/block-dn/status");
    assert_eq!((&status["best_sptweak_height"], &status["entries_per_sptweak_file"]), (&json!(tip), &json!(2000)));
    assert_eq!(status["all_files_synced"], json!(true));
    for (path, reason) in [
        ("546/0", "unknown dust limit"),
        ("0/1", "multiple of 2000"),
        ("0/2000", "beyond the last height"),
        ("x/0", "Invalid number"),
        ("0/x", "Invalid number"),
        ("-1/0", "Invalid number"),
    ] {
        let got = world.rest.get(&format!("/block-dn/sp/tweaks/{path}"));
        assert!(got.status == 400 && got.text().contains(reason), "{path}: {} {}", got.status, got.text());
    }
}

#[test]
fn a_part_of_a_file_is_served_as_long_as_the_file_is_the_same() {
    let mut world = World::small(182);
    pay_around_the_limits(&mut world);
    world.rest.compute_derived();
    let path = "/block-dn/sp/tweaks/600/0";
    let whole = world.rest.get(path);
    assert_eq!(whole.header("accept-ranges"), "bytes");
    let (etag, len) = (whole.header("etag").to_owned(), whole.body.len());
    assert!(etag.starts_with('"'), "a strong validator: {etag}");
    assert_eq!(world.rest.get_with(path, &[("if-none-match", &etag)]).status, 304);
    for (first, last) in
        [(0, 0), (0, len - 1), (5, 17), (17, 18), (18, 18), (19, 200), (len - 1, len - 1), (200, 99_999)]
    {
        let asked = format!("bytes={first}-{last}");
        let got = world.rest.get_with(path, &[("range", &asked), ("if-range", &etag)]);
        let end = last.min(len - 1);
        assert_eq!((got.status, got.header("content-range")), (206, &*format!("bytes {first}-{end}/{len}")), "{asked}");
        assert_eq!(got.header("content-length"), (end + 1 - first).to_string());
        assert!(got.body == whole.body[first..=end], "{asked}");
        assert_eq!(got.header("etag"), etag);
    }
    // Every split of a download gives the file.
    for at in (1..len).step_by(7) {
        let rest = world.rest.get_with(path, &[("range", &format!("bytes={at}-"))]);
        assert!(rest.status == 206 && rest.body == whole.body[at..], "{at}");
    }
    let beyond = world.rest.get_with(path, &[("range", &format!("bytes={len}-"))]);
    assert_eq!(beyond.status, 416);
    let several = world.rest.get_with(path, &[("range", "bytes=0-1,5-6")]);
    assert!(several.status == 200 && several.body == whole.body);
    // After a reorg it is another file, and whoever has a part of the old one gets the new one whole.
    let tip = world.live.ledger().height();
    world.live.branch(tip - 2, vec![Vec::new(); 4]).unwrap();
    world.sync();
    world.rest.compute_derived();
    let got = world.rest.get_with(path, &[("range", "bytes=100-"), ("if-range", &etag)]);
    assert_ne!(got.header("etag"), etag);
    assert!(got.status == 200 && got.body == file(&eligible(world.live.ledger()), 0, 600));
}

#[test]
fn a_file_is_complete_ten_blocks_below_the_tip_and_the_next_one_follows() {
    let mut world = World::small(183);
    let missing = 2000 - world.live.ledger().chain().len();
    world.live.mine_empty(missing - 5).unwrap();
    pay_around_the_limits(&mut world);
    world.rest.compute_derived();
    let height = world.live.ledger().height();
    assert!((2000..2009).contains(&height), "{height}");
    assert_eq!(get(&world, 0, 0).header("cache-control"), "public, max-age=60", "a reorg may still change it");
    world.live.mine_empty((2009 - height) as usize).unwrap();
    world.sync();
    world.rest.compute_derived();
    let blocks = eligible(world.live.ledger());
    for (start, cached) in [(0, "public, max-age=31536000"), (2000, "public, max-age=60")] {
        for dust in LIMITS {
            let got = get(&world, start, dust);
            assert_eq!((got.status, got.header("cache-control")), (200, cached), "{start}");
            assert!(got.body == file(&blocks, start as usize, dust), "{start} {dust}");
        }
    }
    let etag = get(&world, 0, 0).header("etag").to_owned();
    let tip = world.live.ledger().height();
    world.live.branch(tip - 9, vec![Vec::new(); 11]).unwrap();
    world.sync();
    world.rest.compute_derived();
    assert_eq!(get(&world, 0, 0).header("etag"), etag, "a reorg of nine blocks leaves a complete file as it was");
}

#[test]
fn blindbit_has_the_tweaks_of_each_block_with_its_hash() {
    let mut world = World::start(184);
    pay_around_the_limits(&mut world);
    assert_eq!(world.rest.get("/blindbit/tweaks/50").status, 503, "none is computed yet");
    world.rest.compute_derived();
    let blocks = eligible(world.live.ledger());
    let document = OpenApi::new(world.rest.json("/openapi.json"));
    let checked = |path: &str, height: usize| {
        let answer = world.rest.json(&path.replace("{height}", &height.to_string()));
        assert_eq!(document.check("GET", path, &answer), Ok(()), "{path}");
        answer
    };
    for (height, (mined, expected)) in world.live.ledger().chain().iter().zip(&blocks).enumerate() {
        let block = json!({ "block_hash": mined.hash.to_string(), "block_height": height });
        let answer = |index: Vec<Value>| json!({ "block_identifier": block, "index": index });
        let tweaks = expected.iter().map(|one| json!(one.tweak.to_lower_hex_string())).collect();
        assert_eq!(checked("/blindbit/tweaks/{height}", height), answer(tweaks));
        let items = expected.iter().map(|one| {
            let keys: Vec<String> = one.keys.iter().map(|key| key[..8].to_lower_hex_string()).collect();
            json!({ "txid": one.txid.to_string(), "tweak": one.tweak.to_lower_hex_string(), "outputs": keys })
        });
        assert_eq!(checked("/blindbit/compute-index/{height}", height), answer(items.collect()));
    }
    let info = checked("/blindbit/info", 0);
    assert_eq!((&info["network"], &info["height"]), (&json!("regtest"), &json!(blocks.len() - 1)));
    for height in ["x", "-1", &blocks.len().to_string()] {
        let got = world.rest.get(&format!("/blindbit/tweaks/{height}"));
        assert_eq!((got.status, got.header("content-type")), (400, "application/json"), "{height}");
        let error: Value = serde_json::from_slice(&got.body).unwrap();
        assert!(error["error"].is_string(), "{error}");
    }
}

#[test]
fn a_server_without_the_index_and_one_without_keys_say_so() {
    let world = World::small(185);
    let paths = ["/block-dn/sp/tweaks/0/0", "/blindbit/info", "/blindbit/tweaks/1", "/blindbit/compute-index/1"];
    let off = Rest::with_tweaks(world.live.node(), Limits::default(), None);
    off.build();
    for path in paths {
        let (status, text) = off.refusal(path);
        assert!(status == 503 && text.contains("keeps no index of silent payments"), "{path}: {text}");
    }
    assert_eq!(off.json("/block-dn/status")["best_sptweak_height"], Value::Null);
    let scan = Rest::with_tweaks(world.live.node(), Limits::default(), Some(TweakDetail::Scan));
    scan.build();
    scan.compute_derived();
    for (path, status) in paths.into_iter().zip([200, 200, 200, 503]) {
        assert_eq!(scan.get(path).status, status, "{path}");
    }
}
