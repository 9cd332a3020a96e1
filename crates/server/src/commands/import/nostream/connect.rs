//! Connections that share one snapshot of a database, and advice where connecting fails.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Concurrent connections. Verification is most of the work: two connections keep several processors busy.
const CONNECTIONS: usize = 4;
/// Time to connect, unless the URL sets another.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Begins a read-only snapshot. The server's timeouts for slow readers are turned off: verification takes its time.
const BEGIN: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                     BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Opens at least one connection, all with the same snapshot of the database.
pub(super) fn one_snapshot(url: &str) -> Result<Vec<Client>> {
    let config = config(url)?;
    let tls = (config.get_ssl_mode() == SslMode::Require).then(tls).transpose()?;
    let mut first = connect(&config, tls.as_ref()).map_err(|error| explained(error, &config))?;
    first.batch_execute(BEGIN).context("failed to begin a transaction in PostgreSQL")?;
    // Where the snapshot cannot be exported (behind a connection pool), each connection has a snapshot of its own: the
    // import may miss or gain events that are written meanwhile.
    let snapshot = export(&mut first);
    let mut clients = vec![first];
    while clients.len() < CONNECTIONS {
        match connect(&config, tls.as_ref()).and_then(|client| join(client, snapshot.as_deref())) {
            Ok(client) => clients.push(client),
            Err(error) => {
                tracing::warn!(%error, connections = clients.len(), "failed to open another connection to PostgreSQL");
                break;
            }
        }
    }
    Ok(clients)
}

fn config(url: &str) -> Result<Config> {
    const FORM: &str = "invalid --nostream; use a URL like postgres://USER:PASSWORD@HOST/DATABASE";
    let mut config: Config = url.parse().context(FORM)?;
    if config.get_hosts().is_empty() || config.get_user().is_none() {
        bail!("{FORM}: no host or no user");
    }
    config.application_name("birdhouse");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    Ok(config)
}

/// Returns a TLS client that trusts the system's root certificates, or those in the file `SSL_CERT_FILE`.
fn tls() -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        bail!("no root certificates to verify PostgreSQL; install ca-certificates or set SSL_CERT_FILE");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn connect(config: &Config, tls: Option<&MakeRustlsConnect>) -> Result<Client, postgres::Error> {
    match tls {
        Some(tls) => config.connect(tls.clone()),
        None => config.connect(NoTls),
    }
}

fn export(first: &mut Client) -> Option<String> {
    match first.query_one("SELECT pg_export_snapshot()", &[]) {
        Ok(row) => row.try_get(0).ok(),
        Err(error) => {
            tracing::debug!(%error, "failed to export a snapshot");
            // The failure has aborted the transaction.
            first.batch_execute(&format!("ROLLBACK; {BEGIN}")).ok()?;
            None
        }
    }
}

fn join(mut client: Client, snapshot: Option<&str>) -> Result<Client, postgres::Error> {
    client.batch_execute(BEGIN)?;
    if let Some(snapshot) = snapshot {
        client.batch_execute(&format!("SET TRANSACTION SNAPSHOT '{snapshot}'"))?;
    }
    Ok(client)
}

/// Adds the cause and advice to an error of the first connection.
fn explained(error: postgres::Error, config: &Config) -> anyhow::Error {
    let (host, user) = (host(config), config.get_user().unwrap_or_default());
    let database = config.get_dbname().unwrap_or(user);
    let what = match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => format!("PostgreSQL on {host} refuses the password of {user}"),
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            format!("PostgreSQL on {host} does not accept {user}; if it requires TLS, add ?sslmode=require to the URL")
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => format!("PostgreSQL on {host} has no database {database}"),
        Some(_) => format!("PostgreSQL on {host} refuses the connection"),
        None => format!("failed to reach PostgreSQL on {host}; is it running, and does it listen there?"),
    };
    anyhow!(error).context(what)
}

fn host(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => "no host".to_owned(),
    };
    format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_user_and_host() {
        assert!(config("postgres://nostr:secret@127.0.0.1:5433/nostream").is_ok());
        for bad in ["", "postgres://127.0.0.1/nostream", "nostream.jsonl", "postgres://nostr:secret@/nostream"] {
            let error = format!("{:#}", config(bad).unwrap_err());
            assert!(error.contains("postgres://USER:PASSWORD@HOST/DATABASE"), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
