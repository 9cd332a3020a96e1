//! ntfy's own server, where `$NTFY` names its program. No registry of packages has it: the module of Go lacks the pages
//! that the server embeds.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use birdhouse_watch::ChannelKind;
use birdhouse_watch::channel::{Message, Outcome, Priority};
use serde_json::{Value, json};

use crate::{channels, message, open};

const TOPIC: &str = "Birds_1";
const PATIENCE: Duration = Duration::from_mins(1);

/// The server, which lets nobody in without a token. Dropping it kills it.
struct Server {
    child: Child,
    port: u16,
    token: String,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Self {
        let users = format!("--auth-file={}", folder.join("users.db").display());
        let run = |args: &[&str]| {
            let output = Command::new(program).args(args).env("NTFY_PASSWORD", "birds").output().unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{said}");
            said
        };
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["serve", &users, "--auth-default-access=deny-all"]);
        command.arg(format!("--cache-file={}", folder.join("cache.db").display()));
        command.arg(format!("--listen-http=127.0.0.1:{port}")).arg(format!("--base-url=http://127.0.0.1:{port}"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port, token: String::new() };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(started.elapsed() < PATIENCE, "ntfy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The server makes the file of its users.
        run(&["user", &users, "add", "--role=admin", "birds"]);
        let said = run(&["token", &users, "add", "birds"]);
        let token = said.split_whitespace().find(|word| word.starts_with("tk_")).expect("a token");
        token.clone_into(&mut server.token);
        server
    }

    /// Returns the messages that a subscriber of the topic gets.
    fn messages(&self) -> Vec<Value> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        write!(
            socket,
            "GET /{TOPIC}/json?poll=1 HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n",
            self.token
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{head}");
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_of_ntfys_own_server_sees_what_was_sent() {
    let Some(program) = std::env::var_os("NTFY").map(PathBuf::from) else {
        return eprintln!("LEFT OUT: $NTFY names no server of ntfy");
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&program, folder.path());
    let channels = channels(folder.path());
    let channel = |token: &str| {
        let url = format!("http://127.0.0.1:{}/{TOPIC}", server.port);
        open(&channels, ChannelKind::Ntfy { url, token: Some(token.into()) })
    };
    let refused = channel("tk_nobodysnobodysnobodysnobodys0").send(&message()).await;
    assert!(matches!(refused, Outcome::Retry { .. } | Outcome::Rejected { .. }), "{refused:?}");
    let long = Message { line: "ü".repeat(3000), priority: Priority::Alarm, click: None, ..message() };
    for message in [&message(), &long] {
        assert_eq!(channel(&server.token).send(message).await, Outcome::Delivered);
    }
    let [usual, alarm] = &server.messages()[..] else { panic!("two messages: {:?}", server.messages()) };
    let fields = |message: &Value| ["title", "message", "click"].map(|name| message[name].clone());
    assert_eq!(fields(usual), [json!("Savings"), json!(message().line), json!("https://example.org/tx/aa11")]);
    // The server leaves out the usual priority, 3.
    assert!(usual["priority"].is_null() || usual["priority"] == 3, "{usual}");
    assert_eq!((&alarm["priority"], alarm.get("attachment")), (&json!(5), None));
    assert_eq!(alarm["message"], json!("ü".repeat(2047)), "4096 bytes would be an attachment");
}
