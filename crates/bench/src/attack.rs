//! What attackers cost other clients: the time that visitors wait for answers, and the server's memory.
//!
//! Attackers stand for other machines: they run when the processors have nothing else to do, for on a small machine they
//! would otherwise take these from the server and its visitors, which no server can help. All come from one address, each visitor from another.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::attack::{Attack, Outcome, Running, Stage, Target};
use birdhouse_testkit::usage::Usage;
use clap::ValueEnum;

use crate::at_least_one;
use crate::durations::{Durations, seconds};
use crate::record::{Cell, Layout, Measured, Record, Table, Unit};
use crate::server::version_of;

const SEED: u64 = 91;
/// `SCHED_IDLE`: whoever else has something to do takes the processor at once, and not after a slice of 3 ms, as from a
/// process of the lowest priority.
const ONLY_WHEN_IDLE: [&str; 2] = ["--idle", "0"];
/// From the start of an attack until it is measured: connections are made, and bounds reached.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The binary to measure: by default the one beside this program.
    #[arg(long, default_value_os_t = crate::birdhouse_beside())]
    birdhouse: PathBuf,
    /// How often everything is done; the figures are of all rounds together.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<u32>())]
    rounds: u32,
    /// How long each attack is measured in a round.
    #[arg(long, default_value_t = 5, value_parser = at_least_one::<u64>())]
    seconds: u64,
    /// Each with one connection, one question at a time, and a rest of 5 ms between questions.
    #[arg(long, default_value_t = 4, value_parser = at_least_one::<u8>())]
    visitors: u8,
    /// Where the attackers connect.
    #[arg(long, value_enum, default_value_t = Door::Strangers)]
    door: Door,
    /// Which attacks, one after the other and then at once.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Attack::ALL)]
    attacks: Vec<Attack>,
}

/// What the process of the attackers is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Orders {
    #[arg(long, value_delimiter = ',', value_enum)]
    attacks: Vec<Attack>,
    #[arg(long, value_enum)]
    door: Door,
    #[arg(long)]
    port: u16,
    /// For attacks on TLS.
    #[arg(long)]
    tls_port: u16,
    #[arg(long)]
    scripthash: String,
}

/// A listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Door {
    /// Clients are told apart by PROXY headers, and all attackers are one.
    Strangers,
    /// Nothing is counted by client.
    Operator,
}

/// One row of the table.
struct Figures {
    title: String,
    attacks: Vec<Attack>,
    latencies: Durations,
    time: Duration,
    cpu: Duration,
    memory_peak: u64,
    outcome: Outcome,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Clients that mean harm", &std::env::temp_dir());
    record.servers = vec![Measured::new("birdhouse", Some(&version_of(&plan.birdhouse)?), "")];
    let stage = Stage::start(SEED, &plan.birdhouse)?;
    let mut rows = vec![Figures::new("nobody attacks", &[])];
    rows.extend(plan.attacks.iter().map(|attack| Figures::new(&name(attack), &[*attack])));
    if plan.attacks.len() > 1 {
        rows.push(Figures::new("all at once", &plan.attacks));
    }
    for _ in 0..plan.rounds {
        for figures in &mut rows {
            figures.measure(&stage, plan).with_context(|| figures.title.clone())?;
        }
    }
    record.tables.push(table(&rows, plan));
    Ok(record)
}

/// The attackers' own process: it goes on until its input ends.
pub(crate) fn obey(orders: &Orders) -> Result<()> {
    let start = |attack: &Attack| {
        let port = if *attack == Attack::TlsGarbage { orders.tls_port } else { orders.port };
        let target = match orders.door {
            Door::Strangers => Target::Proxied(port),
            Door::Operator => Target::Direct(port),
        };
        attack.start(target, Stage::ATTACKER, &orders.scripthash)
    };
    let running: Vec<Running> = orders.attacks.iter().map(start).collect();
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for attack in running {
        let Outcome { connected, closed, sent, received } = attack.stop()?;
        println!("{connected} {closed} {sent} {received}");
    }
    Ok(())
}

impl Figures {
    fn new(title: &str, attacks: &[Attack]) -> Self {
        Self {
            title: title.to_owned(),
            attacks: attacks.to_vec(),
            latencies: Durations::default(),
            time: Duration::ZERO,
            cpu: Duration::ZERO,
            memory_peak: 0,
            outcome: Outcome::default(),
        }
    }

