//! Lines out of a stream of bytes, never longer than a bound.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What the stream has next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line is there for [`Lines::take`].
    Line,
    /// The client has sent its last byte; what stands after the last line end counts as a line.
    End,
    /// A line is longer than the bound.
    TooLong,
}

/// Capacity that an emptied buffer may keep, and the least that is read at once.
const KEEP_BYTES: usize = 4 * 1024;

/// A bounded line reader.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    stream: R,
    line_bytes_max: usize,
    buffer: Vec<u8>,
    /// Where the first line not taken yet begins.
    start: usize,
    /// No line end stands between `start` and here.
    scanned: usize,
    /// Where the first line not taken yet ends, if that is known.
    end: Option<usize>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R, line_bytes_max: usize) -> Self {
        Self { stream, line_bytes_max, buffer: Vec::new(), start: 0, scanned: 0, end: None }
    }

    /// Whether a whole line is there without waiting.
    pub(crate) fn has_line(&mut self) -> bool {
        if self.end.is_none() {
            let rest = &self.buffer[self.scanned..];
            self.end = rest.iter().position(|byte| *byte == b'\n').map(|offset| self.scanned + offset);
            self.scanned = self.end.unwrap_or(self.buffer.len());
        }
        self.end.is_some_and(|end| end - self.start <= self.line_bytes_max)
    }

    /// Waits for a line. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> std::io::Result<Next> {
        loop {
            if self.has_line() {
                return Ok(Next::Line);
            }
            let line_end = self.end.unwrap_or(self.buffer.len());
            if line_end - self.start > self.line_bytes_max {
                return Ok(Next::TooLong);
            }
            self.make_room();
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(Next::End);
            }
        }
    }

    /// The line that [`Self::next`] or [`Self::has_line`] found, or what stands before the end of the
    /// stream. Without its end.
    pub(crate) fn take(&mut self) -> &[u8] {
        let start = self.start;
        let end = self.end.take().unwrap_or(self.buffer.len());
        self.start = (end + 1).min(self.buffer.len());
        self.scanned = self.start;
        self.buffer[start..end].strip_suffix(b"\r").unwrap_or(&self.buffer[start..end])
    }

    /// Whether there is anything to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Reads what still comes, and forgets it, up to `bytes`.
    pub(crate) async fn discard(mut self, bytes: usize) -> std::io::Result<()> {
        let mut seen = 0;
        while seen < bytes {
            self.buffer.clear();
            self.buffer.reserve(KEEP_BYTES);
            match self.stream.read_buf(&mut self.buffer).await? {
                0 => return Ok(()),
                read => seen += read,
            }
        }
        Ok(())
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_BYTES {
            self.buffer = Vec::new();
        }
        if self.buffer.capacity() - self.buffer.len() < KEEP_BYTES / 2 {
            self.buffer.reserve(KEEP_BYTES.max(self.buffer.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    /// Every line of a stream that comes in pieces, and how it ends.
    async fn all(pieces: &[&[u8]], line_bytes_max: usize) -> (Vec<Vec<u8>>, Next) {
        let stream = pieces.iter().fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |head, piece| {
            Box::new(head.chain(*piece))
        });
        let mut lines = Lines::new(stream, line_bytes_max);
        let mut taken = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Next::Line => taken.push(lines.take().to_vec()),
                Next::End if lines.is_empty() => return (taken, Next::End),
                Next::End => {
                    taken.push(lines.take().to_vec());
                    return (taken, Next::End);
                }
                Next::TooLong => return (taken, Next::TooLong),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_however_the_bytes_are_cut() {
        let (lines, end) = all(&[b"on", b"e\ntw", b"o\r\n\nthree\nla", b"st"], 5).await;
        assert_eq!(lines, [&b"one"[..], b"two", b"", b"three", b"last"]);
        assert_eq!(end, Next::End);
    }

    #[tokio::test]
    async fn a_line_at_the_bound_passes_and_one_byte_more_does_not() {
        assert_eq!(all(&[b"12345\n"], 5).await, (vec![b"12345".to_vec()], Next::End));
        assert_eq!(all(&[b"ok\n123456\n"], 5).await, (vec![b"ok".to_vec()], Next::TooLong));
        assert_eq!(all(&[b"123", b"456"], 5).await, (Vec::new(), Next::TooLong));
    }

    proptest! {
        #[test]
        fn lines_are_those_of_split(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
                                    cut in 0usize..300) {
            let cut = cut.min(bytes.len());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (lines, end) = runtime.block_on(all(&[&bytes[..cut], &bytes[cut..]], 1000));
            let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<_> = expected.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
            prop_assert_eq!(end, Next::End);
            prop_assert_eq!(lines, expected);
        }
    }
}
