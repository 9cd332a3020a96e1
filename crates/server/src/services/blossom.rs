//! Opening and serving the media store (Blossom). The relay's rules decide who uploads, and it keeps reports of files.

use std::fmt::Result as Written;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, bail};
use birdhouse_blossom::{
    Address, Counts, Denied, Limits, MediaTypes, Operator, Report, Reporting, Server, Settings, Store, Usage,
};
use birdhouse_clients::SlowKind;
use birdhouse_events::{Filter, Kind, Pubkey};
use birdhouse_net::ConnectionInfo;
use birdhouse_relay::{Exchange, Relay, Taken};

use super::metrics_writer::MetricsWriter;
use super::service::{Overview, Service, Serving, Stopped, by_listener};
use super::{Shared, relay};
use crate::config::{Options, UploadsName};
use crate::process::private;
use crate::sockets::protocols::BLOSSOM;
use crate::sockets::{BoundListener, Plan, Sockets, listeners};

/// Folder of the media store in the data folder.
pub(crate) const FOLDER: &str = "blossom";
/// Kind of a report (NIP-56).
const REPORT: Kind = Kind(1984);

/// The media store, not served yet.
pub(crate) struct Opened {
    store: Arc<Store>,
    folder: PathBuf,
    limits: Limits,
    address: Option<Address>,
    types: Option<MediaTypes>,
    uploads: UploadsName,
    listeners: Vec<Plan<()>>,
    /// Folder of the self-signed certificate, and the names in it.
    certificate: (PathBuf, Vec<String>),
    grace: Duration,
}

/// The media store with bound listeners.
pub(super) struct Blossom {
    server: Server,
    sockets: Sockets<()>,
    /// Time in which requests in flight are answered when the server ends.
    grace: Duration,
}

/// The state of the media store.
#[derive(Debug)]
struct State {
    overview: birdhouse_blossom::Overview,
    listeners: Vec<BoundListener>,
}

/// The relay, as the owner of the media store.
struct Owner {
    relay: Arc<Relay>,
    uploads: UploadsName,
}

/// Settings of the media store that were checked.
struct Checked {
    listeners: Vec<Plan<()>>,
    address: Option<Address>,
    types: Option<MediaTypes>,
}

impl Checked {
    /// Returns the settings; `None` where the media store is off.
    fn of(options: &Options) -> Result<Option<Self>> {
        let listeners = listeners::plan_of(options, &BLOSSOM)?;
        if listeners.is_empty() {
            return Ok(None);
        }
        if !relay::is_on(options)? {
            bail!("--blossom-addr needs the relay, whose rules say who uploads; set --relay-addr");
        }
        let invalid = |url: &String| {
            format!("invalid --blossom-url {url:?}; use a URL without a path, like https://media.example.org")
        };
        let parse = |url: &String| Address::parse(url).with_context(|| invalid(url));
        let address = options.blossom_url.as_ref().map(parse).transpose()?;
        let wrong = |text| anyhow!("invalid type {text:?} in --blossom-types; use types like image/png or image/*");
        let types = options.blossom_types.as_deref().map(MediaTypes::parse).transpose().map_err(wrong)?;
        let limits = options.limits.clone().unwrap_or_default().blossom();
        limits.check().map_err(|why| anyhow!("{why}; correct [limits.blossom]"))?;
        Ok(Some(Self { listeners, address, types }))
    }
}

/// Returns the folder of the media store.
pub(crate) fn folder(options: &Options) -> Result<PathBuf> {
    Ok(options.data_dir()?.join(FOLDER))
}

/// Checks the settings without opening anything.
pub(super) fn check(options: &Options) -> Result<()> {
    Checked::of(options).map(drop)
}

/// Opens the media store, if the settings enable it.
pub(super) fn open(options: &Options) -> Result<Option<Opened>> {
    let Some(Checked { listeners, address, types }) = Checked::of(options)? else { return Ok(None) };
    let folder = folder(options)?;
    private::folder(&folder)?;
    let store = Store::open(&folder).with_context(|| format!("failed to open the media store {}", folder.display()))?;
    let Usage { bytes, files } = store.total()?;
    tracing::info!(files, bytes, "opened the media store");
    if address.is_none() {
        tracing::warn!("blossom-url is not set: uploads are answered with URLs of this machine alone; set blossom-url");
    }
    let limits = options.limits.clone().unwrap_or_default();
    let names = address.iter().map(|address| address.host().to_owned()).collect();
    Ok(Some(Opened {
        store: Arc::new(store),
        folder,
        limits: limits.blossom(),
        address,
        types,
        uploads: options.blossom_uploads.unwrap_or(UploadsName::Members),
        listeners,
        certificate: (options.data_dir()?, names),
        grace: limits.server().shutdown_timeout,
    }))
}

