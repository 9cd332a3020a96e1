//! All watches of a server: opens the file and the state, and follows the index on one task.
//!
//! Without a watch file nothing is opened and no task runs.
//!
//! | file | what lives there |
//! |---|---|
//! | `status` | the state for operators |
//! | `scripts` | the watched scripts, as the API knows them |
//! | `running` | everything that runs once there is a watch or a channel; one update |
//! | `follow` | the task: updates of the index, one by one |
//! | `watches` | [`Watches`]: opens, reloads, reads |
//! | `delivery` | channels and their outboxes, test messages |
//! | `editing` | adds and removes watches in the file |
//! | `wallets` | what the API asks |

mod delivery;
mod editing;
mod follow;
mod running;
mod scripts;
mod status;
mod wallets;
mod watches;

pub use self::status::WatchStatus;
pub use self::watches::{Paths, Watches};
