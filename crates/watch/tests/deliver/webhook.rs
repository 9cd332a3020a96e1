//! Webhooks, as the libraries of Standard Webhooks of npm and `PyPI` verify them, while a secret is rotated.

use std::process::Command;

use birdhouse_watch::ChannelKind;
use birdhouse_watch::channel::Outcome;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::peers::{RECEIVERS, run};
use crate::{channels, message, open};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const UNKNOWN: &str = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB";

/// Takes one request, answers 200, and returns its headers and its body as JSON.
async fn take(listener: &TcpListener) -> Value {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let (head, body) = loop {
        socket.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            break (head.to_owned(), body.to_owned());
        }
    };
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let headers: serde_json::Map<_, _> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    json!({ "headers": headers, "body": body })
}

const NODE: &str = r#"
const [, packages, input] = process.argv;
const { Webhook } = require(packages + "/node_modules/standardwebhooks");
const { request, secrets } = JSON.parse(input);
const verify = (secret, body) => {
    try { return new Webhook(secret).verify(body, request.headers) } catch (error) { return error.message }
};
const seen = secrets.map((secret) => verify(secret, request.body));
console.log(JSON.stringify({ seen, changed: verify(secrets[0], request.body + " ") }));
"#;

const PYTHON: &str = r#"
import json, sys
from standardwebhooks.webhooks import Webhook
given = json.loads(sys.argv[1])
request = given["request"]
def verify(secret, body):
    try:
        return Webhook(secret).verify(body, request["headers"])
    except Exception as error:
        return str(error)
seen = [verify(secret, request["body"]) for secret in given["secrets"]]
print(json.dumps({"seen": seen, "changed": verify(given["secrets"][0], request["body"] + " ")}))
"#;

#[tokio::test]
async fn the_libraries_of_npm_and_pypi_verify_each_secret_of_a_rotation() {
    let Some(folder) = RECEIVERS.folder() else { return };
    let keys = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let secrets = vec![NEW.to_owned(), OLD.to_owned()];
    let channel = open(&channels(keys.path()), ChannelKind::Webhook { url, secrets });
    let message = message();
    let (outcome, request) = tokio::join!(channel.send(&message), take(&listener));
    assert_eq!(outcome, Outcome::Delivered);
    let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["data"], message.body);

    let given = json!({ "request": request, "secrets": [NEW, OLD, UNKNOWN] }).to_string();
    let mut node = Command::new("node");
    node.args(["--eval", NODE]).arg(&folder).arg(&given);
    let mut python = Command::new(folder.join("python/bin/python"));
    python.args(["-c", PYTHON]).arg(&given);
    for library in [node, python] {
        let seen: Value = run(library).await;
        assert_eq!((&seen["seen"][0], &seen["seen"][1]), (&body, &body), "both secrets: {seen}");
        assert!(seen["seen"][2].is_string() && seen["changed"].is_string(), "{seen}");
    }
}
