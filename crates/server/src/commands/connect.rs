//! `birdhouse connect`: connection data for a wallet, and QR codes for phones.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use birdhouse_net::Certificate;

use crate::app;
use crate::config::Options;
use crate::sockets::{CertificateFiles, Endpoint, Plan, listeners, welcome};

/// Prints the addresses of the settings.
pub(crate) fn run(options: &Options, with_qr: bool) -> Result<ExitCode> {
    let network = app::network(options)?;
    let plans = listeners::plan(options, network)?;
    let endpoints = plans.iter().filter(|plan| !plan.is_websocket()).map(|plan| endpoint(plan, options));
    let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_>>()?;
    ensure!(!endpoints.is_empty(), "no listener for wallets but over WebSocket; set --electrum-tls-addr");
    let own = welcome::own_address();
    print!("{}", welcome::text(&endpoints, own, welcome::electrum_flag(network)));
    if with_qr {
        print!("{}", welcome::qr(&endpoints, own).context("failed to draw a QR code")?);
    }
    Ok(ExitCode::SUCCESS)
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
