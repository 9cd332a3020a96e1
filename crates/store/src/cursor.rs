//! Values in little-endian order, and bytes behind their length, in logs and changes.

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("callers' values are far smaller").to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Cuts values from bytes; each method returns `None` where the bytes end too early.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A cursor at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True at the end.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn cut(&mut self, count: usize) -> Option<&'a [u8]> {
        let (cut, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(cut)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cut(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.cut(length as usize)
    }
}
