//! The connection to a cluster: its threads, prepared statements, and requests that are tried again.
//!
//! The contract is synchronous, so a call hands its requests to the threads here and waits for their result on a
//! channel. That works on any thread, those of another Tokio runtime included.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{DefaultPolicy, LatencyAwarenessBuilder};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Runtime;

use super::access::CqlAccess;
use super::address::CqlAddress;
use super::layout;
use super::options::CqlOptions;
use crate::error::{Error, Result};

/// Threads that serve the connections.
const THREADS: usize = 2;
/// Requests of one call that are under way at once.
pub(super) const REQUESTS_AT_ONCE: usize = 64;
/// The longest wait for one request.
const REQUEST_WAIT: Duration = Duration::from_secs(12);
/// The longest time for which a request is tried again.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a request is tried again: doubled each time, from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Further attempts at what fails until all nodes know a new keyspace or table, and the pause before each.
const SCHEMA_ATTEMPTS: u32 = 10;
const SCHEMA_PAUSE: Duration = Duration::from_millis(200);
/// The pause between two signs of life on a connection, and the longest wait for one: then the connection is closed,
/// and its requests go to other nodes. A node that collects garbage is silent for a second or two.
const KEEPALIVE: Duration = Duration::from_secs(2);
const KEEPALIVE_WAIT: Duration = Duration::from_secs(3);
/// The wait for the answer of one node after which a second one is asked to read, too.
const SECOND_NODE: Duration = Duration::from_millis(250);
/// The longest wait for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(5);

/// An open connection. Its threads end with it.
pub(super) struct Cluster {
    link: Arc<Link>,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

/// The session and its statements, for the tasks of one call.
pub(super) struct Link {
    pub(super) session: Session,
    pub(super) statements: Statements,
}

/// Treatment of missing tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    Create,
    Expect,
}

/// Declares the prepared statements.
macro_rules! statements {
    ($($name:ident: $text:literal,)*) => {
        /// Every statement. Each may be sent twice: it sets a row to the same value.
        pub(super) struct Statements {
            $(pub(super) $name: PreparedStatement,)*
        }

        impl Statements {
            async fn prepare(session: &Session, reads: &ExecutionProfileHandle) -> Result<Self> {
                Ok(Self { $($name: prepare(session, reads, $text).await?,)* })
            }
        }
    };
}

statements! {
    get_row: "SELECT value FROM rows WHERE name = ? AND generation = ? AND bucket = ? AND key = ?",
    put_row: "INSERT INTO rows (name, generation, bucket, key, value) VALUES (?, ?, ?, ?, ?)",
    delete_row: "DELETE FROM rows WHERE name = ? AND generation = ? AND bucket = ? AND key = ?",
    delete_bucket_rows: "DELETE FROM rows WHERE name = ? AND generation = ? AND bucket = ?",
    rows_from: "SELECT key, value FROM rows WHERE name = ? AND generation = ? AND bucket = ? AND key >= ? LIMIT ?",
    rows_between: "SELECT key, value FROM rows \
        WHERE name = ? AND generation = ? AND bucket = ? AND key >= ? AND key < ? LIMIT ?",
    rows_back_from: "SELECT key, value FROM rows \
        WHERE name = ? AND generation = ? AND bucket = ? AND key >= ? ORDER BY key DESC LIMIT ?",
    rows_back_between: "SELECT key, value FROM rows \
        WHERE name = ? AND generation = ? AND bucket = ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT ?",
    put_bucket: "INSERT INTO buckets (name, generation, bucket) VALUES (?, ?, ?)",
    delete_buckets: "DELETE FROM buckets WHERE name = ? AND generation = ?",
    buckets_from: "SELECT bucket FROM buckets WHERE name = ? AND generation = ? AND bucket >= ? LIMIT ?",
    buckets_between: "SELECT bucket FROM buckets \
        WHERE name = ? AND generation = ? AND bucket >= ? AND bucket <= ? LIMIT ?",
    buckets_back_from: "SELECT bucket FROM buckets \
        WHERE name = ? AND generation = ? AND bucket >= ? ORDER BY bucket DESC LIMIT ?",
    buckets_back_between: "SELECT bucket FROM buckets \
        WHERE name = ? AND generation = ? AND bucket >= ? AND bucket <= ? ORDER BY bucket DESC LIMIT ?",
    chunks: "SELECT chunk, records FROM chunks WHERE name = ? AND part = ? AND chunk >= ? AND chunk < ?",
    put_chunk: "INSERT INTO chunks (name, part, chunk, records) VALUES (?, ?, ?, ?)",
    delete_chunks: "DELETE FROM chunks WHERE name = ? AND part = ? AND chunk >= ? AND chunk < ?",
    manifest: "SELECT epoch, owner, beat, published, state FROM manifest WHERE place = ?",
    create_manifest: "INSERT INTO manifest (place, epoch, owner, beat, published) VALUES (?, 0, '', 0, 0) IF NOT EXISTS",
    take_lease: "UPDATE manifest SET epoch = ?, owner = ?, beat = ? WHERE place = ? IF epoch = ? AND beat = ?",
    renew_lease: "UPDATE manifest SET beat = ? WHERE place = ? IF epoch = ?",
    release_lease: "UPDATE manifest SET owner = '' WHERE place = ? IF epoch = ?",
    publish: "UPDATE manifest SET state = ?, published = ?, beat = ? WHERE place = ? IF epoch = ? AND published = ?",
}

