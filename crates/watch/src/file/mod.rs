//! The file `watches.toml`: settings of watches and channels. Parses, checks and writes back; uses `limits` alone.

mod addition;
mod disk;
mod names;
mod parse;
mod settings;

pub use addition::NewWatch;
pub use names::{ChannelName, WatchName};
pub use parse::FileError;
pub use settings::{
    ChannelKind, ChannelSettings, Directions, HealthSettings, InvoiceChange, Source, WatchFile, WatchSettings,
};
