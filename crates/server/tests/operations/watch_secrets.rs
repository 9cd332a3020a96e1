//! Secrets of channels and scan keys of watches: in no log, metric, page, argument, answer or core dump, and in no file
//! but the one that is theirs. Channels deliver and fail, a payment is found, and the file has mistakes at each secret.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::thread;

use birdhouse_testkit::Options;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use bitcoin::bech32;
use nix::sys::signal::Signal;

use crate::dashboard::{ask_at, submit};
use crate::process::Birdhouse;
use crate::scan_leaks::sent;
use crate::secret::{Secret, assert_unsaid};
use crate::silent_sender::Receiver;
use crate::spscan;
use crate::watches::list;

const SEED: u64 = 353;
const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };
/// The number of the receiver whose scan key is watched.
const RECEIVER: u8 = 0;
/// The secrets of webhook, its address, topic, token and mail: 32 letters each, so that every form is looked for.
const HOOK: &str = "hook-secret-0123456789-abcdefghi";
const ADDRESS: &str = "address-secret-0123456789-abcdef";
const TOPIC: &str = "topic-secret-0123456789-abcdefgh";
const TOKEN: &str = "token-secret-0123456789-abcdefgh";
const MAIL: &str = "mail-secret-0123456789-abcdefghi";
/// `HOOK` as base64, as `openssl base64` writes it.
const HOOK_BASE64: &str = "aG9vay1zZWNyZXQtMDEyMzQ1Njc4OS1hYmNkZWZnaGk=";
/// A recipient without a list of relays.
const NPUB: &str = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";
/// The files that may hold secrets.
const OWN_FILES: [&str; 3] = ["watches.toml", "watch.nsec", "watch-api-token"];

/// Serves each connection on a thread of its own until the test ends; returns the address.
fn serve(talk: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || talk(socket));
        }
    });
    address
}

/// Refuses a request over HTTP, and repeats it in the answer.
fn refuse(mut socket: TcpStream) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&request) {
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", request.len());
    let _ = socket.write_all(&[head.as_bytes(), &request].concat());
}

/// True once a request has its whole body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| length.parse() == Ok(body.len()))
}

/// Refuses a login by SMTP, and repeats it in the answer.
fn refuse_login(mut socket: TcpStream) {
    let lines = BufReader::new(socket.try_clone().unwrap()).lines();
    let _ = socket.write_all(b"220 mail\r\n");
    for line in lines.map_while(Result::ok) {
        let answer = match line.split(' ').next() {
            Some("EHLO") => "250-mail\r\n250 AUTH PLAIN\r\n".to_owned(),
            _ => format!("535 5.7.8 no login by {line}\r\n"),
        };
        let _ = socket.write_all(answer.as_bytes());
    }
}

