//! Answers that are compressed as they are sent, in turns of their client.
//!
//! A layer of middleware would compress in the task of the connection: one client with fifty connections then has as
//! much of the processors as everybody else together.

use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use birdhouse_net::{Executor, Meter, Reads, Unfinished};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use crate::http::whole_body::PIECE_BYTES;
use crate::service::Caller;
use crate::wire::{BUFFERING, EVENTS};

/// Bytes above which an answer is compressed for clients that accept it.
const COMPRESS_ABOVE: u64 = 1024;
/// Bytes of compressed output that leave together.
const OUTPUT_BYTES: usize = 8 * 1024;
/// Memory of an encoder: window, hash chains and symbols (`deflateInit2` in zlib's manual), and its output.
const ENCODER_BYTES: usize = 300_000;

/// A body that is compressed as it is read.
struct Compressed {
    plain: Body,
    /// Made with the first piece.
    encoder: Option<GzEncoder<Vec<u8>>>,
    has_ended: bool,
    reads: Arc<Reads>,
    meter: Arc<Meter>,
    _held: Unfinished,
}

/// Compresses the answer if its client accepts gzip (RFC 9110, section 12.5.3), it is long enough, and memory for
/// unread answers has ample room.
pub(crate) async fn with_gzip(State(reads): State<Arc<Reads>>, request: Request, next: Next) -> Response {
    let accepts = request.method() != Method::HEAD && accepts_gzip(request.headers());
    let caller = request.extensions().get::<Caller>().cloned();
    let mut response = next.run(request).await;
    let is_compressible = is_compressible(&response);
    if is_compressible || response.status() == StatusCode::NOT_MODIFIED {
        response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    let caller = caller.filter(|caller| is_compressible && accepts && caller.unsent.is_ample());
    let Some(caller) = caller else { return response };
    let mut held = Unfinished::new(caller.unsent, usize::MAX);
    held.add(ENCODER_BYTES);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.map(|plain| compressed(plain, reads, caller.meter, held))
}

fn is_compressible(response: &Response) -> bool {
    let headers = response.headers();
    let is_packed = |kind: &HeaderValue| ["application/octet-stream", EVENTS].iter().any(|packed| kind == packed);
    let is_long = response.body().size_hint().upper().is_none_or(|bytes| bytes > COMPRESS_ABOVE);
    // An encoder, like a proxy, would keep what is to be seen at once.
    let is_buffered = !headers.contains_key(BUFFERING);
    is_long && is_buffered && !headers.get(header::CONTENT_TYPE).is_some_and(is_packed)
}

/// True if a client that sends these headers takes gzip, by its name or by `*`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let codings = lines.flat_map(|line| line.split(',')).map(|item| {
        let item = item.to_ascii_lowercase();
        let (coding, weight) = item.split_once(';').unwrap_or((&item, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), |weight| weight.trim().parse::<f32>());
        (coding.trim().to_owned(), weight.is_ok_and(|weight| weight > 0.0))
    });
    let (named, others): (Vec<_>, Vec<_>) = codings.partition(|(coding, _)| coding == "gzip" || coding == "x-gzip");
    let is_any = |(coding, is_accepted): &(String, bool)| coding == "*" && *is_accepted;
    if named.is_empty() { others.iter().any(is_any) } else { named.iter().any(|(_, is_accepted)| *is_accepted) }
}

fn compressed(plain: Body, reads: Arc<Reads>, meter: Arc<Meter>, held: Unfinished) -> Body {
    let state = Compressed { plain, encoder: None, has_ended: false, reads, meter, _held: held };
    Body::from_stream(stream::unfold(state, |mut state| async {
        let piece = state.piece().await.transpose()?;
        Some((piece, state))
    }))
}

