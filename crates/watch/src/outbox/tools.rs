//! Tools of all tasks: clock, chance, waits, and the way from a notice to a message.

use std::sync::Arc;

use super::schedule::Schedule;
use crate::channel::{Clock, Message};
use crate::notice::Notice;

/// Makes messages of notices.
pub type Render = Arc<dyn Fn(&Notice) -> Message + Send + Sync>;

/// Clock, chance and waits of deliveries.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) clock: Clock,
    pub(super) random: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(super) schedule: Schedule,
}
