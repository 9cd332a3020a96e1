//! Addresses of a cluster: `cql://host,host:port/keyspace?replication=3`. Pure.

use std::str::FromStr;

use crate::error::{Error, Result};

/// The port of hosts that name none.
const PORT: u16 = 9042;
/// Copies of each row in a keyspace that this process creates, unless the address says otherwise.
const REPLICATION: u8 = 3;

/// The hosts of a cluster and a keyspace in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlAddress {
    /// Hosts with ports. The first one that answers names the others.
    pub hosts: Vec<String>,
    /// The keyspace: small ASCII letters, digits and underscores. Statements quote it, for CQL reserves some words.
    pub keyspace: String,
    /// Copies of each row, where the keyspace does not exist yet.
    pub replication: u8,
}

impl FromStr for CqlAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::Engine(format!(
                "failed to parse the store {text}: it is no address of a cluster; write cql://host,host/keyspace"
            ))
        })
    }
}

fn parse(text: &str) -> Option<CqlAddress> {
    let (hosts, keyspace) = text.strip_prefix("cql://")?.split_once('/')?;
    let (keyspace, replication) = match keyspace.split_once("?replication=") {
        Some((keyspace, copies)) => (keyspace, copies.parse().ok().filter(|copies| *copies > 0)?),
        None => (keyspace, REPLICATION),
    };
    let hosts = hosts.split(',').map(with_port).collect::<Option<Vec<_>>>()?;
    is_name(keyspace).then(|| CqlAddress { hosts, keyspace: keyspace.to_ascii_lowercase(), replication })
}

fn with_port(host: &str) -> Option<String> {
    match host.rsplit_once(':') {
        Some((name, port)) => (!name.is_empty() && port.parse::<u16>().is_ok()).then(|| host.to_owned()),
        None => (!host.is_empty()).then(|| format!("{host}:{PORT}")),
    }
}

/// The longest name that Cassandra takes has 48 characters.
fn is_name(text: &str) -> bool {
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word && text.len() <= 48 && text.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_the_usual_port() {
        let address: CqlAddress = "cql://10.0.0.1,db.example:9043/birdhouse".parse().unwrap();
        assert_eq!(address.hosts, ["10.0.0.1:9042", "db.example:9043"]);
        assert_eq!((address.keyspace.as_str(), address.replication), ("birdhouse", 3));
        let alone: CqlAddress = "cql://localhost/k?replication=1".parse().unwrap();
        assert_eq!(alone.replication, 1);
    }

    #[test]
    fn names_of_keyspaces_have_no_case_as_unquoted_ones_in_cql() {
        let address: CqlAddress = "cql://localhost/BirdHouse".parse().unwrap();
        assert_eq!(address.keyspace, "birdhouse");
    }

    #[test]
    fn other_text_is_refused() {
        for wrong in [
            "",
            "host/keyspace",
            "cql://host",
            "cql:///keyspace",
            "cql://host/",
            "cql://host,/keyspace",
            "cql://host:port/keyspace",
            "cql://host/key space",
            "cql://host/k'; DROP",
            "cql://host/1k",
            "cql://host/k?replication=0",
        ] {
            assert!(wrong.parse::<CqlAddress>().is_err(), "{wrong}");
        }
    }
}
