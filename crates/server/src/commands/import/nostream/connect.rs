//! Connections that see one moment of a database, and what to do when there are none.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Connections that read side by side. The work is in verifying: two keep several processors busy.
const CONNECTIONS: usize = 4;
/// How long a connection may take, unless the URL says otherwise.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// One moment, read only. A slow reader is no fault: the server's time-outs for such are off.
const BEGIN: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                     BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Connects several times, at least once, to see one moment of the database.
pub(super) fn one_moment(url: &str) -> Result<Vec<Client>> {
    let config = config(url)?;
    let tls = (config.get_ssl_mode() == SslMode::Require).then(tls).transpose()?;
    let mut first = connect(&config, tls.as_ref()).map_err(|error| explained(error, &config))?;
    first.batch_execute(BEGIN).context("PostgreSQL begins no transaction")?;
    // What cannot export one (a pool between us) is read at one moment a connection: an event more or less.
    let moment = export(&mut first);
    let mut clients = vec![first];
    while clients.len() < CONNECTIONS {
        match connect(&config, tls.as_ref()).and_then(|client| join(client, moment.as_deref())) {
            Ok(client) => clients.push(client),
            Err(error) => {
                tracing::warn!(%error, connections = clients.len(), "PostgreSQL gives no more connections");
                break;
            }
        }
    }
    Ok(clients)
}

fn config(url: &str) -> Result<Config> {
    const FORM: &str = "--nostream wants a URL like postgres://USER:PASSWORD@HOST/DATABASE";
    let mut config: Config = url.parse().context(FORM)?;
    if config.get_hosts().is_empty() || config.get_user().is_none() {
        bail!("{FORM}: there is no host or no user in it");
    }
    config.application_name("birdhouse");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_PATIENCE);
    }
    Ok(config)
}

/// Trusts whom the system trusts, or the file that `SSL_CERT_FILE` names.
fn tls() -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        bail!("no certificates to verify PostgreSQL with: install ca-certificates, or name a file in SSL_CERT_FILE");
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
            tracing::debug!(%error, "no snapshot is exported");
            // The transaction has failed with it.
            first.batch_execute(&format!("ROLLBACK; {BEGIN}")).ok()?;
            None
        }
    }
}

fn join(mut client: Client, moment: Option<&str>) -> Result<Client, postgres::Error> {
    client.batch_execute(BEGIN)?;
    if let Some(moment) = moment {
        client.batch_execute(&format!("SET TRANSACTION SNAPSHOT '{moment}'"))?;
    }
    Ok(client)
}

/// What failed, and what to do.
fn explained(error: postgres::Error, config: &Config) -> anyhow::Error {
    let (place, user) = (place(config), config.get_user().unwrap_or_default());
    let database = config.get_dbname().unwrap_or(user);
    let what = match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => format!("the password of {user} is wrong at PostgreSQL on {place}"),
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            format!(
                "PostgreSQL on {place} does not let {user} in (where it wants TLS, add ?sslmode=require to the URL)"
            )
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => format!("PostgreSQL on {place} has no database {database}"),
        Some(_) => format!("PostgreSQL on {place} refuses the connection"),
        None => format!("cannot reach PostgreSQL on {place}: is it running, and does it listen there?"),
    };
    anyhow!(error).context(what)
}

fn place(config: &Config) -> String {
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
