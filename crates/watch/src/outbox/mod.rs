//! Delivery: when to try again, and one task a channel.
