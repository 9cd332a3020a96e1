//! Watches of a running server: the file, its commands, and what is told.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::Birdhouse;

/// The public key of BIP 32's first test vector, with the version of test networks.
const TPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

/// The private key of the same vector.
const TPRV: &str =
    "tprv8ZgxMBicQKsPd9TeAdPADNnSyH9SSUUbTVeFszDE23Ki6TBB5nCefAdHkK8Fm3qMQR6sHwA56zqRmKmxnHk37JkiFzvncDqoKmPWubu7hDF";

fn list(server: &Birdhouse) -> Value {
    let (done, said) = server.run("watch", &["list", "--json"]);
    assert!(done, "{said}");
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

/// Kind and sum received of each notice.
fn notices(server: &Birdhouse) -> Vec<(String, u64)> {
    let (done, said) = server.run("watch", &["notices", "--from", "0"]);
    assert!(done, "{said}");
    let notices = said.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap());
    notices
        .map(|notice: Value| (notice["kind"].as_str().unwrap().to_owned(), notice["received"].as_u64().unwrap()))
        .collect()
}

#[test]
fn a_payment_to_a_watched_wallet_is_told_and_kept_over_a_restart() {
    let mut chain = ChainBuilder::new(5);
    mix::mature(&mut chain);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let server = Birdhouse::start(&node);
    let file = server.dir().join("watches.toml");
    assert!(!server.dir().join("regtest/watch.redb").exists(), "nothing is opened without a watch");

    let descriptor = format!("wpkh({TPUB}/<0;1>/*)");
    let (done, said) = server.run("watch", &["add", "Savings", &descriptor, "--confirmations", "0,1", "--cold"]);
    assert!(done, "{said}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.until("knows the watch", || (list(&server)["watches"][0]["scripts"] == 200).then_some(()));

    let info = node.rpc("getdescriptorinfo", json!([format!("wpkh({TPUB}/0/*)")])).unwrap();
    let addresses = node.rpc("deriveaddresses", json!([info["descriptor"], [0, 0]])).unwrap();
    let address: bitcoin::Address<_> = addresses[0].as_str().unwrap().parse().unwrap();
    let payment = Payment::to_script(address.assume_checked().script_pubkey(), 25_000);
    chain.pay(&[payment, Payment::to_lock(Lock::new(Form::P2wpkh, 1), 1_000)]);
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    let expected = [("confirmed".to_owned(), 25_000)];
    server.until("tells the payment", || (notices(&server) == expected).then_some(()));
    assert_eq!(list(&server)["watches"][0]["confirmed_sat"], 25_000);
    assert!(server.get("/metrics").body.contains("birdhouse_watch_notices_total 1"));

    // A file with a mistake changes nothing, and is found by doctor.
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    server.signal(Signal::SIGHUP);
    server.until("says so", || server.log().contains("kept the watches as they were").then_some(()));
    assert_eq!(list(&server)["watches"][0]["name"], "Savings");
    let (_, found) = server.run("doctor", &[]);
    assert!(found.contains("chmod 600"), "{found}");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();

    // A private key is refused by its name, and a scan key on the command line.
    let (done, said) = server.run("watch", &["add", "w", TPRV]);
    assert!(!done && said.contains("this is a private key"), "{said}");
    let (done, said) = server.run("watch", &["add", "w", "sp(tspscan1qqqq)"]);
    assert!(!done && said.contains("other users see the arguments"), "{said}");

    let (done, said) = server.run("watch", &["remove", "Savings"]);
    assert!(done, "{said}");
    server.until("forgets the watch", || (list(&server)["watches"] == json!([])).then_some(()));
    assert_eq!(notices(&server), expected, "the log stays");
}