    fn measure(&mut self, stage: &Stage, plan: &Plan) -> Result<()> {
        stage.exposed.forget_memory_peak()?;
        let attackers = Attackers::start(&self.attacks, plan.door, stage)?;
        thread::sleep(WARM_UP);
        let pid = stage.exposed.server.pid();
        let (before, start) = (Usage::of(pid)?.cpu, Instant::now());
        let visitors = stage.visitors(plan.visitors);
        thread::sleep(Duration::from_secs(plan.seconds));
        let served = visitors.stop()?;
        self.time += start.elapsed();
        self.cpu += Usage::of(pid)?.cpu.saturating_sub(before);
        for latency in served.latencies() {
            self.latencies.add(*latency);
        }
        self.outcome = sum(self.outcome, attackers.stop()?);
        self.memory_peak = self.memory_peak.max(Usage::of(pid)?.resident_bytes_max);
        Ok(())
    }
}

/// A process of attackers.
struct Attackers {
    child: Child,
    orders: ChildStdin,
}

impl Attackers {
    fn start(attacks: &[Attack], door: Door, stage: &Stage) -> Result<Self> {
        let attacks: Vec<String> = attacks.iter().map(name).collect();
        let port = |target| match target {
            Target::Direct(port) | Target::Proxied(port) => port.to_string(),
        };
        let exposed = &stage.exposed;
        let (tcp, tls) = match door {
            Door::Strangers => (exposed.strangers(), exposed.strangers_by_tls()),
            Door::Operator => (exposed.operator(), exposed.operator()),
        };
        let mut command = Command::new("chrt");
        command.args(ONLY_WHEN_IDLE).arg(std::env::current_exe()?).arg("attacker");
        if !attacks.is_empty() {
            command.args(["--attacks", &attacks.join(",")]);
        }
        command.args(["--door", &name(&door), "--scripthash", &stage.heavy]);
        command.args(["--port", &port(tcp), "--tls-port", &port(tls)]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the attackers")?;
        let orders = child.stdin.take().context("the attackers' input")?;
        Ok(Self { child, orders })
    }

    fn stop(mut self) -> Result<Outcome> {
        drop(self.orders);
        let said = self.child.stdout.take().context("the attackers' output")?;
        let mut all = Outcome::default();
        for line in BufReader::new(said).lines() {
            all = sum(all, outcome(&line?)?);
        }
        ensure!(self.child.wait()?.success(), "the attackers failed");
        Ok(all)
    }
}

fn outcome(line: &str) -> Result<Outcome> {
    let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let [connected, closed, sent, received] = numbers[..] else { anyhow::bail!("{line} is no outcome") };
    Ok(Outcome { connected, closed, sent, received })
}

fn sum(one: Outcome, other: Outcome) -> Outcome {
    Outcome {
        connected: one.connected + other.connected,
        closed: one.closed + other.closed,
        sent: one.sent + other.sent,
        received: one.received + other.received,
    }
}

/// As it is written in commands.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn table(rows: &[Figures], plan: &Plan) -> Table {
    let meaning = format!(
        "{} visitors, each with one question at a time and a rest of 5 ms between questions, while one address attacks; \
         {} rounds of {} s each. The attackers run when the processors are idle.",
        plan.visitors, plan.rounds, plan.seconds
    );
    let columns = [
        ("answers", Unit::Count),
        ("wait", Unit::Seconds),
        ("p99, of nobody's", Unit::Times),
        ("last", Unit::Seconds),
        ("server", Unit::Cpus),
        ("most memory", Unit::Bytes),
        ("connections made", Unit::Count),
        ("closed by the server", Unit::Count),
        ("sent", Unit::Bytes),
    ];
    let mut table = Table::new("Under attack", meaning, Layout::OneServer, columns);
    let calm = rows.first().and_then(|row| row.latencies.percentile(99));
    for figures in rows {
        let late = figures.latencies.percentile(99).zip(calm);
        let cells = [
            Cell::count(figures.latencies.len() as u64),
            figures.latencies.with_p99(),
            late.map_or(Cell::Nothing, |(late, calm)| Cell::number(late.as_secs_f64() / calm.as_secs_f64())),
            seconds(figures.latencies.percentile(100)),
            Cell::number(figures.cpu.as_secs_f64() / figures.time.as_secs_f64()),
            Cell::count(figures.memory_peak),
            Cell::count(figures.outcome.connected),
            Cell::count(figures.outcome.closed),
            Cell::count(figures.outcome.sent),
        ];
        table.push(&figures.title, cells);
    }
    table
}
