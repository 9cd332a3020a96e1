//! Cost of attacks on a relay: the latencies of honest clients, and the relay's memory.
//!
//! The relay runs alone behind a reverse proxy, which is this program: a header names the client of each connection.
//! All attackers are one client, in a process of their own; each honest one is another. All of them stand for other
//! machines (`birdhouse_testkit::priority`).

mod attackers;
mod honest;
mod kind;

use std::fs;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_regtest::bitcoind::free_port;
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use birdhouse_testkit::attack::Outcome;
use birdhouse_testkit::priority::{self, ONLY_WHEN_IDLE};
use birdhouse_testkit::usage::{Usage, stolen_cpu};
use clap::ValueEnum as _;

use self::attackers::Attackers;
use self::honest::HonestClients;
use self::kind::{ADMIN, RelayAttack, URL, keys, stored};
use super::relay_at::RelayAt;
use super::socket::Socket;
use crate::attack::parse_outcome;
use crate::machine::args::at_least_one;
use crate::machine::server::version_of;
use crate::report::durations::{Durations, seconds, times};
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

/// Time from the start of an attack until it is measured.
const WARM_UP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(2);
/// Bounds that `--strict` asks for.
const MEMORY_MAX: u64 = 1_000_000_000;
const P99_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// New folder for the relay.
    #[arg(long)]
    work: PathBuf,
    /// Seconds of each attack.
    #[arg(long, default_value_t = 15, value_parser = at_least_one::<u64>())]
    seconds: u64,
    /// Number of honest clients, each with one connection, one message at a time, and 10 ms between messages.
    #[arg(long, default_value_t = 4, value_parser = at_least_one::<u8>())]
    clients: u8,
    /// Attacks to measure, one after the other and then together.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = RelayAttack::ALL)]
    attacks: Vec<RelayAttack>,
    /// Fail if the relay takes more than 1 GB, or an honest client waits longer than 50 ms more than once in a hundred
    /// times.
    #[arg(long)]
    strict: bool,
}

/// Arguments of the attackers' process.
#[derive(Debug, clap::Args)]
pub(crate) struct AttackersPlan {
    #[arg(long, value_delimiter = ',', value_enum)]
    attacks: Vec<RelayAttack>,
    #[arg(long)]
    port: u16,
}

/// A relay with stored events.
struct Relay {
    child: ChildGuard,
    at: RelayAt,
    port: u16,
}

/// One row of the table.
struct Figures {
    title: String,
    latencies: Durations,
    time: Duration,
    cpu: Duration,
    /// CPU time that the host took from the machine meanwhile.
    stolen: Duration,
    memory_peak: u64,
    outcome: Outcome,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Hostile clients of a relay", &std::env::temp_dir());
    record.servers = vec![Measured::new("birdhouse", Some(&version_of(&plan.birdhouse)?), "")];
    let relay = Relay::start(&plan.birdhouse, &plan.work)?;
    let mut attacks = vec![("no attack".to_owned(), Vec::new())];
    attacks.extend(plan.attacks.iter().map(|attack| (name(*attack), vec![*attack])));
    if plan.attacks.len() > 1 {
        attacks.push(("all at once".to_owned(), plan.attacks.clone()));
    }
    let mut rows = Vec::new();
    for (round, (title, attacks)) in (0..).zip(attacks) {
        let figures = measure(&relay, plan, &attacks, round).with_context(|| title.clone())?;
        // A run takes hours: a row that is measured is not lost with the rest.
        eprintln!("relay-attack: {title}: {}, at most {} MB", figures.latencies, figures.memory_peak / 1_000_000);
        rows.push(Figures { title, ..figures });
    }
    record.tables.push(table(&rows, plan));
    let is_over = |row: &&Figures| row.memory_peak > MEMORY_MAX || row.latencies.percentile(99) > Some(P99_MAX);
    let over: Vec<&str> = rows.iter().filter(is_over).map(|row| &*row.title).collect();
    if plan.strict {
        ensure!(
            over.is_empty(),
            "more than 1 GB, or a p99 above 50 ms, under: {}\n{}",
            over.join(", "),
            record.to_markdown()
        );
    }
    Ok(record)
}

/// Runs the attackers until standard input ends; prints their counts.
pub(crate) fn run_attackers(plan: &AttackersPlan) -> Result<()> {
    let stop = Arc::<AtomicBool>::default();
    let start = |attack: RelayAttack| {
        let (stop, port) = (Arc::clone(&stop), plan.port);
        thread::spawn(move || Attackers::new(attack, port).map(|attackers| attackers.attack(&stop)))
    };
    let running: Vec<_> = plan.attacks.iter().copied().map(start).collect();
    std::io::stdin().read_to_end(&mut Vec::new())?;
    stop.store(true, Ordering::Relaxed);
    for attack in running {
        let outcome = attack.join().map_err(|_| anyhow::anyhow!("an attack panicked"))??;
        let Outcome { connected, closed, requests, sent, received } = outcome;
        println!("{connected} {closed} {requests} {sent} {received}");
    }
    Ok(())
}

