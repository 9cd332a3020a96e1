//! Watches of a running server: the file, its commands, and what is announced.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::webhook::{self, Delivery};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{Birdhouse, PATIENCE};

/// The public key of BIP 32's first test vector, with the version of test networks.
pub(crate) const TPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

/// The private key of the same vector.
pub(crate) const TPRV: &str =
    "tprv8ZgxMBicQKsPd9TeAdPADNnSyH9SSUUbTVeFszDE23Ki6TBB5nCefAdHkK8Fm3qMQR6sHwA56zqRmKmxnHk37JkiFzvncDqoKmPWubu7hDF";

pub(crate) fn list(server: &Birdhouse) -> Value {
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

/// The first receiving script of the public key.
pub(crate) fn first_script(node: &Bitcoind) -> bitcoin::ScriptBuf {
    let info = node.rpc("getdescriptorinfo", json!([format!("wpkh({TPUB}/0/*)")])).unwrap();
    let addresses = node.rpc("deriveaddresses", json!([info["descriptor"], [0, 0]])).unwrap();
    let address: bitcoin::Address<_> = addresses[0].as_str().unwrap().parse().unwrap();
    address.assume_checked().script_pubkey()
}

#[test]
fn a_payment_to_a_watched_wallet_is_told_and_kept_over_a_restart() {
    let mut chain = ChainBuilder::new(5);
    mix::mature(&mut chain);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let server = Birdhouse::start(&node);
    let file = server.dir().join("watches.toml");
    assert!(!server.dir().join("watch-regtest.redb").exists(), "nothing is opened without a watch");

    let descriptor = format!("wpkh({TPUB}/<0;1>/*)");
    let (done, said) = server.run("watch", &["add", "Savings", &descriptor, "--confirmations", "0,1", "--cold"]);
    assert!(done, "{said}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.until("knows the watch", || (list(&server)["watches"][0]["scripts"] == 200).then_some(()));

    let payment = Payment::to_script(first_script(&node), 25_000);
    chain.pay(&[payment, Payment::to_lock(Lock::new(Form::P2wpkh, 1), 1_000)]);
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    let expected = [("confirmed".to_owned(), 25_000)];
    server.until("tells the payment", || (notices(&server) == expected).then_some(()));
    assert_eq!(list(&server)["watches"][0]["confirmed_sat"], 25_000);
    assert!(server.get("/metrics").body.contains("birdhouse_watch_notices_total 1"));
    let (done, frame) = server.run("top", &["--once"]);
    for part in ["watches        1 ", "channels       0 ", "notices        1 "] {
        assert!(done && frame.contains(part), "{part}:\n{frame}");
    }

    // A backup beside the running server has the file of watches and what it announced.
    let folder = tempfile::tempdir().unwrap();
    let (done, said) = server.run("backup", &[folder.path().join("copy").to_str().unwrap()]);
    assert!(done, "{said}");
    // The index is removed, as the manual allows: it is built anew, and the notices stay.
    fs::remove_dir_all(folder.path().join("copy/regtest")).unwrap();
    let restored = Birdhouse::start_in(&folder.path().join("copy"), &node, &[]);
    restored.until("has the watch", || (list(&restored)["watches"][0]["confirmed_sat"] == 25_000).then_some(()));
    assert_eq!(notices(&restored), expected, "nothing is announced again");

    export_and_list(&server, &file);

    // A file with a mistake changes nothing, and is found by doctor.
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    server.signal(Signal::SIGHUP);
    server.until("says so", || server.log().contains("kept the watches as they were").then_some(()));
    assert_eq!(list(&server)["watches"][0]["name"], "Savings");
    let (_, found) = server.run("doctor", &[]);
    assert!(found.contains("chmod 600"), "{found}");
    let (done, said) = server.run("watch", &["export"]);
    assert!(!done && said.contains("chmod 600"), "{said}");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{good}\n[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"https://example.org\"\nsecrets = [\"hunter2\"]\n"))
        .unwrap();
    let (_, found) = server.run("doctor", &[]);
    assert!(found.contains("channel \"hook\"") && !found.contains("hunter2"), "{found}");
    fs::write(&file, good).unwrap();

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

/// The file as it is, and the list for people.
fn export_and_list(server: &Birdhouse, file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(server.run("watch", &["export"]), (true, text.clone()));
    let (done, listed) = server.run("watch", &["list"]);
    let parts = ["\nwatches\nname     confirmed sat  open transactions", "\nSavings  25000          1 "];
    assert!(done && parts.iter().all(|part| listed.contains(part)), "{listed}");
    // Flags may stand behind the subcommand.
    let folder = server.dir().display().to_string();
    let words = ["watch", "export", "--network=regtest", "--data-dir", &folder];
    let output = Command::new(env!("CARGO_BIN_EXE_birdhouse")).args(words).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}

/// Nothing is watched then, and nobody may take that for a file without watches.
#[test]
fn a_watch_file_that_cannot_be_read_at_the_start_is_a_warning_until_it_can() {
    let node = Bitcoind::start(Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.toml");
    fs::write(&file, format!("[[watch]]\nname = \"Savings\"\ndescriptor = \"wpkh({TPUB}/0/*)\"\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let server = Birdhouse::start_in(folder.path(), &node, &[]);
    let fault = list(&server)["fault"].clone();
    assert!(fault.as_str().is_some_and(|fault| fault.contains("chmod 600")), "{fault}");
    let (_, status) = server.run("ctl", &["status"]);
    assert!(status.contains("watch file is not in effect"), "{status}");

    fs::set_permissions(server.dir().join("watches.toml"), Permissions::from_mode(0o600)).unwrap();
    server.signal(Signal::SIGHUP);
    server.until("knows the watch", || (list(&server)["watches"][0]["name"] == "Savings").then_some(()));
    assert_eq!(list(&server)["fault"], Value::Null);
}

/// Takes requests of HTTP, and answers each with 200.
pub(crate) struct Receiver {
    listener: TcpListener,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.listener.local_addr().unwrap())
    }

    /// Waits for the next connection, with a deadline.
    fn accept(&self) -> TcpStream {
        self.listener.set_nonblocking(true).unwrap();
        let start = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false).unwrap();
                    socket.set_read_timeout(Some(PATIENCE)).unwrap();
                    return socket;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(start.elapsed() < PATIENCE, "no request comes");
            sleep(Duration::from_millis(10));
        }
    }

    /// Returns the id and the body of the next request. One of a server that is killed meanwhile comes again.
    pub(crate) fn take(&self) -> (String, Value) {
        loop {
            let mut socket = self.accept();
            if let Some(Delivery { id, body }) = webhook::read(&mut socket)
                && webhook::accept(&mut socket).is_some()
            {
                return (id, body);
            }
        }
    }
}

/// A payment reaches a webhook and a command, also one that came while the receiver was away and the server was killed;
/// the node's own port is refused as a target.
#[test]
fn a_payment_reaches_the_channels_of_its_watch_over_a_kill() {
    let mut chain = ChainBuilder::new(5);
    mix::mature(&mut chain);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let mut server = Birdhouse::start(&node);
    let (file, announced) = (server.dir().join("watches.toml"), server.dir().join("announced"));
    let receiver = Receiver::new();
    let script = first_script(&node);
    let text = format!(
        "explorer = \"http://explorer.example\"\n\
         [[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\namounts = true\n\
         secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n\
         [[channel]]\nname = \"log\"\nkind = \"command\"\n\
         command = [\"/bin/sh\", \"-c\", \"cat >> {announced}; echo >> {announced}\"]\n\
         [[watch]]\nname = \"Till\"\nscript = \"{script:x}\"\nconfirmations = [1]\nchannels = [\"hook\", \"log\"]\n",
        receiver.url(),
        announced = announced.display(),
    );
    fs::write(&file, &text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    server.signal(Signal::SIGHUP);
    server.until("knows the watch", || (list(&server)["watches"][0]["scripts"] == 1).then_some(()));

    let tested = std::thread::scope(|scope| {
        let test = scope.spawn(|| server.run("watch", &["test", "hook"]));
        let (_, body) = receiver.take();
        assert_eq!(body["data"]["kind"], "test", "{body}");
        test.join().unwrap()
    });
    assert!(tested.0, "{}", tested.1);
    let pay = |chain: &mut ChainBuilder, sat| {
        chain.pay(&[Payment::to_script(script.clone(), sat)]);
        chain.mine(1);
        chain.submit_to(&node).unwrap();
    };
    pay(&mut chain, 25_000);
    let (first, body) = receiver.take();
    assert_eq!((&body["data"]["received"], &body["data"]["watch"]), (&json!(25_000), &json!("Till")), "{body}");
    server.until("runs the command", || {
        fs::read_to_string(&announced).is_ok_and(|announced| announced.contains("Till")).then_some(())
    });
    let channels = server.until("shows the delivery", || {
        let channels = list(&server)["channels"].clone();
        (channels[0]["delivered"] == 2 && channels[0]["waiting"] == 0).then_some(channels)
    });
    assert_eq!(channels[0]["name"], "hook", "{channels}");

    // Nobody accepts the next one before the server is killed.
    pay(&mut chain, 30_000);
    server.until("has the notice", || (list(&server)["notices"] == 2).then_some(()));
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Birdhouse::start_early_in(server.into_dir(), &node);
    let second = loop {
        let (id, body) = receiver.take();
        if body["data"]["received"] == 30_000 {
            break id;
        }
        assert_eq!(id, first, "only what may have been delivered before comes again: {body}");
    };
    assert_ne!(first, second);

    // The signal would end a shell that has not become the program yet.
    server.until("answers birdhouse ctl", || server.ctl(&["status"]).0.then_some(()));
    let refused = text.replace(&receiver.url(), &format!("http://127.0.0.1:{}/", node.rpc_port()));
    fs::write(&file, refused).unwrap();
    server.signal(Signal::SIGHUP);
    server.until("refuses the node's port", || {
        let (_, said) = server.run("watch", &["test", "hook"]);
        said.contains("the node's RPC").then_some(())
    });
}
