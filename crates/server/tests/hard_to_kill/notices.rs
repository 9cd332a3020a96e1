//! Notices of watches over SIGKILL of the server, the receiver of webhooks, the client of direct messages and the node;
//! over reorgs of three blocks, chains of replacements, a wiped node and a restored backup. Each notice that a naive
//! model names is made once, and delivered at least once with one id, in order.
//!
//! A step makes one change at the node, at a random moment of which the server may be killed. As each notice is about a
//! difference of states, it does not matter whether the server saw the state before or after.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::scope;
use std::time::{Duration, Instant};

use birdhouse_chain::Profile;
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::Options;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::live::{LiveNode, Loss};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_watch::Notice;
use birdhouse_watch::outbox::render;
use bitcoin::{Transaction, Txid};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;

use super::bird::Bird;
use super::naive::{All, Model, short};
use super::npm::Npm;
use super::receiver::Receiver;
use super::relay::connect;
use super::{Home, rounds};

const NOSTR_TOOLS: Npm = Npm { variable: "NOSTR_TOOLS", cached: "nostr-tools-2.25.2", package: "nostr-tools" };
const CLIENT: &str = include_str!("notices.js");
const PATIENCE: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(20);
/// A reorg passes through states in which a transaction has fewer confirmations than at its end: levels above 1 would
/// be announced of some of them, or not.
const LEVELS: &[u32] = &[0, 1];
const STEPS: u32 = 12;
/// Fee of a payment.
const FEE_SAT: u64 = 2_000;

/// The locks whose scripts are watched.
fn locks() -> impl Iterator<Item = Lock> {
    [Form::P2wpkh, Form::P2tr].into_iter().flat_map(|form| (0..3).map(move |number| Lock::new(form, 7_000 + number)))
}

/// The person who reads the messages.
fn person() -> Keys {
    Keys::from_secret([9; 32]).unwrap()
}

/// Everything that takes part.
struct World {
    live: LiveNode,
    home: Home,
    bird: Option<Bird>,
    relay: SocketAddr,
    receiver: Receiver,
    client: Option<Child>,
    models: Vec<Model>,
    /// Notices of the log, in order.
    log: Vec<Notice>,
    /// Fees of the transactions that were sent.
    fees: HashMap<Txid, u64>,
    /// Notices of the log whose delivery was compared.
    delivered: usize,
    /// Deliveries to the receiver, repeated ones included.
    deliveries: u64,
}

/// A backup, and what was known when it was made.
struct Backup {
    folder: TempDir,
    models: Vec<Model>,
    log: usize,
}

