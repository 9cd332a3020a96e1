//! The streams of one connection. They are sent one after the other: clients tell them apart by nothing else.

use std::collections::VecDeque;

use crate::error::RpcError;
use crate::limits::TWEAK_STREAMS_MAX;
use crate::protocol::TweakStream;

/// Streams that are admitted and not over.
#[derive(Debug, Default)]
pub(crate) struct TweakStreams {
    /// Number of streams, with those whose reply has not left and the one that is being sent.
    open: usize,
    /// Streams whose reply has left.
    waiting: VecDeque<TweakStream>,
}

// === impl TweakStreams ===

impl TweakStreams {
    /// Admits a stream.
    pub(crate) fn enter(&mut self) -> Result<(), RpcError> {
        if self.open >= TWEAK_STREAMS_MAX {
            let message = format_args!("the number of streams of tweaks exceeds the cap of {TWEAK_STREAMS_MAX}");
            return Err(RpcError::excessive(message));
        }
        self.open += 1;
        Ok(())
    }

    /// The reply to a stream's request has left.
    pub(crate) fn settle(&mut self, stream: TweakStream) {
        self.waiting.push_back(stream);
    }

    /// A stream is over, or its reply is an error.
    pub(crate) fn end(&mut self) {
        self.open -= 1;
    }

    /// Returns true if a stream waits to be sent.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the next stream to send.
    pub(crate) fn next(&mut self) -> Option<TweakStream> {
        self.waiting.pop_front()
    }
}
