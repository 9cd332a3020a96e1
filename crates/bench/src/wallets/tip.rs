//! Delay from a change of the node to a client's notification, and the server's CPU time for a new status.
//!
//! The clock starts when the node has answered that it accepted the transaction or block, and stops when the client has
//! read the notification.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::rpc::Rpc;
use birdhouse_testkit::tx::Coin;
use bitcoin::ScriptBuf;
use serde_json::{Value, json};

use crate::machine::args::at_least_one;
use crate::machine::node;
use crate::machine::server::{Setup, measured};
use crate::machine::server_at::ServerAt;
use crate::report::durations::Durations;
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::wallets::funding::{Funding, mine};
use crate::wallets::samples::{Sample, Samples};

/// Value of a coin in satoshi: enough for an output that nodes relay, and its fee.
const COIN_SAT: u64 = 2000;
const SUBSCRIBE: &str = "blockchain.scripthash.subscribe";

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Number of blocks that pay the script with most transactions.
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<u32>())]
    pub(crate) blocks: u32,
    /// Number of transactions that pay a new script, and of those that pay the one with most transactions.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u32>())]
    pub(crate) transactions: u32,
    /// Seconds to wait for a notification.
    #[arg(long, default_value_t = 30, value_parser = at_least_one::<u64>())]
    pub(crate) patience_s: u64,
}

/// Delays and CPU time of one server. Durations are empty where no notification came.
struct Figures {
    new_script: Durations,
    largest: Durations,
    blocks: Durations,
    /// `None` where the process is unknown.
    cpu_s_per_block: Option<f64>,
}

pub(crate) fn run(setup: &Setup, samples: &Samples, plan: &Plan) -> Result<Record> {
    let largest = samples.largest()?;
    let mut record = Record::begin("From the node to a client", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let rpc = Rpc::new(node.rpc_port(), node.cookie());
    let mut table = table(largest.txs, plan);
    for server in &setup.servers {
        let peer = server.start(setup, &node);
        let at = ServerAt::started(server.title(), &peer);
        push(&mut table, &rpc, &at, largest, plan);
    }
    record.tables.push(table);
    Ok(record)
}

/// Adds the table of servers and a node that run already.
pub(crate) fn measure(
    record: &mut Record,
    servers: &[ServerAt],
    node: &Rpc,
    largest: &Sample,
    plan: &Plan,
) -> Result<()> {
    let chain = node.call("getblockchaininfo", &json!([]))?;
    ensure!(chain["chain"] == "regtest", "failed to mine blocks: the node is on {}, not on regtest", chain["chain"]);
    let mut table = table(largest.txs, plan);
    for server in servers {
        push(&mut table, node, server, largest, plan);
    }
    record.tables.push(table);
    Ok(())
}

fn push(table: &mut Table, node: &Rpc, server: &ServerAt, largest: &Sample, plan: &Plan) {
    eprintln!("tip: {}", server.name);
    let funding = Funding::new();
    let figures = Measurement { node, server, funding: &funding, plan }.measure(&largest.script_pubkey);
    table.push_result(&server.name, &figures, Figures::cells);
}

fn table(txs: u64, plan: &Plan) -> Table {
    let titles = [
        "transaction, new script".to_owned(),
        format!("transaction, script of {txs} txs"),
        format!("block, script of {txs} txs"),
        "server CPU a block".to_owned(),
    ];
    let columns = titles.map(|title| (title, Unit::Seconds));
    let meaning = format!(
        "From the node's answer that it accepted a transaction or block to the client's notification; {} transactions, \
         {} blocks.",
        plan.transactions, plan.blocks
    );
    Table::new("Delay of a notification", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

impl Figures {
    fn cells(&self) -> [Cell; 4] {
        let [new, largest, blocks] = [&self.new_script, &self.largest, &self.blocks].map(Durations::with_range);
        [new, largest, blocks, self.cpu_s_per_block.map_or(Cell::Nothing, Cell::number)]
    }
}

struct Measurement<'a> {
    node: &'a Rpc,
    server: &'a ServerAt,
    funding: &'a Funding,
    plan: &'a Plan,
}

impl Measurement<'_> {
    fn measure(&self, largest: &str) -> Result<Figures> {
        let largest = &ScriptBuf::from_hex(largest)?;
        let mut client = self.client()?;
        let coins = self.funding.coins(self.node, self.plan.transactions * 2, COIN_SAT)?;
        let new = self.funding.script(1000 + self.height()?);
        for script in [&new, largest] {
            client.call(SUBSCRIBE, json!([scripthash(script.as_bytes())]))?;
        }
        let (for_new, for_largest) = coins.split_at(coins.len() / 2);
        let new_script = self.transactions(&mut client, for_new, &new)?;
        let with_largest = self.transactions(&mut client, for_largest, largest)?;
        // Confirms what was unconfirmed, so that the timed blocks are alike.
        mine(self.node, 1, largest)?;
        self.wait_for_notification(&mut client, largest)?;
        let before = self.server.fine_cpu_s()?;
        let mut blocks = Durations::default();
        for _ in 0..self.plan.blocks {
            mine(self.node, 1, largest)?;
            blocks.add(
                self.wait_for_notification(&mut client, largest)?
                    .context("no notification of a block within the time of --patience-s")?,
            );
        }
        let after = self.server.fine_cpu_s()?;
        let cpu_s_per_block = after.zip(before).map(|(after, before)| (after - before) / f64::from(self.plan.blocks));
        Ok(Figures { new_script, largest: with_largest, blocks, cpu_s_per_block })
    }

    fn client(&self) -> Result<Client> {
        let addr = self.server.addr()?;
        let mut client =
            Client::over(TcpStream::connect(addr).with_context(|| format!("failed to connect to {addr}"))?)?;
        client.call("server.version", json!(["bench", ["1.4", "1.6"]]))?;
        Ok(client)
    }

    fn height(&self) -> Result<u32> {
        Ok(u32::try_from(
            self.node.call("getblockcount", &json!([]))?.as_u64().context("getblockcount returned no number")?,
        )?)
    }

    /// Pays a script coin by coin and waits for each notification. After a missing one the rest is left out.
    fn transactions(&self, client: &mut Client, coins: &[Coin], to: &ScriptBuf) -> Result<Durations> {
        let mut durations = Durations::default();
        for coin in coins {
            self.funding.pay(self.node, coin, to)?;
            let Some(duration) = self.wait_for_notification(client, to)? else { return Ok(Durations::default()) };
            durations.add(duration);
        }
        Ok(durations)
    }

    /// Returns the time from now to the next notification of a script; `None` when none comes.
    fn wait_for_notification(&self, client: &mut Client, script: &ScriptBuf) -> Result<Option<Duration>> {
        let started = Instant::now();
        let wanted = Value::from(scripthash(script.as_bytes()));
        let patience = Duration::from_secs(self.plan.patience_s);
        while started.elapsed() < patience {
            let Some(notification) = client.notification(patience.saturating_sub(started.elapsed()))? else { break };
            if notification.method == SUBSCRIBE && notification.params[0] == wanted {
                ensure!(notification.params[1].is_string(), "a script with history has a status");
                return Ok(Some(started.elapsed()));
            }
        }
        Ok(None)
    }
}
