//! Cost of attacks: the latencies of honest clients and the server's memory.
//!
//! Both kinds of clients stand for other machines (`birdhouse_testkit::priority`). On a small machine attackers would
//! otherwise take the processors from the server, which no server can prevent, and honest clients would wait for a
//! processor when their answers are there. The attackers of a row come from one address, each honest client from
//! another.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::attack::{Attack, HonestClients, Outcome, Prey, Running, Setup, Target};
use birdhouse_testkit::priority::{self, ONLY_WHEN_IDLE};
use birdhouse_testkit::usage::{Usage, stolen_cpu};
use bitcoin::secp256k1::PublicKey;
use clap::ValueEnum;

use crate::machine::args::at_least_one;
use crate::machine::server::version_of;
use crate::report::durations::{Durations, seconds, times};
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

const SEED: u64 = 91;
/// Time from the start of an attack until it is measured: connections are opened and limits reached.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time that is quiet or not as a whole: honest clients stay for as long, while an attack goes on.
const SLICE: Duration = Duration::from_secs(5);
/// Share of one processor that the host may take in quiet time. More delays more than one answer in a hundred, which
/// is what a p99 is made of.
const QUIET: f64 = 0.01;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Number of rounds; the figures are of all rounds together.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<u32>())]
    rounds: u32,
    /// Seconds of each attack in a round.
    #[arg(long, default_value_t = 5, value_parser = at_least_one::<u64>())]
    seconds: u64,
    /// Number of honest clients, each with one connection, one request at a time, and 5 ms between requests.
    #[arg(long, default_value_t = 4, value_parser = at_least_one::<u8>())]
    clients: u8,
    /// Listener that the attackers connect to.
    #[arg(long, value_enum, default_value_t = Listener::Public)]
    listener: Listener,
    /// Attacks to measure, one after the other and then together.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Attack::ALL)]
    attacks: Vec<Attack>,
    /// Measure the attacks together, and not one after the other.
    #[arg(long)]
    together: bool,
}

/// Arguments of the attackers' process.
#[derive(Debug, clap::Args)]
pub(crate) struct AttackersPlan {
    #[arg(long, value_enum)]
    attack: Vec<Attack>,
    /// Target of each attack.
    #[arg(long)]
    target: Vec<Target>,
    /// The client that all of them are.
    #[arg(long)]
    address: Ipv4Addr,
    #[arg(long)]
    scripthash: String,
    #[arg(long)]
    txid: String,
    /// The tweak of a transaction, in hexadecimal.
    #[arg(long)]
    tweak: PublicKey,
}

/// A listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Listener {
    /// The public listener: PROXY headers name the clients, and all attackers are one client.
    Public,
    /// The operator's listener, without limits by client.
    Operator,
}

/// One row of the table.
struct Figures {
    title: String,
    attacks: Vec<Attack>,
    latencies: Durations,
    rest_latencies: Durations,
    /// Latencies of `/health`, each over a new connection.
    health_latencies: Durations,
    /// Latencies of an echo: what kernel and host take, whatever the server does.
    echo_latencies: Durations,
    /// Latencies in quiet time alone.
    quiet_latencies: Durations,
    quiet_rest_latencies: Durations,
    quiet_time: Duration,
    time: Duration,
    /// Time of the attack, the warm-up included.
    attacked: Duration,
    cpu: Duration,
    /// CPU time that the host took from the machine meanwhile.
    stolen: Duration,
    memory_peak: u64,
    outcome: Outcome,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Hostile clients", &std::env::temp_dir());
    record.servers = vec![Measured::new("birdhouse", Some(&version_of(&plan.birdhouse)?), "")];
    let setup = Setup::start(SEED, &plan.birdhouse)?;
    let mut rows = vec![Figures::new("no attack", &[])];
    if !plan.together {
        rows.extend(plan.attacks.iter().map(|attack| Figures::new(&name(attack), &[*attack])));
    }
    if plan.attacks.len() > 1 {
        rows.push(Figures::new("all at once", &plan.attacks));
    }
    for _ in 0..plan.rounds {
        for (number, figures) in (0..).zip(&mut rows) {
            figures.measure(&setup, plan, Setup::attacker(number)).with_context(|| figures.title.clone())?;
            // A run takes hours: a row that is measured is not lost with the rest.
            eprintln!(
                "attack: {}: wallets {}; REST {}; /health {}; echo {}; {} s quiet: wallets {}; at most {} MB",
                figures.title,
                figures.latencies,
                figures.rest_latencies,
                figures.health_latencies,
                figures.echo_latencies,
                figures.quiet_time.as_secs(),
                figures.quiet_latencies,
                figures.memory_peak / 1_000_000
            );
        }
    }
    record.tables.push(table(&rows, plan));
    Ok(record)
}

