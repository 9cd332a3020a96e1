//! Mail, as the library aiosmtpd takes it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use birdhouse_watch::ChannelKind;
use birdhouse_watch::channel::Outcome;
use serde_json::{Value, json};

use crate::peers::RECEIVERS;
use crate::{channels, message, open};

/// Prints its port, then each mail as one line of JSON. Takes the one login that it is given.
const SERVER: &str = r#"
import json, sys, email, email.policy, socket
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
class Handler:
    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        print(json.dumps({"from": envelope.mail_from, "to": envelope.rcpt_tos, "subject": mail["subject"],
            "id": mail["message-id"], "text": mail.get_content(), "login": session.auth_data is not None}), flush=True)
        return "250 taken"
def login(server, session, envelope, mechanism, data):
    # A login that is refused has no answer yet.
    return AuthResult(success=data.login == b"birds" and data.password == b"s3cret", handled=False, auth_data=data)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = Controller(Handler(), hostname="127.0.0.1", port=port, authenticator=login, auth_require_tls=False,
    ready_timeout=60)
server.start()
print(port, flush=True)
sys.stdin.read()
"#;

/// A server that ends with the test.
struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    url: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(folder.join("python/bin/python"));
        command.args(["-c", SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = format!("smtp://127.0.0.1:{}", lines.next().unwrap().unwrap());
        Self { child, lines, url }
    }

    fn mail(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aiosmtpd_takes_mail_with_and_without_a_login() {
    let Some(folder) = RECEIVERS.folder() else { return };
    let mut server = Server::start(&folder);
    let keys = tempfile::tempdir().unwrap();
    let channels = channels(keys.path());
    let channel = |password: Option<&str>| {
        let (to, from) = ("me@example.com, you@example.com".into(), "Birdhouse <birds@example.org>".into());
        let (user, password) = (password.map(|_| "birds".to_owned()), password.map(str::to_owned));
        open(&channels, ChannelKind::Mail { to, from, server: server.url.clone(), user, password })
    };
    let (without, right, wrong) = (channel(None), channel(Some("s3cret")), channel(Some("other")));
    for (channel, login) in [(without, false), (right, true)] {
        assert_eq!(channel.send(&message()).await, Outcome::Delivered);
        let mail = server.mail();
        assert_eq!(mail["subject"], "Savings");
        assert_eq!(mail["id"], "<00112233445566778899aabbccddeeff@example.org>");
        assert_eq!((&mail["from"], &mail["login"]), (&json!("birds@example.org"), &json!(login)));
        assert_eq!(mail["to"], json!(["me@example.com", "you@example.com"]));
        let text = format!("{}\n\nhttps://example.org/tx/aa11\n", message().line);
        assert_eq!(mail["text"].as_str().unwrap().replace("\r\n", "\n").trim_end(), text.trim_end());
    }
    let Outcome::Retry { why, .. } = wrong.send(&message()).await else { panic!("a wrong password") };
    assert!(why.contains("refused the login") && !why.contains("other"), "{why}");
}
