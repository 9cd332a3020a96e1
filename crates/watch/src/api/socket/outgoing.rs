//! Frames on their way to a client, which may stop to read in the middle of one.

use std::time::Duration;

use birdhouse_net::FrameWriter;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// Frames, and how far they are written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frames: FrameWriter,
    written: usize,
}

/// Reason why frames were not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// The client is gone.
    Gone,
    /// It has taken nothing for too long. Its frames wait: further ones may follow them.
    Slow,
}

impl Outgoing {
    pub(super) fn new(frames: FrameWriter) -> Self {
        Self { frames, written: 0 }
    }

    /// Writes all frames. `patience` is the longest time in which nothing is taken.
    pub(super) async fn flush(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        patience: Duration,
    ) -> Result<(), Unwritten> {
        while let Some(rest) = self.frames.bytes().get(self.written..).filter(|rest| !rest.is_empty()) {
            match timeout(patience, stream.write(rest)).await {
                Ok(Ok(0) | Err(_)) => return Err(Unwritten::Gone),
                Ok(Ok(count)) => self.written += count,
                Err(_) => return Err(Unwritten::Slow),
            }
        }
        self.frames.clear();
        self.written = 0;
        match timeout(patience, stream.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Unwritten::Gone),
            Err(_) => Err(Unwritten::Slow),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_net::{CloseCode, Compression};
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// The message is whole, and the end with its cursor comes behind it.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_wakes_up_late_reads_its_message_and_the_cursor() {
        let (mut server, mut client) = tokio::io::duplex(16);
        let mut outgoing = Outgoing::new(FrameWriter::new(Compression::Off));
        let message = "x".repeat(100);
        outgoing.frames.text(&[message.as_bytes()]);
        let patience = Duration::from_mins(1);
        assert_eq!(outgoing.flush(&mut server, patience).await, Err(Unwritten::Slow));
        outgoing.frames.close(CloseCode::Again, "7:ab");
        let reading = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            all
        });
        assert_eq!(outgoing.flush(&mut server, patience).await, Ok(()));
        drop(server);
        // RFC 6455: 0x81 text, 0x88 close with the status 1013 = 0x03f5 and a reason.
        let expected = [b"\x81\x64", message.as_bytes(), b"\x88\x06\x03\xf57:ab"].concat();
        assert_eq!(reading.await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_it() {
        let (mut server, client) = tokio::io::duplex(16);
        drop(client);
        let mut outgoing = Outgoing::new(FrameWriter::new(Compression::Off));
        outgoing.frames.text(&[b"x"]);
        assert_eq!(outgoing.flush(&mut server, Duration::from_mins(1)).await, Err(Unwritten::Gone));
    }
}
