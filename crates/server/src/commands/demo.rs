//! `birdhouse demo`: everything at once on a private regtest node; leaves nothing behind.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::{Bitcoind, ChainBuilder};
use bitcoin::{Address, Network, ScriptBuf};
use electrum_client::ElectrumApi as _;

use crate::commands::run::serve;
use crate::config::{NetworkName, Options};
use crate::listeners::Kind;
use crate::log::Level;
use crate::setup::Setup;
use crate::shutdown::Shutdown;

/// The same sample chain every time.
const SEED: u64 = 1;

pub(crate) fn run(once: bool, level: Level) -> Result<ExitCode> {
    println!("Starting a private Bitcoin node (regtest) ...");
    let node = Bitcoind::start(birdhouse_testkit::Options::default()).context("cannot start a node for the demo")?;
    println!("Mining a sample chain ...");
    let chain = mix::sample(SEED, Size::SMALL);
    chain.submit_to(&node).context("the node refused the sample chain")?;
    println!("The node has {} blocks. Building the index ...", node.height()? + 1);

    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let setup = Arc::new(Setup::open(&options(&node, folder.path()))?);
    let shutdown = Shutdown::default();
    let report = setup.build(&shutdown)?.context("the demo begins with an empty folder")?;
    println!("Indexed {} blocks, {} transactions, {} scripts.", report.blocks, report.txs, report.scripts);

    let samples = samples(&chain);
    if once {
        let (asked, answer) = tokio::sync::oneshot::channel();
        serve(
            &setup,
            &shutdown,
            level,
            |addr| {
                std::thread::spawn(move || asked.send(ask(addr, &samples)));
            },
            async { answer.await.context("the client panicked")? },
        )?;
    } else {
        serve(&setup, &shutdown, level, |addr| explain(addr, &samples), Shutdown::signalled())?;
        println!("Removing the node and the index.");
    }
    Ok(ExitCode::SUCCESS)
}

fn options(node: &Bitcoind, folder: &std::path::Path) -> Options {
    let usual = SocketAddr::from(([127, 0, 0, 1], Kind::Tcp.port(Network::Regtest)));
    let free = std::net::TcpListener::bind(usual).is_ok();
    Options {
        node_dir: Some(node.datadir().to_owned()),
        network: Some(NetworkName::Regtest),
        data_dir: Some(folder.to_owned()),
        rpc_addr: Some(format!("127.0.0.1:{}", node.rpc_port())),
        electrum_addr: Some(if free { usual } else { SocketAddr::from(([127, 0, 0, 1], 0)) }.into()),
        banner: Some("Welcome to the Birdhouse demo: a private chain that goes when you leave.".into()),
        ..Options::default()
    }
}

/// A script of the sample chain, with a name to print.
struct Sample {
    name: String,
    script: ScriptBuf,
}

/// Some scripts with a history worth looking at.
fn samples(chain: &ChainBuilder) -> Vec<Sample> {
    let mut used: Vec<(usize, ScriptBuf)> = Vec::new();
    for form in [Form::P2wpkh, Form::P2pkh, Form::P2tr] {
        let scripts = (0..30).map(|number| chain.wallet().script_pubkey(Lock::new(form, number)));
        let counted = scripts.map(|script| (uses(chain, &script), script));
        used.extend(counted.max_by_key(|(uses, _)| *uses));
    }
    let named = used.into_iter().filter_map(|(_, script)| {
        let address = Address::from_script(&script, Network::Regtest).ok()?;
        Some(Sample { name: address.to_string(), script })
    });
    named.collect()
}

fn uses(chain: &ChainBuilder, script: &ScriptBuf) -> usize {
    let transactions = chain.blocks().iter().flat_map(|block| &block.txdata);
    transactions.filter(|tx| tx.output.iter().any(|output| output.script_pubkey == *script)).count()
}

fn explain(addr: SocketAddr, samples: &[Sample]) {
    let port = addr.port();
    println!("\nBirdhouse serves the Electrum protocol on {addr}. Leave with Ctrl-C.\n");
    println!("Ask it something:");
    println!(r#"  echo '{{"id":1,"method":"blockchain.headers.subscribe","params":[]}}' | nc -q 1 127.0.0.1 {port}"#);
    if let Some(sample) = samples.first() {
        let scripthash = birdhouse_testkit::client::scripthash(sample.script.as_bytes());
        println!(
            r#"  echo '{{"id":1,"method":"blockchain.scripthash.get_history","params":["{scripthash}"]}}' | nc -q 1 127.0.0.1 {port}"#
        );
    }
    println!("Connect a wallet:");
    println!("  electrum --regtest --oneserver --server 127.0.0.1:{port}:t");
    println!("Addresses with a history:");
    for sample in samples {
        println!("  {}", sample.name);
    }
}

/// Asks what a wallet would, by a real client, and prints the answers.
fn ask(addr: SocketAddr, samples: &[Sample]) -> Result<()> {
    let client = electrum_client::raw_client::RawClient::new(addr, None).context("cannot connect")?;
    let features = client.server_features()?;
    println!(
        "server: {} (protocol {:?} to {:?})",
        features.server_version, features.protocol_min, features.protocol_max
    );
    let tip = client.block_headers_subscribe()?;
    println!("tip: height {}, block {}", tip.height, tip.header.block_hash());
    for Sample { name, script } in samples {
        let balance = client.script_get_balance(script)?;
        let history = client.script_get_history(script)?;
        let unspent = client.script_list_unspent(script)?;
        println!(
            "{name}: {} transactions, {} unspent outputs, {} sat",
            history.len(),
            unspent.len(),
            balance.confirmed
        );
        if let Some(first) = history.first() {
            let height = usize::try_from(first.height).context("a confirmed transaction has a height")?;
            let proof = client.transaction_get_merkle(&first.tx_hash, height)?;
            let transaction = client.transaction_get(&first.tx_hash)?;
            println!(
                "  first in block {} at place {}: {} with {} outputs, merkle branch of {} hashes",
                proof.block_height,
                proof.pos,
                transaction.compute_txid(),
                transaction.output.len(),
                proof.merkle.len()
            );
        }
    }
    Ok(())
}
