//! Headers, filter headers and filters in files, as clients of block-dn read them.

use birdhouse_chain::Height;
use bitcoin::bip158::BlockFilter;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, FilterHeader};
use serde_json::json;

use crate::world::World;

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Splits a file of filters, each behind its length.
fn split(mut file: &[u8]) -> Vec<&[u8]> {
    let mut filters = Vec::new();
    while let Some((first, rest)) = file.split_first() {
        let (len, rest) = match *first {
            0xfd => (u16::from_le_bytes(rest[..2].try_into().unwrap()).into(), &rest[2..]),
            short => (usize::from(short), rest),
        };
        filters.push(&rest[..len]);
        file = &rest[len..];
    }
    filters
}

#[test]
fn files_have_the_whole_chain_and_their_headers_prove_the_filters() {
    let world = World::small(61);
    let early = world.rest.get("/block-dn/filter-headers/0");
    assert_eq!(early.status, 400, "none is computed yet");
    world.rest.compute_derived();
    let at = world.rest.index.snapshot().unwrap();
    let blocks = at.tip().height.0 as usize + 1;

    let headers = world.rest.get("/block-dn/headers/0");
    assert_eq!((headers.status, headers.body.len()), (200, 80 * blocks));
    assert_eq!(header(&headers.headers, "cache-control"), "public, max-age=60");
    assert_eq!(header(&headers.headers, "content-type"), "application/octet-stream");
    let filter_headers = world.rest.get("/block-dn/filter-headers/0").body;
    assert_eq!(filter_headers.len(), 32 * blocks);
    let file = world.rest.get("/block-dn/filters/0").body;
    let filters = split(&file);
    assert_eq!(filters.len(), blocks);
    let mut before = FilterHeader::all_zeros();
    for (height, filter) in filters.iter().enumerate() {
        let hash = BlockHash::hash(&headers.body[80 * height..80 * (height + 1)]);
        assert_eq!(at.block_hash(Height(u32::try_from(height).unwrap())), Some(hash));
        before = BlockFilter::new(filter).filter_header(&before);
        assert_eq!(before.to_byte_array(), filter_headers[32 * height..32 * (height + 1)], "{height}");
        assert_eq!(world.rest.get(&format!("/block-dn/filters/single/{height}")).body, *filter);
    }
    let last = at.tip().hash;
    assert_eq!(
        world.rest.get(&format!("/block-dn/block/{last}")).body,
        world.rest.get(&format!("/block/{last}/raw")).body
    );

    let status = world.rest.json("/block-dn/status");
    assert_eq!(
        (
            &status["chain_name"],
            &status["best_block_height"],
            &status["best_filter_height"],
            &status["all_files_synced"]
        ),
        (&json!("regtest"), &json!(blocks - 1), &json!(blocks - 1), &json!(true))
    );
    assert_eq!(status["best_filter_header"], before.to_string());
    assert_eq!(status["best_block_hash"], last.to_string());
}

#[test]
fn files_for_import_begin_with_magic_version_and_kind() {
    let world = World::small(62);
    world.rest.compute_derived();
    let whole = world.rest.get("/block-dn/headers/0").body;
    let magic = bitcoin::Network::Regtest.magic().to_bytes();
    for (path, kind, record) in [("headers", 0, 80), ("filter-headers", 1, 32)] {
        let latest = world.rest.get(&format!("/block-dn/{path}/import/latest")).body;
        assert_eq!(latest[..10], [&magic[..], &[0, kind, 0, 0, 0, 0]].concat());
        assert_eq!(latest[10..], world.rest.get(&format!("/block-dn/{path}/0")).body);
        let two = world.rest.get(&format!("/block-dn/{path}/import/2")).body;
        assert_eq!(two, latest[..10 + 2 * record]);
    }
    assert_eq!(whole.len() % 80, 0);
    for path in [
        "headers/1",
        "headers/100000",
        "filters/1",
        "filters/2000",
        "filters/x",
        "headers/import/0",
        "headers/import/100000",
        "filter-headers/import/x",
    ] {
        assert_eq!(world.rest.get(&format!("/block-dn/{path}")).status, 400, "{path}");
    }
    for path in ["filters/single/100000", &format!("block/{}", "00".repeat(32))] {
        assert_eq!(world.rest.get(&format!("/block-dn/{path}")).status, 404, "{path}");
    }
}

/// neutrino refuses a pair of files that do not end at one height (`headersimport` of lightninglabs/neutrino).
#[test]
fn the_latest_files_for_import_end_at_one_height_while_filters_are_computed() {
    let mut world = World::small(63);
    let paths = ["headers", "filter-headers"].map(|kind| format!("/block-dn/{kind}/import/latest"));
    let latest = |world: &World| {
        let got = paths.each_ref().map(|path| world.rest.get(path));
        for got in &got {
            assert_eq!((got.status, header(&got.headers, "cache-control")), (200, "no-store"), "{}", got.text());
        }
        got.map(|got| got.body)
    };
    for path in &paths {
        assert_eq!(world.rest.get(path).status, 503, "{path}: none is computed yet");
    }
    world.rest.compute_derived();
    let whole = latest(&world);
    let computed = world.live.ledger().height() as usize + 1;
    assert_eq!(whole.each_ref().map(Vec::len), [10 + 80 * computed, 10 + 32 * computed]);
    // As many blocks again, whose filters are not computed.
    world.live.mine_empty(computed).unwrap();
    world.sync();
    assert_eq!(latest(&world), whole);
    let blocks = 2 * computed;
    assert_eq!(world.rest.get(&format!("/block-dn/headers/import/{blocks}")).body.len(), 10 + 80 * blocks);
    assert_eq!(world.rest.get(&format!("/block-dn/filter-headers/import/{blocks}")).status, 400);
    world.rest.compute_derived();
    assert_eq!(latest(&world).map(|body| body.len()), [10 + 80 * blocks, 10 + 32 * blocks]);
}
