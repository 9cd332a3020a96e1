//! `birdhouse connect`: connection data for a wallet, QR codes for phones, and the addresses of the other services.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use birdhouse_dashboard::{Endpoint as Shown, Link};
use birdhouse_net::Certificate;

use crate::app;
use crate::config::Options;
use crate::operator::public_endpoints;
use crate::sockets::protocols::PROTOCOLS;
use crate::sockets::welcome::OwnAddress;
use crate::sockets::{CertificateFiles, Endpoint, Plan, listeners, welcome};

/// Prints the addresses of the settings.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    addresses(options)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints them, and QR codes of those for wallets.
pub(crate) fn run_with_qr(options: &Options) -> Result<ExitCode> {
    let codes = welcome::qr(&addresses(options)?).context("failed to draw a QR code")?;
    ensure!(
        !codes.is_empty(),
        "no QR code: a phone reaches none of these addresses; set electrum-tls-addr = \"0.0.0.0\", or public-host"
    );
    print!("{codes}");
    Ok(ExitCode::SUCCESS)
}

/// Prints the addresses; returns those for wallets.
fn addresses(options: &Options) -> Result<Vec<Shown>> {
    let own = OwnAddress::find();
    let public = public(options)?;
    let endpoints = if options.has_bitcoin() { wallets(options, own, &public)? } else { Vec::new() };
    print!("{}", welcome::others(&links(options, own, &public)?));
    Ok(endpoints)
}

/// Returns the addresses of `public-host`.
fn public(options: &Options) -> Result<Vec<Shown>> {
    if !options.has_bitcoin() {
        return Ok(Vec::new());
    }
    Ok(public_endpoints(options.public_host.as_deref().unwrap_or_default(), app::network(options)?))
}

/// Prints what to type into a wallet; returns the addresses.
fn wallets(options: &Options, own: OwnAddress, public: &[Shown]) -> Result<Vec<Shown>> {
    let network = app::network(options)?;
    let plans = listeners::plan(options, network)?;
    let endpoints = plans.iter().filter(|plan| !plan.is_websocket()).map(|plan| endpoint(plan, options));
    let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_>>()?;
    ensure!(!endpoints.is_empty(), "no listener for wallets but over WebSocket; set --electrum-tls-addr");
    let flag = welcome::electrum_flag(network);
    print!("{}", welcome::text(&endpoints, own, flag));
    for endpoint in public {
        print!("{}", welcome::to_type(endpoint, flag));
    }
    Ok(endpoints.iter().map(|endpoint| endpoint.shown(own)).chain(public.iter().cloned()).collect())
}

/// Returns the addresses of the services that people open, other than the wallets'.
fn links(options: &Options, own: OwnAddress, public: &[Shown]) -> Result<Vec<Link>> {
    let mut others = Vec::new();
    for protocol in PROTOCOLS.into_iter().filter(|protocol| options.has_bitcoin() || !protocol.needs_index()) {
        let other = |plan: &Plan<()>| {
            let (serves, addr) = (protocol.serves, plan.addr);
            Some(welcome::Other { serves, scheme: protocol.scheme(plan.security())?, addr })
        };
        others.extend(listeners::plan_of(options, protocol)?.iter().filter_map(other));
    }
    let relay_urls = options.relay_url.as_deref().unwrap_or_default();
    Ok(welcome::links(&others, own, public, relay_urls))
}

fn endpoint(plan: &Plan, options: &Options) -> Result<Endpoint> {
    let fingerprint = match plan.tls() {
        None => None,
        Some(files) => {
            let (chain, key) = match files {
                CertificateFiles::Own(chain, key) => (chain, key),
                CertificateFiles::SelfSigned => {
                    let pair = options.data_dir()?.join(Certificate::SELF_SIGNED);
                    (pair.clone(), pair)
                }
            };
            let pair = Certificate::open(&chain, &key)
                .context("failed to read the certificate; the first `birdhouse run` makes a self-signed one")?;
            welcome::fingerprint(&pair)
        }
    };
    Ok(Endpoint { addr: plan.addr, fingerprint })
}
