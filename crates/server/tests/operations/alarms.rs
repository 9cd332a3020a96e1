//! Warnings of the server on their way to a person: a real fault, a channel, and the end of the fault.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use tempfile::TempDir;

use crate::node;
use crate::process::Birdhouse;
use crate::watches::Receiver;

/// Makes a folder with a watch file that sends warnings to a receiver once they have stood for two seconds.
fn folder(receiver: &Receiver) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n\
         secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n[health]\nchannels = [\"hook\"]\nafter = 2\n",
        receiver.url()
    );
    let file = folder.path().join("watches.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    folder
}

/// Returns the next notice, which is about this part: nothing else is wrong, but for a disk that tests have filled.
fn next(receiver: &Receiver, subject: &str) -> Value {
    let mut taken = std::iter::repeat_with(|| receiver.take().1);
    let body = taken.find(|body| body["data"]["subject"] != "disk").unwrap();
    assert_eq!((&body["type"], &body["data"]["subject"]), (&"watch.health".into(), &subject.into()), "{body}");
    body
}

#[test]
fn a_node_that_stops_is_announced_by_a_webhook_and_so_is_its_return() {
    let (mut node, receiver) = (node(), Receiver::new());
    let server = Birdhouse::start_in(folder(&receiver).path(), &node, &[]);
    node.stop().unwrap();
    let body = next(&receiver, "node");
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("birdhouse: Node unreachable for ") && text.contains("Start the node."), "{body}");
    assert_eq!((&body["data"]["is_over"], &body["priority"]), (&false.into(), &4.into()), "{body}");

    node.restart().unwrap();
    let body = next(&receiver, "node");
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("birdhouse: well again: Node unreachable for "), "{body}");
    assert_eq!((&body["data"]["is_over"], &body["priority"]), (&true.into(), &3.into()), "{body}");
    server.until("is healthy again", || (server.get("/health").status == 200).then_some(()));
}

/// Writes a certificate and its key that is valid from 2020 to the beginning of this year.
fn write_certificate(file: &Path, year: i32) {
    let mut params = CertificateParams::new(vec!["birdhouse.example".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 1, 1));
    let key = KeyPair::generate().unwrap();
    fs::write(file, params.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
}

#[test]
fn a_certificate_that_has_expired_is_announced_until_there_is_a_new_one() {
    let (node, receiver) = (node(), Receiver::new());
    let folder = folder(&receiver);
    let file = folder.path().join("certificate.pem");
    write_certificate(&file, 2021);
    let path = file.display().to_string();
    let names = ["BIRDHOUSE_TLS_CERT", "BIRDHOUSE_TLS_KEY"].map(|name| (name, path.as_str()));
    let envs = [&names[..], &[("BIRDHOUSE_ELECTRUM_TLS_ADDR", "127.0.0.1:0")]].concat();
    let server = Birdhouse::start_in(folder.path(), &node, &envs);
    let body = next(&receiver, "certificate");
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("birdhouse: The certificate of tls has expired. Renew it"), "{body}");
    assert!(server.get("/").body.contains("has expired."), "the dashboard says so, too");

    write_certificate(&file, 2049);
    let body = next(&receiver, "certificate");
    assert_eq!(body["data"]["is_over"], true, "{body}");
    assert!(!server.get("/").body.contains("has expired."));
}
