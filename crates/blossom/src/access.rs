//! Decisions that the store leaves to its owner: who may upload, and what becomes of reports.

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;

use birdhouse_events::{Pubkey, VerifiedEvent};

/// The owner of the store.
pub trait Operator: Send + Sync {
    /// Checks that a key may upload now.
    ///
    /// # Errors
    /// The reason why it may not.
    fn check_uploader(&self, key: &Pubkey) -> Result<(), Denied>;

    /// Takes a report of a blob that is stored.
    fn report(&self, report: Report) -> Reporting;
}

/// The outcome of a report, once it is known.
pub type Reporting = Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>;

/// A report of blobs (BUD-09), an event of kind 1984.
#[derive(Debug, Clone)]
pub struct Report {
    /// The event.
    pub event: VerifiedEvent,
    /// Address of the client that has sent it.
    pub from: IpAddr,
}

/// The reason why something is not allowed, for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied(pub Cow<'static, str>);