/// Prepares a statement. One that reads has the profile `reads`.
async fn prepare(session: &Session, reads: &ExecutionProfileHandle, text: &str) -> Result<PreparedStatement> {
    until_known(|| async {
        let prepared = session.prepare(text).await;
        let mut prepared = prepared.map_err(|cause| failed("prepare a statement", &cause))?;
        // The driver then tries the next node by itself.
        prepared.set_is_idempotent(true);
        if text.starts_with("SELECT") {
            prepared.set_execution_profile_handle(Some(reads.clone()));
        }
        Ok(prepared)
    })
    .await
}

/// Repeats what may fail after a change of the schema: a node knows a new keyspace or table a moment after others do.
async fn until_known<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 0..SCHEMA_ATTEMPTS {
        if let Ok(done) = attempt().await {
            return Ok(done);
        }
        tokio::time::sleep(SCHEMA_PAUSE).await;
    }
    attempt().await
}

// === impl Cluster ===

impl Cluster {
    /// Connects to a cluster.
    ///
    /// # Errors
    /// [`Error::Cluster`] when no host answers, or when tables are missing that are not to be created;
    /// [`Error::Access`] when the cluster and this client do not accept each other.
    pub(super) fn connect(options: &CqlOptions, tables: Tables) -> Result<Self> {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(THREADS).thread_name("cql").enable_all().build();
        let started = |cause| Error::Io { action: "start the threads of a cluster".to_owned(), cause };
        let runtime = runtime.map_err(started)?;
        let (address, access) = (options.address.clone(), options.access.clone());
        let link = wait_on(&runtime, async move { Link::connect(&address, access, tables).await })?;
        Ok(Self { link: Arc::new(link), runtime: Some(runtime) })
    }

