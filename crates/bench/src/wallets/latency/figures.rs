//! The measurements of one server.

use std::time::Duration;

use super::answers::Answers;

pub(super) const METHODS: [&str; 3] = ["get_balance", "get_history", "listunspent"];

/// Answers and times of one server, in the order of the scripts.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) answers: Vec<Answers>,
    pub(super) times: Vec<Times>,
}

/// Times of one script by method.
pub(super) type Times = [Vec<Duration>; 3];
