//! The file `watches.toml`: settings of watches and channels. Parses, checks and writes back; uses `limits` alone.

mod names;
mod settings;

pub use names::{ChannelName, WatchName};
pub use settings::{ChannelKind, ChannelSettings, Directions, Source, WatchFile, WatchSettings};
