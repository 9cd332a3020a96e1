//! The machine that is measured: folders, the node, servers and their start, CPU time, and the wire to them.

pub(crate) mod args;
pub(crate) mod folder;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod server_at;
pub(crate) mod wire;
