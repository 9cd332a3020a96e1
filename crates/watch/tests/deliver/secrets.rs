//! No secret is printed: not by `Debug` of settings, not in the reasons of failures, not in log lines of any level.

use std::io::Write;
use std::sync::{Arc, Mutex};

use birdhouse_watch::ChannelKind;
use birdhouse_watch::channel::Outcome;
use tracing_subscriber::fmt::MakeWriter;

use crate::{channels, message, open};

/// Each secret of the channels below has this in it. Of the key at Nostr, the file is read.
const SECRET: &str = "s3cret";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn nothing_prints_a_secret() {
    let lines = Lines::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let folder = tempfile::tempdir().unwrap();
    let channels = channels(folder.path());
    // Nobody listens on this port, which only root may bind.
    let kinds = [
        ChannelKind::Ntfy { url: format!("http://127.0.0.1:9/{SECRET}"), token: Some(format!("tk_{SECRET}")) },
        ChannelKind::Webhook {
            url: format!("http://127.0.0.1:9/{SECRET}?token={SECRET}"),
            secrets: vec!["whsec_s3creta2V5s3creta2V5s3creta2V5AA".into()],
        },
        ChannelKind::Mail {
            to: "me@example.com".into(),
            from: "birds@example.org".into(),
            server: "smtp://127.0.0.1:9".into(),
            user: Some("birds".into()),
            password: Some(SECRET.into()),
        },
        ChannelKind::Nostr {
            to: "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg".into(),
            relays: vec![format!("ws://127.0.0.1:9/{SECRET}")],
        },
        ChannelKind::Command { argv: vec!["/bin/false".into(), SECRET.into()] },
    ];
    let mut printed = format!("{kinds:?}");
    for kind in kinds {
        let name = kind.name();
        let Outcome::Retry { why, .. } = open(&channels, kind).send(&message()).await else { panic!("{name}") };
        printed.push_str(&why);
    }
    printed.push_str(&String::from_utf8(lines.0.lock().unwrap().clone()).unwrap());
    assert!(printed.contains("127.0.0.1:9") && !printed.contains(SECRET), "{printed}");
    let key = std::fs::read_to_string(folder.path().join("watch.nsec")).unwrap();
    assert!(key.starts_with("nsec1") && !printed.contains(key.trim()));
}
