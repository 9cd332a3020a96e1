//! Bodies of requests that are read whole.

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than allowed.
    TooLong,
    /// It ended early, or is no HTTP.
    Broken,
}

/// Reads a body of at most `bytes_max` bytes into one buffer.
///
/// Its pieces are not kept: hyper reads each into a buffer of 8 KiB at least, which lasts as long as the piece, so a
/// client that sends byte by byte would take thousands of times as much memory as its body has.
///
/// # Errors
/// See [`BodyError`].
pub async fn read_body<B: Body<Data = Bytes> + Unpin>(mut body: B, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if piece.len() > bytes_max - read.len() {
            return Err(BodyError::TooLong);
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_body_in_pieces_is_read_up_to_its_bound_and_keeps_no_piece() {
        let piece = Bytes::from(vec![7; 3]);
        let pieces = || stream::iter((0..4).map(|_| Ok::<_, Infallible>(Frame::data(piece.clone()))));
        assert_eq!(read_body(StreamBody::new(pieces()), 12).await.unwrap(), [7; 12]);
        assert_eq!(read_body(StreamBody::new(pieces()), 11).await, Err(BodyError::TooLong));
        let broken = StreamBody::new(stream::iter([Err::<Frame<Bytes>, _>("gone")]));
        assert_eq!(read_body(broken, 11).await, Err(BodyError::Broken));
        assert!(piece.is_unique());
    }
}
