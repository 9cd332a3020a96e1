//! Damaged requests, as the fuzz target has them, but the same in every run: each is read or refused.

use birdhouse_esplora::fuzzing::request;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

const REQUESTS: [&str; 12] = [
    "GET /block/000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f/txs/25",
    "GET /api/tx/4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b/outspend/0",
    "GET /address/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa/txs?after_txid=4a5e&max_txs=7",
    "GET /scripthash/8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161/utxo",
    "GET /txs/outspends?txids=4a5e%2C00,%FF",
    "GET /events?address=1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa&blocks",
    "GET /api/v1/transaction-times?txId[]=4a5e&txId%5B3%5D=00",
    "GET /block-height/4294967295",
    "POST /tx\n0100000001",
    "POST /txs/package\n[\"0100\",\"02\"]",
    "OPTIONS /nothing/%25%00/x",
    "GET /ws\n{\"action\":\"want\",\"data\":[\"blocks\"],\"track-address\":\"x\",\"track-mempool-block\":3}",
];

#[test]
fn samples_are_read_or_refused() {
    assert!(REQUESTS.iter().all(|text| request(text.as_bytes()).is_some()));
    let statuses = ["GET /block-height/7", "GET /block-height/x", "GET /block-height", "PUT /tx", "nothing"];
    let statuses = statuses.map(|text| request(text.as_bytes()));
    assert_eq!(statuses, [Some(200), Some(400), Some(404), Some(404), None]);
}

fn config() -> Config {
    let rng_seed = RngSeed::Fixed(0x7265_7374);
    Config { cases: 2000, failure_persistence: None, rng_seed, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_requests_are_read_or_refused(
        which in 0..REQUESTS.len(), edits in prop::collection::vec((any::<u16>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = REQUESTS[which].as_bytes().to_vec();
        for (at, byte) in edits {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        request(&bytes);
    }
}