    /// Runs requests on the threads of the connection and waits for their result.
    pub(super) fn wait<T, F>(&self, work: impl FnOnce(Arc<Link>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        wait_on(self.runtime(), work(Arc::clone(&self.link)))
    }

    /// Runs work beside the calls, until it ends or the connection is dropped.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, work: impl FnOnce(Arc<Link>) -> F) {
        self.runtime().spawn(work(Arc::clone(&self.link)));
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which a task of another runtime must not do.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn wait_on<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (sender, receiver) = sync_channel(1);
    // Nobody waits for the result if the caller's thread has ended.
    runtime.spawn(async move { drop(sender.send(work.await)) });
    let ended = |_| Err(Error::Engine("failed to ask the cluster: the task of the request ended early".to_owned()));
    receiver.recv().unwrap_or_else(ended)
}

// === impl Link ===

impl Link {
    async fn connect(address: &CqlAddress, access: CqlAccess, tables: Tables) -> Result<Self> {
        // A node that is much slower than others is asked last, and a read that it keeps waiting is sent to another,
        // too. Of a conditional update, two attempts at once would refuse each other.
        let by_latency = DefaultPolicy::builder().latency_awareness(LatencyAwarenessBuilder::new()).build();
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::LocalQuorum)
            .request_timeout(Some(REQUEST_WAIT))
            .load_balancing_policy(by_latency);
        let second = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: SECOND_NODE };
        let reads = profile.clone().speculative_execution_policy(Some(Arc::new(second))).build().into_handle();
        let mut builder = SessionBuilder::new()
            .known_nodes(&address.hosts)
            .connection_timeout(CONNECTION_WAIT)
            .keepalive_interval(KEEPALIVE)
            .keepalive_timeout(KEEPALIVE_WAIT)
            .default_execution_profile_handle(profile.build().into_handle())
            .tls_context(access.tls()?);
        if let Some((user, password)) = &access.login {
            builder = builder.user(user, password);
        }
        let session = builder.build().await;
        let session = session.map_err(|cause| access.refused(&address.hosts.join(", "), &cause))?;
        match tables {
            Tables::Create => create(&session, address).await?,
            Tables::Expect => use_keyspace(&session, address).await?,
        }
        let statements = Statements::prepare(&session, &reads).await?;
        Ok(Self { session, statements })
    }

    /// Sends one statement until it succeeds.
    pub(super) async fn send(
        &self,
        action: &str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult> {
        patiently(action, || self.session.execute_unpaged(statement, &values)).await
    }
}

/// Creates keyspace and tables that are missing. Changes of the schema are slow, so existing ones are left alone.
async fn create(session: &Session, address: &CqlAddress) -> Result<()> {
    let CqlAddress { keyspace, replication, .. } = address;
    if use_keyspace(session, address).await.is_err() {
        let text = format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" \
             WITH replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replication}}}"
        );
        patiently("create the keyspace", || session.query_unpaged(text.as_str(), ())).await?;
        until_known(|| use_keyspace(session, address)).await?;
    }
    for (name, text) in layout::TABLES {
        let known = session.get_cluster_state();
        if known.get_keyspace(keyspace).is_none_or(|keyspace| !keyspace.tables.contains_key(name)) {
            patiently("create a table", || session.query_unpaged(text, ())).await?;
        }
    }
    Ok(())
}

async fn use_keyspace(session: &Session, address: &CqlAddress) -> Result<()> {
    let used = session.use_keyspace(&address.keyspace, true).await;
    used.map_err(|cause| failed(&format!("use the keyspace {}", address.keyspace), &cause))
}

/// Repeats a request while another attempt may help, with growing pauses.
pub(super) async fn patiently<T, F>(action: &str, mut request: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, ExecutionError>>,
{
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    loop {
        let began = tokio::time::Instant::now();
        match request().await {
            Ok(done) => return Ok(done),
            Err(cause) if waited >= PATIENCE || is_refused(&cause) => return Err(failed(action, &cause)),
            Err(cause) => tracing::debug!(action, %cause, "failed to ask the cluster, trying again"),
        }
        tokio::time::sleep(pause).await;
        waited += began.elapsed();
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// True for an error that no other attempt changes.
fn is_refused(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) = error else {
        return matches!(error, ExecutionError::BadQuery(_));
    };
    matches!(
        error,
        DbError::SyntaxError
            | DbError::Invalid
            | DbError::ConfigError
            | DbError::Unauthorized
            | DbError::AlreadyExists { .. }
    )
}

/// Returns the error of a request that failed for good.
pub(super) fn failed(action: &str, cause: &dyn std::error::Error) -> Error {
    Error::Cluster { action: action.to_owned(), cause: cause.to_string() }
}
