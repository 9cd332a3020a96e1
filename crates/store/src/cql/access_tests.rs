//! A node that wants encrypted connections and a login.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

use birdhouse_cassandra::{Cassandra, report_skipped};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use super::{CqlAccess, CqlOptions, CqlStore};
use crate::error::AccessFault;
use crate::{Error, Store as _};

/// Name and password of the first role of a cluster.
const ROLE: &str = "cassandra";

/// An authority that signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate of this address, and its key.
    fn certificate(&self, address: &str) -> String {
        let mut params = CertificateParams::new([]).unwrap();
        params.subject_alt_names = vec![SanType::IpAddress(address.parse::<IpAddr>().unwrap())];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.pem)
    }

    fn access(&self, login: Option<(&str, &str)>) -> CqlAccess {
        CqlAccess {
            authorities: Some(self.pem.clone().into_bytes()),
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
        }
    }
}

/// Opens a store on a node.
fn open(hosts: &str, access: CqlAccess) -> Result<CqlStore, Error> {
    let spool = TempDir::new().unwrap();
    let options = CqlOptions {
        address: format!("cql://{hosts}/secured?replication=1").parse().unwrap(),
        access,
        place: "place".to_owned(),
        owner: "test".to_owned(),
        spool: spool.path().to_owned(),
        lease: CqlOptions::LEASE,
        grace: CqlOptions::GRACE,
        cache_bytes: CqlOptions::CACHE_BYTES,
    };
    CqlStore::open(options, &AtomicBool::new(false)).map(Option::unwrap)
}

fn fault_of(hosts: &str, access: CqlAccess) -> AccessFault {
    match open(hosts, access).err() {
        Some(error @ Error::Access { fault, .. }) => {
            println!("{error}");
            assert!(!error.to_string().contains("secret word"), "{error}");
            fault
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_is_used_with_the_right_authority_and_login_only() {
    let ours = Authority::new();
    let Some(node) = Cassandra::start_secured(|address| ours.certificate(address)).unwrap() else {
        report_skipped("encrypted connections to a cluster");
        return;
    };
    let (hosts, right) = (node.hosts(), Some((ROLE, ROLE)));
    let store = open(&hosts, ours.access(right)).unwrap();
    store.publish(b"manifest").unwrap();
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"manifest"[..]));

    assert_eq!(fault_of(&hosts, Authority::new().access(right)), AccessFault::WrongCertificate);
    assert_eq!(fault_of(&hosts, ours.access(Some((ROLE, "secret word")))), AccessFault::WrongLogin);
    assert_eq!(fault_of(&hosts, ours.access(None)), AccessFault::NoLogin);
    let unencrypted = CqlAccess { authorities: None, ..ours.access(right) };
    assert_eq!(fault_of(&hosts, unencrypted), AccessFault::Closed);
}

#[test]
fn a_node_that_does_not_encrypt_is_told_from_one_with_a_wrong_certificate() {
    let Some(node) = super::tests::node("encrypted connections to a cluster") else { return };
    assert_eq!(fault_of(&node.hosts(), Authority::new().access(None)), AccessFault::NotEncrypted);
}

#[test]
fn authorities_that_are_no_certificates_are_refused() {
    for wrong in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let access = CqlAccess { authorities: Some(wrong.into()), login: None };
        assert!(matches!(access.tls(), Err(Error::Engine(_))), "{wrong}");
    }
}

#[test]
fn the_password_is_in_no_debug_output() {
    let access = CqlAccess { authorities: None, login: Some(("bird".to_owned(), "secret word".to_owned())) };
    let shown = format!("{access:?}");
    assert!(shown.contains("bird") && !shown.contains("secret"), "{shown}");
}
