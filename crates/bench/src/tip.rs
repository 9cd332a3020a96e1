//! From the node's news to a client's notification, and what a new status costs the server.
//!
//! The clock starts when the node has answered that it took the transaction or block, and stops when the notification
//! has been read.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::tx::Coin;
use bitcoin::ScriptBuf;
use serde_json::{Value, json};

use crate::Common;
use crate::durations::Durations;
use crate::node;
use crate::process::used;
use crate::purse::{Purse, mine};
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};
use crate::samples::Samples;
use crate::server::{Server, measured};

/// Enough for an output that nodes relay, and its fee.
const COIN_SAT: u64 = 2000;
const SUBSCRIBE: &str = "blockchain.scripthash.subscribe";

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Blocks that pay the script with most transactions.
    #[arg(long, default_value_t = 10)]
    blocks: u32,
    /// Transactions that pay a new script, and as many that pay the one with most transactions.
    #[arg(long, default_value_t = 20)]
    transactions: u32,
    /// How long to wait for a notification, in seconds.
    #[arg(long, default_value_t = 30)]
    patience_s: u64,
}

/// What one server gave. Durations are empty where no notification came.
struct Figures {
    new_script: Durations,
    largest: Durations,
    blocks: Durations,
    cpu_s_per_block: f64,
}

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<Record> {
    let largest = samples.largest()?;
    let script = ScriptBuf::from_hex(&largest.script_pubkey)?;
    let mut record = Record::begin("From the node to a client", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let purse = Purse::new();
    let mut table = table(largest.txs, plan);
    for server in &common.servers {
        eprintln!("tip: {}", server.title());
        let coins = purse.coins(&node, plan.transactions * 2, COIN_SAT)?;
        let figures = figures(common, &node, &purse, *server, plan, &script, &coins);
        table.push_result(server.title(), &figures, Figures::cells);
    }
    record.tables.push(table);
    Ok(record)
}

fn figures(
    common: &Common,
    node: &Bitcoind,
    purse: &Purse,
    server: Server,
    plan: &Plan,
    largest: &ScriptBuf,
    coins: &[Coin],
) -> Result<Figures> {
    let peer = server.start(common, node)?;
    Scene { node, peer: &peer, purse, plan }.measure(largest, coins)
}

fn table(txs: u64, plan: &Plan) -> Table {
    let titles = [
        "transaction, new script".to_owned(),
        format!("transaction, script of {txs} txs"),
        format!("block, script of {txs} txs"),
        "server CPU a block".to_owned(),
    ];
    let columns = titles.map(|title| Column::new(title, Unit::Seconds));
    let meaning = format!(
        "From the node's answer that it took something to the client's notification; {} transactions, {} blocks.",
        plan.transactions, plan.blocks
    );
    Table::new("Delay of a notification", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

impl Figures {
    fn cells(&self) -> [Cell; 4] {
        let [new, largest, blocks] = [&self.new_script, &self.largest, &self.blocks].map(Durations::with_range);
        [new, largest, blocks, Cell::number(self.cpu_s_per_block)]
    }
}

struct Scene<'a> {
    node: &'a Bitcoind,
    peer: &'a Peer,
    purse: &'a Purse,
    plan: &'a Plan,
}

impl Scene<'_> {
    fn measure(&self, largest: &ScriptBuf, coins: &[Coin]) -> Result<Figures> {
        let mut client = self.peer.client()?;
        let new = self.purse.script(1000 + self.node.height()?);
        for script in [&new, largest] {
            client.call(SUBSCRIBE, json!([scripthash(script.as_bytes())]))?;
        }
        let (for_new, for_largest) = coins.split_at(coins.len() / 2);
        let new_script = self.transactions(&mut client, for_new, &new)?;
        let with_largest = self.transactions(&mut client, for_largest, largest)?;
        // What was unconfirmed is confirmed here, so that the blocks that count are alike.
        mine(self.node, 1, largest)?;
        self.heard(&mut client, largest)?;
        let before = used(self.peer.pid())?.cpu_s;
        let mut blocks = Durations::default();
        for _ in 0..self.plan.blocks {
            mine(self.node, 1, largest)?;
            blocks.add(self.heard(&mut client, largest)?.context("no notification of a block")?);
        }
        let cpu_s_per_block = (used(self.peer.pid())?.cpu_s - before) / f64::from(self.plan.blocks);
        Ok(Figures { new_script, largest: with_largest, blocks, cpu_s_per_block })
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