fn measure(relay: &Relay, plan: &Plan, attacks: &[RelayAttack], round: u64) -> Result<Figures> {
    Usage::reset_memory_peak(relay.child.pid())?;
    let attackers = if attacks.is_empty() { None } else { Some(AttackersProcess::start(attacks, relay.port)?) };
    let time = Duration::from_secs(plan.seconds);
    let clients = HonestClients::start(&relay.at, plan.clients, WARM_UP + time, round)?;
    thread::sleep(WARM_UP);
    let pid = relay.child.pid();
    let (before, stolen, start) = (Usage::of(pid)?.cpu, stolen_cpu()?, Instant::now());
    thread::sleep(time);
    let (time, cpu) = (start.elapsed(), Usage::of(pid)?.cpu.saturating_sub(before));
    let stolen = stolen_cpu()?.saturating_sub(stolen);
    let mut latencies = Durations::default();
    clients.stop(&mut latencies)?;
    let outcome = attackers.map_or(Ok(Outcome::default()), AttackersProcess::stop)?;
    let memory_peak = Usage::of(pid)?.resident_bytes_max;
    Ok(Figures { title: String::new(), latencies, time, cpu, stolen, memory_peak, outcome })
}

// === impl Relay ===

impl Relay {
    /// Imports the stored events, and starts the relay.
    fn start(program: &Path, work: &Path) -> Result<Self> {
        fs::create_dir(work).with_context(|| format!("failed to create {}", work.display()))?;
        let (events, config, port) = (work.join("events.jsonl"), work.join("birdhouse.toml"), free_port()?);
        let mut file = BufWriter::new(fs::File::create(&events)?);
        for event in stored()? {
            writeln!(file, "{}", event.to_json())?;
        }
        file.into_inner()?.sync_all()?;
        let settings = format!(
            "bitcoin = \"off\"\ndata-dir = \"{}\"\nrelay-addr = \"127.0.0.1:{port}\"\nrelay-proxy-from = [\"127.0.0.0/8\"]\n\
             relay-url = [\"{URL}\"]\nrelay-admins = [\"{}\"]\nlog = \"warn\"\n",
            work.join("data").display(),
            keys(ADMIN)?.pubkey()
        );
        fs::write(&config, settings)?;
        let launch = |words: &[&Path]| Launch {
            program: program.to_owned(),
            args: words.iter().map(|word| word.as_os_str().to_owned()).collect(),
            envs: Vec::new(),
            log: work.join("log"),
        };
        let (option, config) = (Path::new("--config"), config.as_path());
        let mut import = ChildGuard::spawn(launch(&[Path::new("import"), option, config, &events]))?;
        ensure!(import.wait(PATIENCE)?.success(), "failed to import events: {}", import.launch().log_tail());
        let mut child = ChildGuard::spawn(launch(&[Path::new("run"), option, config]))?;
        let at = RelayAt { name: "birdhouse".to_owned(), addr: format!("127.0.0.1:{port}"), pid: Some(child.pid()) };
        child.until(PATIENCE, || Ok::<_, birdhouse_regtest::error::Error>(Socket::connect(&at).ok()))?;
        Ok(Self { child, at, port })
    }
}

/// The attackers' process.
struct AttackersProcess {
    child: Child,
    input: ChildStdin,
}

// === impl AttackersProcess ===

impl AttackersProcess {
    fn start(attacks: &[RelayAttack], port: u16) -> Result<Self> {
        let attacks: Vec<String> = attacks.iter().copied().map(name).collect();
        let mut command = Command::new("chrt");
        command.args(ONLY_WHEN_IDLE).arg(std::env::current_exe()?).arg("relay-attackers");
        command.args(["--attacks", &attacks.join(","), "--port", &port.to_string()]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.context("failed to start the attackers")?;
        let input = child.stdin.take().context("the attackers have no input")?;
        Ok(Self { child, input })
    }

    fn stop(self) -> Result<Outcome> {
        drop(self.input);
        let output = self.child.wait_with_output()?;
        ensure!(output.status.success(), "the attackers failed");
        let lines = String::from_utf8(output.stdout)?;
        lines
            .lines()
            .map(parse_outcome)
            .try_fold(Outcome::default(), |sum, outcome| Ok(crate::attack::sum(sum, outcome?)))
    }
}

fn name(attack: RelayAttack) -> String {
    attack.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn table(rows: &[Figures], plan: &Plan) -> Table {
    let meaning = format!(
        "{} honest clients, each with one message at a time and 10 ms between messages, while another client attacks for \
         {} s. {}",
        plan.clients,
        plan.seconds,
        priority::meaning()
    );
    let columns = [
        ("answers", Unit::Count),
        ("latency", Unit::Seconds),
        ("last", Unit::Seconds),
        ("relay", Unit::Cpus),
        ("taken by the host", Unit::Cpus),
        ("most memory", Unit::Bytes),
        ("connections made", Unit::Count),
        ("closed by the relay", Unit::Count),
        ("sent", Unit::Bytes),
        ("received", Unit::Bytes),
    ];
    let mut table = Table::new("A relay under attack", meaning, Layout::OneServer, columns);
    for row in rows {
        let cells = [
            Cell::count(row.latencies.len() as u64),
            row.latencies.with_p99(),
            seconds(row.latencies.percentile(100)),
            times(row.cpu, row.time),
            times(row.stolen, row.time),
            Cell::count(row.memory_peak),
            Cell::count(row.outcome.connected),
            Cell::count(row.outcome.closed),
            Cell::count(row.outcome.sent),
            Cell::count(row.outcome.received),
        ];
        table.push(&row.title, cells);
    }
    table
}
