//! Sockets by which [`Seats`](crate::Seats) learn who is idle.
//!
//! Bytes count, and not messages: a client that only listens, downloads slowly or answers pings is there.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::seats::Seat;

/// A socket whose traffic, in either direction, makes its connection active.
pub struct Seated {
    socket: TcpStream,
    seat: Arc<Seat>,
}

impl Seated {
    /// Returns the socket of the connection with this seat.
    pub fn new(socket: TcpStream, seat: Arc<Seat>) -> Self {
        Self { socket, seat }
    }

    fn note(&self, bytes: usize) {
        if bytes > 0 {
            self.seat.touch(Instant::now());
        }
    }

    fn noted(&self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.note(bytes);
        }
        written
    }
}

impl AsyncRead for Seated {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.note(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Seated {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
