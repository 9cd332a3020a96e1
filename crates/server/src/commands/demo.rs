//! `birdhouse demo`: everything at once on a private regtest node; leaves nothing behind.

mod events;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use birdhouse_events::VerifiedEvent;
use birdhouse_regtest::mix::{self, Size};
use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::{Bitcoind, ChainBuilder};
use bitcoin::{Address, Network, ScriptBuf};
use electrum_client::ElectrumApi as _;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::app::{App, serve};
use crate::config::{Kind, NetworkName, Options};
use crate::process::{Level, Shutdown};
use crate::sockets::BoundListener;
use crate::sockets::protocols::{ELECTRUM, EXPLORER, RELAY, REST};

/// The same sample chain every time.
const SEED: u64 = 1;
/// The usual one of relays.
const RELAY_PORT: u16 = 7777;
/// The usual one of Esplora on regtest.
const REST_PORT: u16 = 3002;
/// A common one of local web servers.
const EXPLORER_PORT: u16 = 8080;

/// The end of a demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// After some requests, whose answers are printed.
    Requests,
    /// At Ctrl-C.
    UntilSignal,
}

pub(crate) fn run(lasting: Lasting, level: Level) -> Result<ExitCode> {
    println!("Starting a private Bitcoin node (regtest) ...");
    let node = Bitcoind::start(birdhouse_regtest::Options::default()).context("cannot start a node for the demo")?;
    println!("Mining a sample chain ...");
    let chain = mix::sample(SEED, Size::SMALL);
    chain.submit_to(&node).context("the node refused the sample chain")?;
    println!("The node has {} blocks. Building the index ...", node.height()? + 1);

    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let app = App::open(&options(&node, folder.path()))?;
    let setup = app.bitcoin.as_ref().context("the demo asks for an index")?;
    let shutdown = Shutdown::default();
    let report = setup.build(&shutdown)?.context("the demo begins with an empty folder")?;
    println!("Indexed {} blocks, {} transactions, {} scripts.", report.blocks, report.txs, report.scripts);

    let people = events::sample(now());
    let relay = app.services.relay.as_ref().context("the demo asks for a relay")?;
    relay.events().accept(&people.iter().collect::<Vec<&VerifiedEvent>>())?;
    println!("The relay has {} events.", relay.events().live_events());

    let samples = samples(&chain);
    if lasting == Lasting::Requests {
        let (asked, answer) = tokio::sync::oneshot::channel();
        serve(
            &app,
            &shutdown,
            level,
            |listeners| {
                let listening = Listening::of(listeners);
                std::thread::spawn(move || asked.send(ask(listening, &samples)));
            },
            async { answer.await.context("the client panicked")? },
        )?;
    } else {
        serve(&app, &shutdown, level, |listeners| explain(Listening::of(listeners), &samples), Shutdown::signalled())?;
        println!("Removing the node, the index and the events.");
    }
    Ok(ExitCode::SUCCESS)
}

fn options(node: &Bitcoind, folder: &std::path::Path) -> Options {
    let relay = local(RELAY_PORT);
    Options {
        node_dir: Some(node.datadir().to_owned()),
        network: Some(NetworkName::Regtest),
        data_dir: Some(folder.to_owned()),
        rpc_addr: Some(format!("127.0.0.1:{}", node.rpc_port())),
        electrum_addr: Some(local(Kind::Tcp.port(Network::Regtest)).into()),
        relay_addr: Some(relay),
        relay_url: (relay.port() != 0).then(|| vec![format!("ws://{relay}")]),
        rest_addr: Some(local(REST_PORT)),
        http_addr: Some(local(EXPLORER_PORT)),
        relay_name: Some("Birdhouse demo".into()),
        banner: Some("Welcome to the Birdhouse demo: a private chain that goes when you leave.".into()),
        ..Options::default()
    }
}

/// The addresses in use: the first of each kind.
#[derive(Debug, Clone, Copy)]
struct Listening {
    electrum: Option<SocketAddr>,
    relay: Option<SocketAddr>,
    rest: Option<SocketAddr>,
    explorer: Option<SocketAddr>,
}

