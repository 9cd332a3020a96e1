//! Parts of requests, and shapes of answers: JSON and HTTP as values. May use `limits`.

mod answer_memory;
mod failure;
pub(crate) mod params;
mod ranges;
mod reply;
pub mod script;
mod shapes;
mod watch;

pub(crate) use self::answer_memory::{AnswerMemory, Each, Json};
pub use self::failure::{Failure, Refusal};
pub use self::params::{Params, script_of_address, script_of_hash};
pub(crate) use self::ranges::{AskedRange, Wanted};
pub use self::reply::{Answer, Cache, Reply};
pub(crate) use self::reply::{BUFFERING, Content, EVENTS, HTML, ListPiece, Part, Ranged, Rows};
pub(crate) use self::shapes::{
    BlockJson, BlockStatusJson, MempoolJson, MerkleProofJson, OutspendJson, RecentJson, StatsJson, StatusJson,
    SummaryJson, TransactionJson, UnspentJson,
};
pub(crate) use self::watch::Watch;