/// The watch file: every kind of channel, and a watch of a scan key.
fn watch_file(scan_key: &str) -> String {
    let (http, smtp) = (serve(refuse), serve(refuse_login));
    format!(
        "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"http://{http}/{ADDRESS}?key={ADDRESS}\"\n\
         secrets = [\"whsec_{HOOK_BASE64}\"]\n\
         [[channel]]\nname = \"topic\"\nkind = \"ntfy\"\nurl = \"http://{http}/{TOPIC}\"\ntoken = \"{TOKEN}\"\n\
         [[channel]]\nname = \"mail\"\nkind = \"mail\"\nto = \"me@example.com\"\nfrom = \"bird@example.org\"\n\
         server = \"smtp://{smtp}\"\nuser = \"bird\"\npassword = \"{MAIL}\"\n\
         [[channel]]\nname = \"me\"\nkind = \"nostr\"\nto = \"{NPUB}\"\n\
         [[channel]]\nname = \"log\"\nkind = \"command\"\ncommand = [\"/bin/cat\"]\n\
         [[watch]]\nname = \"Silent\"\nsilent-payment = \"{scan_key}\"\nconfirmations = [1]\n\
         channels = [\"hook\", \"topic\", \"mail\", \"me\", \"log\"]\n"
    )
}

/// The same file with mistakes, each at a secret.
fn mistakes(file: &str, scan_key: &str) -> Vec<String> {
    let with = |old: &str, new: &str| {
        assert!(file.contains(old), "{old}");
        file.replacen(old, new, 1)
    };
    vec![
        with(&format!("[\"whsec_{HOOK_BASE64}\"]"), &format!("\"whsec_{HOOK_BASE64}\"")),
        with(&format!("\"whsec_{HOOK_BASE64}\""), &format!("\"{HOOK_BASE64}\"")),
        with(&format!("\"{TOKEN}\""), TOKEN),
        with(&format!("\"{TOKEN}\""), &format!("[\"{TOKEN}\"]")),
        with(&format!("\"{TOKEN}\""), &format!("\"{TOKEN}")),
        with(&format!("\"{TOKEN}\""), &format!("\"{TOKEN}\\n\"")),
        with(&format!("\"{MAIL}\""), &format!("{{ text = \"{MAIL}\" }}")),
        with(&format!("/{ADDRESS}?"), &format!(" /{ADDRESS}?")),
        with("http://", &format!("http://{ADDRESS}@")),
        with(&format!("/{TOPIC}"), &format!("/{TOPIC}/{TOPIC}.")),
        with(scan_key, &scan_key.replacen("1q", "1p", 1)),
        with("silent-payment = ", "silent-payment = 7 #"),
        with(&format!("\"{scan_key}\""), &format!("[\"{scan_key}\"]")),
        with("silent-payment", "descriptor"),
        with("silent-payment", "address"),
        with("silent-payment", "outpoint"),
        with("silent-payment", "xpub"),
        with("silent-payment", "script"),
        with("silent-payment", "silentpayment"),
    ]
}

/// Everything that must stay hidden.
struct Secrets {
    scan_key: String,
    all: Vec<Secret>,
}

impl Secrets {
    fn new() -> Self {
        let receiver = Receiver::new(RECEIVER);
        let scan_key = spscan::descriptor(&receiver);
        let text = |text: &str| Secret::of(text.as_bytes().try_into().unwrap());
        let (_, encoded) = scan_key.split_once(']').unwrap();
        // A part of its text, so that a key with a mistake is found, too.
        let scan = Secret::of(receiver.scan.secret_bytes()).with(&encoded[10..60]);
        Self { scan_key, all: [HOOK, ADDRESS, TOPIC, TOKEN, MAIL].map(text).into_iter().chain([scan]).collect() }
    }

    /// Adds those that the server has made for itself.
    fn add_own(&mut self, server: &Birdhouse) {
        let read = |name: &str| fs::read_to_string(server.dir().join(name)).unwrap().trim().to_owned();
        let (nsec, token) = (read("watch.nsec"), read("watch-api-token"));
        let (_, key) = bech32::decode(&nsec).unwrap();
        self.all.push(Secret::of(key.try_into().unwrap()).with(&nsec));
        self.all.push(Secret::of_text(&token));
    }

    fn assert_absent(&self, said: &str) {
        assert!(!self.all.iter().any(|secret| secret.is_in(said.as_bytes())), "{said}");
    }

    /// Asserts that no file has one but those that are for them.
    fn assert_in_own_files_alone(&self, server: &Birdhouse) {
        let own = OWN_FILES.map(|name| server.dir().join(name).display().to_string());
        for secret in &self.all {
            let found = secret.files_in(server.dir());
            let others: Vec<_> = found.iter().filter(|file| !own.contains(*file)).collect();
            assert!(others.is_empty() && found.len() < 2, "{others:?}");
        }
    }
}

fn write(server: &Birdhouse, text: &str) {
    let file = server.dir().join("watches.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
}

/// Reads the file with each mistake, and all that is said of it.
fn make_mistakes(server: &Birdhouse, secrets: &Secrets, file: &str) {
    for mistake in mistakes(file, &secrets.scan_key) {
        write(server, &mistake);
        let (done, said) = server.run("watch", &["test", "log"]);
        assert!(!done, "{mistake}");
        secrets.assert_absent(&said);
        for words in [&["list"][..], &["list", "--json"]] {
            secrets.assert_absent(&server.run("watch", words).1);
        }
        secrets.assert_absent(&server.run("doctor", &[]).1);
        assert_unsaid(&secrets.all, server);
    }
    write(server, file);
    server.signal(Signal::SIGHUP);
}

/// The API for programs, which has the wallets.
fn read_api(server: &Birdhouse, secrets: &Secrets) {
    let port = server.port("serving watched wallets and invoices for programs").unwrap();
    let key = fs::read_to_string(server.dir().join("watch-api-token")).unwrap();
    let headers = ["Host: localhost".to_owned(), format!("Authorization: Bearer {}", key.trim())];
    for path in ["/", "/watch/Silent", "/wallets", "/txs", "/utxos", "/openapi.json", "/invoices", "/labels"] {
        let (head, body) = ask_at(port, &format!("GET {path}"), &headers, "");
        assert!(!head.contains(" 401 "), "{path}: {head}");
        secrets.assert_absent(&format!("{head}{body}"));
    }
}

#[test]
fn secrets_of_channels_and_scan_keys_are_in_no_log_metric_page_argument_or_core_dump() {
    let mut secrets = Secrets::new();
    let mut live = LiveNode::start(SEED, TINY, Options::default()).unwrap();
    let settings = [
        ("BIRDHOUSE_SILENT_PAYMENTS", "full"),
        ("BIRDHOUSE_RELAY_ADDR", "127.0.0.1:0"),
        ("BIRDHOUSE_WATCH_API_ADDR", "127.0.0.1:0"),
        ("BIRDHOUSE_LOG", "trace"),
    ];
    let mut server = Birdhouse::start_after("ulimit -c unlimited", live.node(), &settings);
    let file = watch_file(&secrets.scan_key);
    write(&server, &file);
    server.signal(Signal::SIGHUP);
    server.until("scans for the watch", || {
        let of_watch = &list(&server)["watches"][0];
        (of_watch["name"] == "Silent" && of_watch.get("fault").is_none()).then_some(())
    });
    let payment = sent(&mut live, RECEIVER).transaction;
    live.mine_these(vec![payment]).unwrap();
    let reasons = server.until("tries each channel", || {
        let channels = list(&server)["channels"].clone();
        let why = |name: &str| {
            let channel = channels.as_array()?.iter().find(|channel| channel["name"] == name)?;
            channel["last_error"]["why"].as_str().map(str::to_owned)
        };
        let log = channels.as_array()?.iter().find(|channel| channel["name"] == "log")?;
        Some([why("hook")?, why("topic")?, why("mail")?, why("me")?]).filter(|_| log["delivered"] == 1)
    });
    assert!(reasons[0].contains("403") && reasons[2].contains("535") && reasons[3].contains("10050"), "{reasons:?}");
    secrets.add_own(&server);
    secrets.assert_absent(&reasons.concat());
    let (_, frame) = server.run("top", &["--once"]);
    assert!(frame.contains("channels       5, failing: "), "{frame}");
    secrets.assert_absent(&frame);
    secrets.assert_absent(&server.run("watch", &["notices", "--from", "0"]).1);

    make_mistakes(&server, &secrets, &file);
    let (done, said) = server.run("watch", &["add", "Other", &secrets.scan_key]);
    assert!(!done);
    secrets.assert_absent(&said);
    let fields = format!("&name=Silent&source={}&confirmations=1", secrets.scan_key.replace('/', "%2F"));
    let (status, said) = submit(&server, "watch-add", &fields);
    assert_eq!(status, 409, "{said}");
    secrets.assert_absent(&said);
    read_api(&server, &secrets);

    assert_unsaid(&secrets.all, &server);
    let arguments = fs::read(format!("/proc/{}/cmdline", server.id())).unwrap();
    secrets.assert_absent(&String::from_utf8_lossy(&arguments));
    secrets.assert_in_own_files_alone(&server);
    server.signal(Signal::SIGABRT);
    let (status, _) = server.wait();
    assert!(status.signal() == Some(6) && !status.core_dumped(), "{status:?}");
    secrets.assert_in_own_files_alone(&server);
    let exported = server.run("watch", &["export"]);
    assert_eq!(exported, (true, file), "the file itself is for whoever may read it");
}