impl Listening {
    fn of(listeners: &[BoundListener]) -> Self {
        let first = |serves| listeners.iter().find(|listener| listener.serves == serves).map(|listener| listener.addr);
        Self {
            electrum: first(ELECTRUM),
            relay: first(RELAY.serves),
            rest: first(REST.serves),
            explorer: first(EXPLORER.serves),
        }
    }
}

/// This port, or another where it is taken.
fn local(port: u16) -> SocketAddr {
    let usual = SocketAddr::from(([127, 0, 0, 1], port));
    if std::net::TcpListener::bind(usual).is_ok() { usual } else { SocketAddr::from(([127, 0, 0, 1], 0)) }
}

#[expect(clippy::disallowed_methods, reason = "the demo's events are of today")]
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
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

fn explain(Listening { electrum, relay, rest, explorer }: Listening, samples: &[Sample]) {
    let Some(electrum) = electrum else { return };
    let port = electrum.port();
    println!("\nBirdhouse serves the Electrum protocol on {electrum}. Leave with Ctrl-C.\n");
    println!("Ask it something:");
    println!(r#"  echo '{{"id":1,"method":"blockchain.headers.subscribe","params":[]}}' | nc -q 1 127.0.0.1 {port}"#);
    if let Some(sample) = samples.first() {
        let scripthash = birdhouse_regtest::script::scripthash(sample.script.as_bytes());
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
    if let Some(addr) = explorer {
        println!("\nThe explorer, for a browser:");
        println!("  http://{addr}/");
    }
    if let Some(addr) = rest {
        println!("\nEsplora's REST API:");
        println!("  curl http://{addr}/blocks/tip/height");
        if let Some(sample) = samples.first() {
            println!("  curl http://{addr}/address/{}", sample.name);
        }
    }
    if let Some(addr) = relay {
        println!("\nAnd a Nostr relay with some notes, for any Nostr client:");
        println!("  ws://{addr}");
        println!("  nak req -k 1 -l 3 ws://{addr}");
    }
}

fn ask(Listening { electrum, relay, rest, explorer }: Listening, samples: &[Sample]) -> Result<()> {
    ask_as_wallet(electrum.context("the demo serves wallets")?, samples)?;
    let height = ask_by_http(rest.context("the demo serves the REST API")?, "/blocks/tip/height")?;
    println!("height by REST: {height}");
    let page = ask_by_http(explorer.context("the demo serves the explorer")?, "/")?;
    println!("the explorer's first page has {} bytes", page.len());
    relay.map_or(Ok(()), ask_relay)
}

/// Asks for a path by HTTP; returns the body of the answer.
fn ask_by_http(addr: SocketAddr, path: &str) -> Result<String> {
    let mut socket = TcpStream::connect(addr).with_context(|| format!("cannot connect to {addr}"))?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").with_context(|| format!("{addr} gives no answer"))?;
    Ok(body.to_owned())
}

/// Asks for the newest notes, and prints them.
fn ask_relay(addr: SocketAddr) -> Result<()> {
    let socket = TcpStream::connect(addr).context("cannot connect to the relay")?;
    let (mut socket, _) =
        tungstenite::client(format!("ws://{addr}"), socket).context("the relay gives no WebSocket")?;
    socket.send(Message::text(r#"["REQ","newest",{"kinds":[1],"limit":3}]"#))?;
    println!("newest notes of the relay:");
    loop {
        let Message::Text(text) = socket.read()? else { continue };
        let message: serde_json::Value = serde_json::from_str(&text)?;
        match message[0].as_str() {
            Some("EVENT") => println!("  {}", message[2]["content"]),
            Some("EOSE") => return Ok(()),
            _ => {}
        }
    }
}

/// Asks what a wallet would, by a real client, and prints the answers.
fn ask_as_wallet(addr: SocketAddr, samples: &[Sample]) -> Result<()> {
    let client = electrum_client::raw_client::RawClient::new(addr, None, None).context("cannot connect")?;
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
