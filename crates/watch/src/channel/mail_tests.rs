//! Mail: its form, and servers that answer badly. `tests/deliver` has a real library behind the server.
#![expect(clippy::unwrap_used, reason = "tests")]

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::*;
use crate::channel::tests::{guard, message, why};

fn mail(server: &str, login: Option<Login>) -> Result<Mail, String> {
    let parties = Parties { from: "Birdhouse <birds@example.org>", to: "me@example.com, Ü <you@example.com>" };
    Mail::new(guard(), server, login, &parties, Wording::WithoutAmounts)
}

fn login() -> Login {
    Login { user: "birds".into(), password: Secret::new("s3cret") }
}

/// A server that answers the greeting and each line with the next of these.
async fn server(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut socket = BufReader::new(socket);
        for answer in answers {
            socket.write_all(answer.as_bytes()).await.unwrap();
            let mut line = String::new();
            if socket.read_line(&mut line).await.unwrap() == 0 {
                return;
            }
        }
    });
    url
}

#[test]
fn the_mail_is_one_line_of_text_with_an_id_that_stays() {
    let mail = mail("smtps://mail.example.org", None).unwrap();
    let alarm = Message { priority: Priority::Alarm, ..message() };
    let text = String::from_utf8(mail.mail(&alarm).unwrap().formatted()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    for line in [
        "From: Birdhouse <birds@example.org>",
        "Subject: Savings",
        "Message-ID: <00112233445566778899aabbccddeeff@example.org>",
        "Auto-Submitted: auto-generated",
        "Importance: high",
        "Date: Mon, 21 Sep 2026 14:13:20 +0000",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
    let expected = format!("{}\r\n\r\nhttps://example.org/tx/aa11\r\n", message().line_without_amounts);
    assert_eq!(body.trim_end(), expected.trim_end());
    assert_eq!(mail.mail(&alarm).unwrap().formatted(), text.into_bytes());
    assert!(!String::from_utf8(mail.mail(&message()).unwrap().formatted()).unwrap().contains("Importance"));
}

#[test]
fn a_title_cannot_add_a_header() {
    let mail = mail("smtps://mail.example.org", None).unwrap();
    let message = Message { title: "a\r\nBcc: other@example.com".into(), ..message() };
    let mail = mail.mail(&message).unwrap();
    assert_eq!(mail.envelope().to().len(), 2);
    let text = String::from_utf8(mail.formatted()).unwrap();
    assert!(!text.lines().any(|line| line.starts_with("Bcc")), "{text}");
}

#[tokio::test]
async fn a_server_elsewhere_must_encrypt() {
    let mail = mail("smtp://mail.example.org", None).unwrap();
    assert!(!is_this_machine(&mail.server.host));
    assert!(is_this_machine(&Target::parse("smtp://127.0.0.1", &[Scheme::Smtp]).unwrap().host));
    assert!(is_this_machine(&Target::parse("smtp://localhost", &[Scheme::Smtp]).unwrap().host));
    assert!(!is_this_machine(&Target::parse("smtp://192.168.0.1", &[Scheme::Smtp]).unwrap().host));
}

#[tokio::test]
async fn a_refused_login_does_not_repeat_the_password() {
    let url = server(&["220 a\r\n", "250-a\r\n250 AUTH PLAIN\r\n", "535 no: s3cret\r\n", "221 bye\r\n"]).await;
    let why = why(mail(&url, Some(login())).unwrap().send(&message()).await);
    assert!(why.contains("refused the login: 535") && !why.contains("s3cret"), "{why}");
}

#[tokio::test]
async fn a_mail_that_is_too_large_is_refused_and_other_failures_may_pass() {
    let url = server(&["220 a\r\n", "250 a\r\n", "552 too large\r\n", "221 bye\r\n"]).await;
    assert!(matches!(mail(&url, None).unwrap().send(&message()).await, Outcome::Refused { .. }));
    let url = server(&["220 a\r\n", "250 a\r\n", "550 nobody\r\n", "221 bye\r\n"]).await;
    let outcome = mail(&url, None).unwrap().send(&message()).await;
    assert!(matches!(&outcome, Outcome::Rejected { why } if why.contains("550")), "{outcome:?}");
    // A server that refuses everybody says nothing of the mail.
    let url = server(&["554 no mail here\r\n", "221 bye\r\n"]).await;
    assert!(why(mail(&url, None).unwrap().send(&message()).await).contains("554"));
    let url = server(&["220 a\r\n", "250 a\r\n", "451 later\r\n", "221 bye\r\n"]).await;
    assert!(why(mail(&url, None).unwrap().send(&message()).await).contains("451"));
    let url = server(&["not SMTP\r\n"]).await;
    assert!(why(mail(&url, None).unwrap().send(&message()).await).contains("failed to send"));
}

#[test]
fn broken_settings_are_refused() {
    assert!(mail("mail.example.org", None).is_err());
    assert!(mail("smtps://user:s3cret@mail.example.org", None).is_err_and(|error| !error.contains("s3cret")));
    let parties = Parties { from: "nobody", to: "me@example.com" };
    assert!(Mail::new(guard(), "smtps://a.example.org", None, &parties, Wording::WithAmounts).is_err());
}