/// Runs the attackers until standard input ends; prints their counts.
pub(crate) fn run_attackers(plan: &AttackersPlan) -> Result<()> {
    let prey = Prey { scripthash: plan.scripthash.clone(), txid: plan.txid.clone(), tweak: plan.tweak };
    let start = |(attack, target): (&Attack, &Target)| attack.start(*target, plan.address, &prey);
    let running: Vec<Running> = plan.attack.iter().zip(&plan.target).map(start).collect();
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for attack in running {
        let Outcome { connected, closed, requests, sent, received } = attack.stop()?;
        println!("{connected} {closed} {requests} {sent} {received}");
    }
    Ok(())
}

impl Figures {
    fn new(title: &str, attacks: &[Attack]) -> Self {
        Self {
            title: title.to_owned(),
            attacks: attacks.to_vec(),
            latencies: Durations::default(),
            rest_latencies: Durations::default(),
            health_latencies: Durations::default(),
            echo_latencies: Durations::default(),
            quiet_latencies: Durations::default(),
            quiet_rest_latencies: Durations::default(),
            quiet_time: Duration::ZERO,
            time: Duration::ZERO,
            attacked: Duration::ZERO,
            cpu: Duration::ZERO,
            stolen: Duration::ZERO,
            memory_peak: 0,
            outcome: Outcome::default(),
        }
    }

    fn measure(&mut self, setup: &Setup, plan: &Plan, address: Ipv4Addr) -> Result<()> {
        setup.exposed.reset_memory_peak()?;
        let attackers = Attackers::start(&self.attacks, plan.listener, setup, address)?;
        let began = Instant::now();
        thread::sleep(WARM_UP);
        let mut left = Duration::from_secs(plan.seconds);
        while !left.is_zero() {
            let slice = left.min(SLICE);
            self.measure_slice(setup, plan, slice)?;
            left -= slice;
        }
        self.outcome = sum(self.outcome, attackers.stop()?);
        self.attacked += began.elapsed();
        self.memory_peak = self.memory_peak.max(Usage::of(setup.exposed.server.pid())?.resident_bytes_max);
        Ok(())
    }

    /// Measures new honest clients for `time`.
    fn measure_slice(&mut self, setup: &Setup, plan: &Plan, time: Duration) -> Result<()> {
        let pid = setup.exposed.server.pid();
        let (before, stolen_before, start) = (Usage::of(pid)?.cpu, stolen_cpu()?, Instant::now());
        let (clients, visitors) = (setup.honest_clients(plan.clients), setup.rest_visitors(plan.clients));
        let supervisors = setup.supervisors(1);
        let echo = HonestClients::of_an_echo()?;
        thread::sleep(time);
        let (latencies, rest_latencies, echo_latencies) = (clients.stop()?, visitors.stop()?, echo.stop()?);
        let health_latencies = supervisors.stop()?;
        let (time, stolen) = (start.elapsed(), stolen_cpu()?.saturating_sub(stolen_before));
        self.time += time;
        self.cpu += Usage::of(pid)?.cpu.saturating_sub(before);
        self.stolen += stolen;
        self.latencies.add_all(latencies.latencies());
        self.rest_latencies.add_all(rest_latencies.latencies());
        self.health_latencies.add_all(health_latencies.latencies());
        self.echo_latencies.add_all(echo_latencies.latencies());
        if stolen <= time.mul_f64(QUIET) {
            self.quiet_time += time;
            self.quiet_latencies.add_all(latencies.latencies());
            self.quiet_rest_latencies.add_all(rest_latencies.latencies());
        }
        Ok(())
    }
}

/// The attackers' process.
struct Attackers {
    child: Child,
    input: ChildStdin,
}

