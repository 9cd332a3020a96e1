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

    /// Writes, and notes when. By the time before: the client may have its reply, and send on another connection,
    /// before this thread goes on.
    fn write(&mut self, write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<Result<usize>>) -> Poll<Result<usize>> {
        let begun = Instant::now();
        let written = write(Pin::new(&mut self.socket));
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.seat.touch(begun);
        }
        written
    }
}

impl AsyncRead for Seated {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.seat.touch(Instant::now());
        }
        read
    }
}

impl AsyncWrite for Seated {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.write(|socket| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.write(|socket| socket.poll_write_vectored(context, pieces))
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
