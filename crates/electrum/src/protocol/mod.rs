//! Parts of the protocol as values: the envelope of JSON-RPC, parameters, versions, scripts, subjects and answers.

mod answer;
mod envelope;
mod params;
mod script;
mod subject;
mod tweaks;
mod version;

pub(crate) use self::answer::{
    Acceptance, Answer, FeaturesForm, Fees, FirstUse, HeadersForm, MempoolFees, Offer, Offers, OutpointState,
    OutpointStatus, Output, PackageError, Peer, Prospect, Status, TipHeader, Utxo, electrum_height,
};
pub(crate) use self::envelope::{Envelope, Id, Invalid, Item, Line};
pub(crate) use self::params::{Args, BlockName, Object, Padding, Param, PongLength};
pub(crate) use self::script::{Naming, Script};
pub(crate) use self::subject::{SilentId, Subject, SubjectState, Topic};
pub(crate) use self::tweaks::{SpentPayments, TweakCoding, TweakForm, TweakStream};
pub(crate) use self::version::{Version, VersionRange};
