//! An answer that is in memory, as a body in pieces.
//!
//! A socket takes all that a body has in one poll, and so does whatever compresses it. With a body in one piece that
//! was up to 16 MB, and a thread of the runtime, which serves other clients as well, was busy with it for a tenth of a
//! second.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes of a piece: compressing them takes some hundred microseconds.
pub(super) const PIECE_BYTES: usize = 16 * 1024;

/// A body that lets other tasks run after each piece.
pub(super) struct WholeBody {
    left: Bytes,
    /// The last poll returned a piece.
    gives_way: bool,
}

impl WholeBody {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { left: bytes, gives_way: false }
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut self.gives_way) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.gives_way = true;
        let bytes = self.left.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns the lengths of a body's pieces, each with the number of polls before it that gave way.
    fn pieces(bytes: usize) -> Vec<(usize, usize)> {
        let (mut body, mut pieces, mut waits) = (WholeBody::new(vec![7; bytes].into()), Vec::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Pending => waits += 1,
                Poll::Ready(None) => return pieces,
                Poll::Ready(Some(Ok(frame))) => {
                    pieces.push((frame.into_data().map_or(0, |data| data.len()), waits));
                    waits = 0;
                }
            }
        }
    }

    #[test]
    fn a_body_gives_way_before_each_further_piece() {
        assert_eq!(pieces(0), []);
        assert_eq!(pieces(PIECE_BYTES), [(PIECE_BYTES, 0)]);
        assert_eq!(pieces(2 * PIECE_BYTES + 1), [(PIECE_BYTES, 0), (PIECE_BYTES, 1), (1, 1)]);
    }
}
