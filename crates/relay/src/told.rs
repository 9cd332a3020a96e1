//! An event for all who wait for it: its JSON is made once, and made smaller once.
//!
//! The messages that carry it differ in their beginning alone, the name of the subscription. A compressed message may begin with a
//! block that is not compressed; what follows it here looks back at nothing before itself, so that it is the same in every message.
//!
//! Source: RFC 1951, section 3.2.4; RFC 7692, section 7.2.3.

use std::sync::OnceLock;

use birdhouse_events::Event;

use crate::deflate::Deflate;

/// See the module.
#[derive(Debug)]
pub(crate) struct Told {
    /// JSON, and the end of the message.
    rest: Vec<u8>,
    small: OnceLock<Option<Vec<u8>>>,
}

impl Told {
    pub(crate) fn new(event: &Event) -> Self {
        let mut rest = Vec::new();
        event.write_json(&mut rest);
        rest.push(b']');
        Self { rest, small: OnceLock::new() }
    }

    /// A message without its beginning.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// The same compressed, to follow other blocks; `None` when it would not be smaller. Whoever asks first makes it.
    pub(crate) fn small(&self) -> Option<&[u8]> {
        self.small.get_or_init(|| Deflate::deflate(&self.rest)).as_deref()
    }
}