impl Opened {
    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The bound on connections.
    pub(super) fn connections(&mut self) -> &mut usize {
        &mut self.limits.connections
    }

    /// Returns the largest number of threads that its requests keep busy.
    pub(super) fn blocking_threads(&self) -> usize {
        self.limits.blocking_threads()
    }

    pub(super) async fn bind(&self, relay: &Arc<Relay>, shared: &Shared) -> Result<Blossom> {
        let (folder, names) = &self.certificate;
        let sockets = Sockets::open(BLOSSOM.serves, &self.listeners, folder, names).await?;
        let on_disk = self.folder.clone();
        let settings = Settings {
            limits: self.limits.clone(),
            address: self.address.clone(),
            types: self.types.clone(),
            disk_free_bytes: Arc::new(move || birdhouse_store::disk_free_bytes(&on_disk)),
            connections: shared.connections.clone(),
            reads: Arc::clone(&shared.reads),
            clock: now,
        };
        let owner = Arc::new(Owner { relay: Arc::clone(relay), uploads: self.uploads });
        Ok(Blossom { server: Server::new(Arc::clone(&self.store), owner, settings), sockets, grace: self.grace })
    }
}

/// Returns the time, in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock of the media store, which takes it as an argument")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Operator for Owner {
    fn check_uploader(&self, key: &Pubkey) -> std::result::Result<(), Denied> {
        match self.uploads {
            UploadsName::Members if self.relay.has_access(key) => Ok(()),
            UploadsName::Members => Err(Denied("only members of the relay upload here".into())),
            UploadsName::Anyone if self.relay.is_banned(key) => Err(Denied("the operator has banned you".into())),
            UploadsName::Anyone => Ok(()),
        }
    }

    fn report(&self, report: Report) -> Reporting {
        let relay = Arc::clone(&self.relay);
        Box::pin(async move {
            let reporter = Exchange::enter(&relay, FOLDER, report.from).map_err(|why| Denied(why.into()))?;
            let reports = Filter { kinds: Some(vec![REPORT]), ..Filter::default() };
            let taken = reporter.take(&[report.event.event().to_json()], &reports).await;
            match taken.into_iter().next() {
                Some(Taken::Stored | Taken::Duplicate) => Ok(()),
                Some(Taken::Refused(rejection)) => Err(Denied(rejection.to_string().into())),
                None => Err(Denied("the relay cannot keep reports now".into())),
            }
        })
    }
}

impl Service for Blossom {
    fn name(&self) -> &'static str {
        "Blossom"
    }

    fn listeners(&self) -> &[BoundListener] {
        self.sockets.listeners()
    }

    fn serve(&self, stopped: Stopped) -> Serving {
        let stopped = async move { drop(stopped.await) };
        Box::pin(self.server.clone().serve(self.sockets.take(), self.grace, stopped))
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.server.connections()
    }

    fn disconnect(&self, id: u64) -> bool {
        self.server.disconnect(id)
    }

    fn overview(&self) -> Box<dyn Overview> {
        Box::new(State { overview: self.server.overview(), listeners: self.sockets.listeners().to_vec() })
    }
}

impl Overview for State {
    fn connections(&self) -> Vec<(String, usize)> {
        by_listener(&self.listeners, &self.overview.connections)
    }

    fn slowest(&self) -> &[SlowKind] {
        &[]
    }

    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Written {
        let birdhouse_blossom::Overview { connections, refused_connections, counts, uploading, total } = &self.overview;
        metrics.connections("blossom", connections, *refused_connections)?;
        let Counts { uploads, downloads, refused_uploads } = *counts;
        let answered = [("stored", uploads), ("refused", refused_uploads)];
        metrics.labelled_counters(
            "blossom_uploads",
            "Uploads to the media store by outcome.",
            answered.into_iter().map(|(outcome, count)| ([("outcome", outcome)], count)),
        )?;
        metrics.counter("blossom_downloads", "Answers with a file of the media store, or a part of one.", downloads)?;
        metrics.gauge("blossom_uploading", "Uploads to the media store under way.", super::count_of(*uploading))?;
        let Usage { bytes, files } = *total;
        metrics.gauge("blossom_files", "Files of the media store.", files)?;
        metrics.gauge("blossom_bytes", "Bytes of the files of the media store.", bytes)
    }
}