#[test]
fn notices_are_made_once_and_delivered_whatever_is_killed() {
    kill_around_notices(rounds(2));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds of twelve changes each"]
fn notices_are_made_once_and_delivered_for_many_rounds() {
    kill_around_notices(rounds(100));
}

fn kill_around_notices(rounds: Range<u64>) {
    let mut world = World::start();
    let (mut kills, mut made) = (0, 0);
    for round in rounds {
        let seed = 0x6e6f_7469 + round;
        println!("seed {seed}, {} notices, {} deliveries", made + world.log.len(), world.deliveries);
        let mut rng = Rng::new(seed);
        let backup = world.back_up();
        for step in 0..STEPS {
            kills += world.step(&mut rng, &format!("seed {seed}, step {step}"));
        }
        world.assert_delivered(&format!("seed {seed}"));
        if round % 2 == 1 {
            made += world.log.len() - backup.log;
            world.restore(backup, &format!("seed {seed}, restored"));
        }
    }
    made += world.log.len();
    println!("{made} notices, {} deliveries, {kills} kills of the server", world.deliveries);
    assert!(!world.home.log().contains("panicked"), "{}", world.home.log());
    assert!(made > 10, "too few to tell");
}

impl World {
    fn start() -> Self {
        let size = Size { blocks: 110, block_txs: 2, scripts_per_form: 2, busy: &[] };
        let live = LiveNode::start(41, size, Options::default()).unwrap();
        let [relay, hook] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap())));
        let home = Home::new(live.node(), Profile::Full)
            .arg(&format!("--relay-addr={relay}"))
            .arg(&format!("--relay-url=ws://{relay}"));
        let models: Vec<Model> = locks()
            .map(|lock| {
                Model::new(format!("{:?}-{}", lock.form, lock.number), live.wallet().script_pubkey(lock), LEVELS)
            })
            .collect();
        let mut file = format!(
            "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"http://{hook}/\"\namounts = true\n\
             secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n\
             [[channel]]\nname = \"me\"\nkind = \"nostr\"\nto = \"{}\"\n",
            person().pubkey()
        );
        for lock in locks() {
            let (name, script) = (format!("{:?}-{}", lock.form, lock.number), live.wallet().script_pubkey(lock));
            let watch = format!("[[watch]]\nname = \"{name}\"\nscript = \"{script:x}\"\nconfirmations = [0, 1]\n");
            file.push_str(&watch);
            file.push_str("channels = [\"hook\", \"me\"]\n");
        }
        let path = home.dir.path().join("watches.toml");
        fs::write(&path, file).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let bird = Some(home.start("run"));
        let receiver = Receiver::start(hook);
        let (client, log, fees) = (None, Vec::new(), HashMap::new());
        let mut world =
            Self { live, home, bird, relay, receiver, client, models, log, fees, delivered: 0, deliveries: 0 };
        world.reads_direct_messages();
        world.until("knows the watches", |world| {
            let watches = world.status()?["watches"].clone();
            let known = watches.as_array()?.iter().filter(|watch| watch["scripts"] == 1).count();
            (known == world.models.len()).then_some(())
        });
        // The past is not announced.
        drop(world.change());
        world
    }

    /// Publishes that the person reads direct messages on the server's relay.
    fn reads_direct_messages(&self) {
        let mut socket = connect(self.relay).expect("the relay starts");
        let tags = vec![Tag(vec!["relay".to_owned(), format!("ws://{}", self.relay)])];
        let list =
            UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(10_050), tags, content: String::new() };
        socket.send(Message::text(format!("[\"EVENT\",{}]", list.sign(&person()).to_json()))).unwrap();
        loop {
            let Message::Text(text) = socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer[0] == "OK" {
                assert_eq!(answer[2], true, "{answer}");
                return;
            }
        }
    }

    /// Asks until there is an answer.
    fn until<T>(&self, what: &str, ask: impl Fn(&Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "never happened: {what}\n{}", self.home.log());
            std::thread::sleep(POLL);
        }
    }

    fn status(&self) -> Option<Value> {
        let (done, said) = self.home.output("watch", &["list", "--json"]);
        serde_json::from_str(said.lines().last()?).ok().filter(|_| done)
    }

    /// Notices of the log from a position on.
    fn notices_from(&self, seq: u64) -> Option<Vec<Notice>> {
        let (done, said) = self.home.output("watch", &["notices", "--from", &seq.to_string(), "--count", "1000"]);
        let lines = said.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).ok()).collect::<Option<Vec<_>>>().filter(|_| done)
    }

    // === steps ===

    /// Makes one change at the node, while the server may be killed; returns the number of its kills.
    fn step(&mut self, rng: &mut Rng, context: &str) -> u32 {
        let is_killed = rng.per_mille(400);
        if rng.per_mille(300) {
            self.receiver.kill();
        } else {
            self.receiver.restart();
        }
        self.kill_client();
        if rng.per_mille(500) {
            self.client = self.client();
        }
        let delay = Duration::from_millis(rng.below(300));
        let bird = if is_killed { self.bird.take() } else { None };
        let change = scope(|scope| {
            scope
                .spawn(move || bird.map(|bird| assert_eq!(bird.kill_after(delay), None, "the server ended by itself")));
            self.move_on(rng)
        });
        if is_killed {
            self.bird = Some(self.home.start("run"));
        }
        self.assert_made(&format!("{context}, {change}"));
        u32::from(is_killed)
    }

    /// Makes a change; returns its name.
    fn move_on(&mut self, rng: &mut Rng) -> &'static str {
        match rng.below(100) {
            0..42 => self.pay(rng),
            42..62 => self.replace(rng),
            62..84 => self.live.mine().map(|()| "a block").unwrap(),
            84..92 => {
                let fork = self.live.ledger().height() - 3;
                self.live.branch(fork, vec![Vec::new(); 4]).map(|()| "a reorg of three").unwrap()
            }
            92..97 => self.live.kill_and_recover(Loss::Unflushed).map(|()| "the node killed").unwrap(),
            _ => self.live.kill_and_recover(Loss::Everything).map(|()| "the node wiped").unwrap(),
        }
    }

    /// Payments to one to four watched scripts.
    fn payments(rng: &mut Rng) -> Vec<Payment> {
        let locks: Vec<Lock> = locks().collect();
        let count = 1 + rng.below(4);
        let sat = |rng: &mut Rng| 20_000 + rng.below(30_000);
        (0..count).map(|_| Payment::to_lock(locks[usize::try_from(rng.below(6)).unwrap()], sat(rng))).collect()
    }

    fn is_watched(coin: &Coin) -> bool {
        locks().any(|lock| lock == coin.lock)
    }

    /// Pays from a confirmed coin, sometimes from watched ones: nothing depends on a transaction that may be replaced.
    fn pay(&mut self, rng: &mut Rng) -> &'static str {
        let confirmed = self.live.confirmed_coins();
        let payments = Self::payments(rng);
        let large =
            confirmed.iter().filter(|coin| !Self::is_watched(coin)).max_by_key(|coin| coin.sat()).cloned().unwrap();
        let own = confirmed.iter().find(|coin| Self::is_watched(coin)).cloned().filter(|_| rng.per_mille(300));
        let name = if own.is_some() { "a spend" } else { "a payment" };
        let coins: Vec<Coin> = [large].into_iter().chain(own).collect();
        let paid = self.live.pay_from(&coins, &payments, FEE_SAT).unwrap();
        self.fees.insert(paid.compute_txid(), FEE_SAT);
        name
    }

    /// Replaces a waiting transaction on which no other one depends.
    fn replace(&mut self, rng: &mut Rng) -> &'static str {
        let waiting = self.live.waiting();
        let has_child = |tx: &Transaction| {
            let txid = tx.compute_txid();
            waiting.iter().any(|other| other.input.iter().any(|input| input.previous_output.txid == txid))
        };
        let candidates: Vec<&Transaction> = waiting.iter().filter(|tx| !has_child(tx)).collect();
        if candidates.is_empty() {
            return self.pay(rng);
        }
        let old = candidates[usize::try_from(rng.below(candidates.len() as u64)).unwrap()];
        // A larger transaction needs a higher rate, too.
        let fee = 2 * self.fees.get(&old.compute_txid()).copied().unwrap_or(10 * FEE_SAT);
        let payments = Self::payments(rng);
        let new = self.live.replace(old, &payments, fee).unwrap();
        self.fees.insert(new.compute_txid(), fee);
        "a replacement"
    }

    // === what must be there ===

    /// Notices that the change since the last call makes, in short and sorted.
    fn change(&mut self) -> Vec<String> {
        let ledger = self.live.ledger();
        let (all, tip) = (All::of(ledger), ledger.height());
        let mut expected: Vec<String> = self.models.iter_mut().flat_map(|model| model.change(&all, tip)).collect();
        expected.sort();
        expected
    }

    /// Waits for the notices of a change.
    fn assert_made(&mut self, context: &str) {
        let expected = self.change();
        let (next, tip) = (self.log.len() as u64 + 1, self.live.ledger().height());
        self.until(&format!("{context}: the tip"), |world| (world.home.served_height() == Some(tip)).then_some(()));
        let made = self.until(&format!("{context}: {expected:?}"), |world| {
            world.notices_from(next).filter(|made| made.len() >= expected.len())
        });
        let mut found: Vec<String> = made.iter().map(short).collect();
        found.sort();
        assert_eq!(found, expected, "{context}");
        self.log.extend(made);
    }

    /// Waits until everything is delivered, and compares it with the log.
    fn assert_delivered(&mut self, context: &str) {
        self.receiver.restart();
        for channel in ["hook", "me"] {
            // A test that arrives ends the wait for the next attempt.
            self.until(&format!("{context}: a test to {channel}"), |world| {
                world.home.output("watch", &["test", channel]).0.then_some(())
            });
        }
        self.until(&format!("{context}: everything is delivered"), |world| {
            let channels = world.status()?["channels"].clone();
            channels.as_array()?.iter().all(|channel| channel["waiting"] == 0).then_some(())
        });
        self.assert_webhooks(context);
        self.assert_direct_messages(context);
    }

    /// Each notice came to the receiver, in order, with one id and one content however often.
    fn assert_webhooks(&mut self, context: &str) {
        let noted = self.receiver.take();
        self.deliveries += noted.len() as u64;
        let mut order = Vec::new();
        let mut contents: HashMap<String, Value> = HashMap::new();
        for (id, body) in noted.into_iter().filter(|(_, body)| body["data"]["kind"] != "test") {
            let data = body["data"].clone();
            assert_eq!(data["id"], json!(id), "{context}");
            if let Some(before) = contents.get(&id) {
                assert_eq!(*before, data, "{context}: a repeated notice is the same");
            } else {
                order.push(id.clone());
                contents.insert(id, data);
            }
        }
        let expected: Vec<String> = self.log[self.delivered..].iter().map(|notice| notice.id.to_string()).collect();
        assert_eq!(order, expected, "{context}");
        self.delivered = self.log.len();
    }

    /// Each notice is a direct message, once.
    fn assert_direct_messages(&mut self, context: &str) {
        self.kill_client();
        let Some(mut client) = self.client() else { return };
        let lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let texts = lines.map(|line| serde_json::from_str::<Option<String>>(&line.unwrap()).unwrap());
        let mut found: Vec<String> =
            texts.map_while(|text| text).filter(|text| !text.contains("this channel works")).collect();
        let mut expected: Vec<String> = self.log.iter().map(|notice| render(notice, None).line).collect();
        let _ = client.kill();
        let _ = client.wait();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{context}");
    }

    // === clients ===

    /// Starts the person's client, if nostr-tools is there.
    fn client(&self) -> Option<Child> {
        let Some(packages) = NOSTR_TOOLS.folder() else {
            eprintln!("LEFT OUT: nostr-tools is not there; see scripts/peers");
            return None;
        };
        let mut command = Command::new("node");
        command.args(["--eval", CLIENT]).arg(packages).arg(format!("ws://{}", self.relay)).arg("09".repeat(32));
        Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn kill_client(&mut self) {
        if let Some(mut client) = self.client.take() {
            let _ = client.kill();
            let _ = client.wait();
        }
    }

    // === backups ===

    fn back_up(&self) -> Backup {
        let folder = tempfile::tempdir().unwrap();
        let target: PathBuf = folder.path().join("copy");
        self.until("a backup", |world| {
            let _ = fs::remove_dir_all(&target);
            world.home.output("backup", &[target.to_str().unwrap()]).0.then_some(())
        });
        Backup { folder, models: self.models.clone(), log: self.log.len() }
    }

    /// Puts a backup in the place of the data, and waits for what has changed since it was made.
    fn restore(&mut self, backup: Backup, context: &str) {
        drop(self.bird.take());
        self.kill_client();
        let log = self.home.log();
        for entry in fs::read_dir(self.home.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let (from, to) = (backup.folder.path().join("copy/."), self.home.dir.path());
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
        fs::write(self.home.dir.path().join("log"), log).unwrap();
        self.models = backup.models;
        self.log.truncate(backup.log);
        self.delivered = backup.log;
        self.bird = Some(self.home.start("run"));
        self.assert_made(context);
        self.assert_delivered(context);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_client();
    }
}
