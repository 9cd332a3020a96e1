//! Events that come or go by the operator's commands: `birdhouse sync`, `import` and `export`, beside a running server
//! or on a data folder that no server has open.

mod files;
mod line;
mod sync;

pub(super) use self::files::{export, import};
pub(crate) use self::line::{Imported, Line, Synced};
pub(super) use self::sync::synchronize_over;
pub(crate) use self::sync::{REPORTS_WAITING, synchronize};