impl Attackers {
    fn start(attacks: &[Attack], listener: Listener, setup: &Setup, address: Ipv4Addr) -> Result<Self> {
        let mut command = Command::new("chrt");
        command.args(ONLY_WHEN_IDLE).arg(std::env::current_exe()?).arg("attackers");
        for attack in attacks {
            let target = match listener {
                Listener::Public => setup.exposed.public_for(*attack),
                Listener::Operator => setup.exposed.operator_for(*attack),
            };
            command.args(["--attack", &name(attack), "--target", &target.to_string()]);
        }
        command.args([
            "--address",
            &address.to_string(),
            "--scripthash",
            &setup.prey.scripthash,
            "--txid",
            &setup.prey.txid,
            "--tweak",
            &setup.prey.tweak.to_string(),
        ]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("failed to start the attackers")?;
        let input = child.stdin.take().context("the attackers have no input")?;
        Ok(Self { child, input })
    }

    fn stop(mut self) -> Result<Outcome> {
        drop(self.input);
        let output = self.child.stdout.take().context("the attackers have no output")?;
        let mut all = Outcome::default();
        for line in BufReader::new(output).lines() {
            all = sum(all, parse_outcome(&line?)?);
        }
        ensure!(self.child.wait()?.success(), "the attackers failed");
        Ok(all)
    }
}

/// Parses a line of the attackers' process.
pub(crate) fn parse_outcome(line: &str) -> Result<Outcome> {
    let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let [connected, closed, requests, sent, received] = numbers[..] else {
        anyhow::bail!("failed to parse the attackers' counts: {line}")
    };
    Ok(Outcome { connected, closed, requests, sent, received })
}

pub(crate) fn sum(one: Outcome, other: Outcome) -> Outcome {
    Outcome {
        connected: one.connected + other.connected,
        closed: one.closed + other.closed,
        requests: one.requests + other.requests,
        sent: one.sent + other.sent,
        received: one.received + other.received,
    }
}

/// Returns a value as it is written in commands.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn table(rows: &[Figures], plan: &Plan) -> Table {
    let meaning = format!(
        "{} honest clients of the Electrum protocol, as many of REST, and one of `/health` with a connection for each \
         request, each with one request at a time and 5 ms between requests, while one address attacks; \
         {} rounds of {} s each. {} An echo of 120 bytes and its client run as honest clients do, and wait for \
         kernel and host alone. Quiet are slices of {} s of which the host took at most {QUIET} of one processor. \
         Hostile requests are those that sockets took, read by the server or not.",
        plan.clients,
        plan.rounds,
        plan.seconds,
        priority::meaning(),
        SLICE.as_secs()
    );
    let columns = [
        ("answers", Unit::Count),
        ("latency", Unit::Seconds),
        ("p99, times that of no attack", Unit::Times),
        ("last", Unit::Seconds),
        ("REST latency", Unit::Seconds),
        ("REST p99, times that of no attack", Unit::Times),
        ("REST last", Unit::Seconds),
        ("/health latency", Unit::Seconds),
        ("/health last", Unit::Seconds),
        ("echo latency", Unit::Seconds),
        ("server", Unit::Cpus),
        ("taken by the host", Unit::Cpus),
        ("quiet time", Unit::Seconds),
        ("latency in it", Unit::Seconds),
        ("p99 in it, times that of no attack", Unit::Times),
        ("REST p99 in it, times that of no attack", Unit::Times),
        ("most memory", Unit::Bytes),
        ("connections made", Unit::Count),
        ("closed by the server", Unit::Count),
        ("hostile requests", Unit::PerSecond),
        ("sent", Unit::Bytes),
    ];
    let mut table = Table::new("Under attack", meaning, Layout::OneServer, columns);
    let calm = rows.first();
    for figures in rows {
        let requests = Cell::number(count(figures.outcome.requests) / figures.attacked.as_secs_f64());
        let cells = [
            Cell::count(figures.latencies.len() as u64),
            figures.latencies.with_p99(),
            times_p99(&figures.latencies, calm.map(|calm| &calm.latencies)),
            seconds(figures.latencies.percentile(100)),
            figures.rest_latencies.with_p99(),
            times_p99(&figures.rest_latencies, calm.map(|calm| &calm.rest_latencies)),
            seconds(figures.rest_latencies.percentile(100)),
            figures.health_latencies.with_p99(),
            seconds(figures.health_latencies.percentile(100)),
            figures.echo_latencies.with_p99(),
            times(figures.cpu, figures.time),
            times(figures.stolen, figures.time),
            seconds(Some(figures.quiet_time)),
            figures.quiet_latencies.with_p99(),
            times_p99(&figures.quiet_latencies, calm.map(|calm| &calm.quiet_latencies)),
            times_p99(&figures.quiet_rest_latencies, calm.map(|calm| &calm.quiet_rest_latencies)),
            Cell::count(figures.memory_peak),
            Cell::count(figures.outcome.connected),
            Cell::count(figures.outcome.closed),
            requests,
            Cell::count(figures.outcome.sent),
        ];
        table.push(&figures.title, cells);
    }
    table
}

/// Returns the ratio of p99 to that of `calm`.
fn times_p99(latencies: &Durations, calm: Option<&Durations>) -> Cell {
    let late = latencies.percentile(99).zip(calm.and_then(|calm| calm.percentile(99)));
    late.map_or(Cell::Nothing, |(late, calm)| times(late, calm))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn count(number: u64) -> f64 {
    number as f64
}
