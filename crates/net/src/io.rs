//! Streams of any transport.

use tokio::io::{AsyncRead, AsyncWrite};

/// Both directions of a stream.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Io for S {}