impl Compressed {
    /// Returns the next piece; `None` after the last.
    async fn piece(&mut self) -> Result<Option<Bytes>, axum::Error> {
        while !self.has_ended {
            let frame = self.plain.frame().await.transpose();
            let frame = frame.inspect_err(|_| self.has_ended = true)?;
            let _turn = self.reads.processors.take(&self.meter).await;
            let mut encoder = self.encoder.take().unwrap_or_else(|| GzEncoder::new(Vec::new(), Compression::default()));
            let Some(frame) = frame else {
                self.has_ended = true;
                return Ok(Some(encoder.finish().expect("memory takes everything").into()));
            };
            if let Ok(plain) = frame.into_data() {
                Executor::for_bytes(plain.len(), PIECE_BYTES)
                    .run(|| encoder.write_all(&plain).expect("memory takes everything"));
            }
            let output = encoder.get_mut();
            let full = (output.len() >= OUTPUT_BYTES).then(|| std::mem::take(output));
            self.encoder = Some(encoder);
            if let Some(full) = full {
                return Ok(Some(full.into()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    use birdhouse_clients::{ClientKeying, Origin};
    use birdhouse_net::{ClientBounds, ConnectionGuard, Connections, Pool, Registry, Unsent};
    use flate2::read::GzDecoder;
    use tokio::time::timeout;

    use super::*;

    const BOUNDS: ClientBounds = ClientBounds { connections: None, work: None, work_percent: 50, unsent_bytes: None };

    fn client(registry: &Arc<Registry>, last: u8) -> ConnectionGuard {
        let origin = Origin::of([192, 0, 2, last].into());
        registry.enter(u64::from(last), "rest", origin, &BOUNDS, Instant::now()).unwrap()
    }

    fn registry() -> Arc<Registry> {
        Registry::new(ClientKeying::default(), Connections::default())
    }

    fn held() -> Unfinished {
        Unfinished::new(Unsent { all: Pool::new(0), client: Pool::new(0) }, usize::MAX)
    }

    #[tokio::test]
    async fn pieces_of_any_length_come_back_equal() {
        let (registry, reads) = (registry(), Arc::new(Reads::new(1, 1, 1)));
        let client = client(&registry, 1);
        for lengths in [vec![], vec![0], vec![1, 0, 5], vec![16_385, 3, 1_000_000], vec![100; 3000]] {
            let mut state = 1_u32;
            let mut random = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // A quarter of what a byte can be, so that it becomes shorter, and not much.
                (state >> 24).to_le_bytes()[0] & 63
            };
            let pieces: Vec<Vec<u8>> = lengths.iter().map(|length| (0..*length).map(|_| random()).collect()).collect();
            let plain = pieces.concat();
            let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, axum::Error>)));
            let body = compressed(body, Arc::clone(&reads), Arc::clone(&client.meter), held());
            let packed = body.collect().await.unwrap().to_bytes();
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == plain, "{lengths:?}");
        }
    }

    #[tokio::test]
    async fn compression_waits_for_the_turn_of_its_client() {
        let (registry, reads) = (registry(), Arc::new(Reads::new(1, 1, 1)));
        let [other, asking] = [client(&registry, 1), client(&registry, 2)];
        let turns = [reads.processors.take(&other.meter).await, reads.processors.take(&asking.meter).await];
        let body = compressed(Body::from("plain"), Arc::clone(&reads), Arc::clone(&asking.meter), held());
        let mut body = std::pin::pin!(body.collect());
        assert!(timeout(Duration::from_millis(50), body.as_mut()).await.is_err());
        drop(turns);
        assert!(!body.await.unwrap().to_bytes().is_empty());
    }

    #[test]
    fn gzip_is_accepted_by_its_name_or_any() {
        let accepts = |lines: &[&'static str]| {
            let line = |line: &&'static str| (header::ACCEPT_ENCODING, HeaderValue::from_static(line));
            accepts_gzip(&lines.iter().map(line).collect())
        };
        for lines in
            [&["gzip"][..], &["br, GZIP;q=0.5"], &["*"], &["br", "x-gzip"], &["br;q=0, *;q=0.1"], &["x-gzip;q=0, gzip"]]
        {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in
            [&[][..], &[""], &["br"], &["gzip;q=0"], &["*, gzip;q=0"], &["gzip;q=x"], &["gzip;Q=0"], &["*; q=0.0"]]
        {
            assert!(!accepts(lines), "{lines:?}");
        }
    }
}
