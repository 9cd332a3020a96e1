//! From the node's news to a client's notification, and what a new status costs the server.
//!
//! The clock starts when the node has answered that it took the transaction or block, and stops when the notification
//! has been read.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::rpc::Rpc;
use birdhouse_testkit::tx::Coin;
use bitcoin::ScriptBuf;
use serde_json::{Value, json};

use crate::Common;
use crate::at_least_one;
use crate::durations::Durations;
use crate::node;
use crate::purse::{Purse, mine};
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::samples::{Sample, Samples};
use crate::server::measured;
use crate::server_at::ServerAt;

/// Enough for an output that nodes relay, and its fee.
const COIN_SAT: u64 = 2000;
const SUBSCRIBE: &str = "blockchain.scripthash.subscribe";

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Blocks that pay the script with most transactions.
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<u32>())]
    pub(crate) blocks: u32,
    /// Transactions that pay a new script, and as many that pay the one with most transactions.
    #[arg(long, default_value_t = 20, value_parser = at_least_one::<u32>())]
    pub(crate) transactions: u32,
    /// How long to wait for a notification, in seconds.
    #[arg(long, default_value_t = 30, value_parser = at_least_one::<u64>())]
    pub(crate) patience_s: u64,
}

/// What one server gave. Durations are empty where no notification came.
struct Figures {
    new_script: Durations,
    largest: Durations,
    blocks: Durations,
    /// Unknown where the process is not named.
    cpu_s_per_block: Option<f64>,
}

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<Record> {
    let largest = samples.largest()?;
    let mut record = Record::begin("From the node to a client", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let rpc = Rpc::new(node.rpc_port(), node.cookie());
    let mut table = table(largest.txs, plan);
    for server in &common.servers {
        let peer = server.start(common, &node);
        let at = ServerAt::started(server.title(), &peer);
        push(&mut table, &rpc, &at, largest, plan);
    }
    record.tables.push(table);
    Ok(record)
}

/// Adds the table of servers that somebody else started, on a node of which the same is true.
pub(crate) fn measure(
    record: &mut Record,
    servers: &[ServerAt],
    node: &Rpc,
    largest: &Sample,
    plan: &Plan,
) -> Result<()> {
    let chain = node.call("getblockchaininfo", &json!([]))?;
    ensure!(chain["chain"] == "regtest", "blocks can be mined on regtest only: this node is on {}", chain["chain"]);
    let mut table = table(largest.txs, plan);
    for server in servers {
        push(&mut table, node, server, largest, plan);
    }
    record.tables.push(table);
    Ok(())
}

fn push(table: &mut Table, node: &Rpc, server: &ServerAt, largest: &Sample, plan: &Plan) {
    eprintln!("tip: {}", server.name);
    let purse = Purse::new();
    let figures = Scene { node, server, purse: &purse, plan }.measure(&largest.script_pubkey);
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
        "From the node's answer that it took something to the client's notification; {} transactions, {} blocks.",
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

struct Scene<'a> {
    node: &'a Rpc,
    server: &'a ServerAt,
    purse: &'a Purse,
    plan: &'a Plan,
}

impl Scene<'_> {
    fn measure(&self, largest: &str) -> Result<Figures> {
        let largest = &ScriptBuf::from_hex(largest)?;
        let mut client = self.client()?;
        let coins = self.purse.coins(self.node, self.plan.transactions * 2, COIN_SAT)?;
        let new = self.purse.script(1000 + self.height()?);
        for script in [&new, largest] {
            client.call(SUBSCRIBE, json!([scripthash(script.as_bytes())]))?;
        }
        let (for_new, for_largest) = coins.split_at(coins.len() / 2);
        let new_script = self.transactions(&mut client, for_new, &new)?;
        let with_largest = self.transactions(&mut client, for_largest, largest)?;
        // What was unconfirmed is confirmed here, so that the blocks that count are alike.
        mine(self.node, 1, largest)?;
        self.heard(&mut client, largest)?;
        let before = self.server.fine_cpu_s()?;
        let mut blocks = Durations::default();
        for _ in 0..self.plan.blocks {
            mine(self.node, 1, largest)?;
            blocks.add(self.heard(&mut client, largest)?.context("no notification of a block")?);
        }
        let after = self.server.fine_cpu_s()?;
        let cpu_s_per_block = after.zip(before).map(|(after, before)| (after - before) / f64::from(self.plan.blocks));
        Ok(Figures { new_script, largest: with_largest, blocks, cpu_s_per_block })
    }

    fn client(&self) -> Result<Client> {
        let addr = self.server.addr()?;
        let mut client = Client::over(TcpStream::connect(addr).with_context(|| format!("connect to {addr}"))?)?;
        client.call("server.version", json!(["bench", ["1.4", "1.6"]]))?;
        Ok(client)
    }

    fn height(&self) -> Result<u32> {
        Ok(u32::try_from(self.node.call("getblockcount", &json!([]))?.as_u64().context("a height")?)?)
    }

    /// Pays a script coin by coin, and waits for each notification. A server that sends none is not asked again.
    fn transactions(&self, client: &mut Client, coins: &[Coin], to: &ScriptBuf) -> Result<Durations> {
        let mut durations = Durations::default();
        for coin in coins {
            self.purse.pay(self.node, coin, to)?;
            let Some(duration) = self.heard(client, to)? else { return Ok(Durations::default()) };
            durations.add(duration);
        }
        Ok(durations)
    }

    /// Time from now to the next notification of a script; `None` when there is none.
    fn heard(&self, client: &mut Client, script: &ScriptBuf) -> Result<Option<Duration>> {
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
