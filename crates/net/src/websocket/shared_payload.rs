//! Shared suffix of a message to many connections, compressed once for all of them.
//!
//! The messages differ in their beginning alone, such as the name of a subscription. A compressed message may begin
//! with a block that is not compressed; the block after it refers to nothing before itself, so it is the same in
//! every message.
//!
//! Source: [RFC 1951](https://www.rfc-editor.org/rfc/rfc1951), section 3.2.4;
//! [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 7.2.3.

use std::sync::OnceLock;

use super::deflate::Compression;

/// Suffix of a message.
#[derive(Debug)]
pub struct SharedPayload {
    plain: Vec<u8>,
    compressed: OnceLock<Option<Vec<u8>>>,
}

impl SharedPayload {
    /// Creates a payload of these bytes, not compressed yet.
    pub fn new(plain: Vec<u8>) -> Self {
        Self { plain, compressed: OnceLock::new() }
    }

    /// Returns the plain bytes.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Returns the compressed bytes, to append after a stored block; `None` if they are not fewer. The first caller
    /// compresses.
    pub(crate) fn compressed(&self) -> Option<&[u8]> {
        self.compressed.get_or_init(|| Compression::Deflate.deflate(&self.plain)).as_deref()
    }
}
