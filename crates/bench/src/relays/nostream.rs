//! The experiment of a Nostream operator's report: one query with 76 values of a tag, answered by PostgreSQL from tags
//! in JSONB, by PostgreSQL from a table of tags, and by Birdhouse; and the time each takes to make the missing index.
//!
//! All have the same events: those that Birdhouse exports after it loaded the file, without deleted or replaced ones.
//! The three take turns with the same queries. The first pass is not timed: its answers are compared instead.

mod added_index;
mod database;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, ensure};
use birdhouse_testkit::Postgres;
use birdhouse_testkit::peers::Home;
use birdhouse_testkit::relays::{Kind, Relay};
use serde_json::Value;

use self::added_index::AddedIndex;
use self::database::{BackFill, Database, Tags};
use crate::machine::args::at_least_one;
use crate::machine::server_at::turns;
use crate::relays::relay::{self, Answer, Figures, RelayAt, Socket, alike, by_shape, frame, id, up_to_eose};
use crate::report::durations::{per_second, seconds};
use crate::report::record::{Cell, Layout, Measured, Plot, Record, Table, Unit, listed};

/// Settings of a PostgreSQL that this program starts, suitable for a machine with some gigabytes of memory.
const SETTINGS: [(&str, &str); 8] = [
    ("shared_buffers", "2GB"),
    ("effective_cache_size", "8GB"),
    ("work_mem", "64MB"),
    ("maintenance_work_mem", "512MB"),
    ("max_wal_size", "8GB"),
    ("random_page_cost", "1.1"),
    ("jit", "off"),
    ("autovacuum", "off"),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// PostgreSQL whose user may make a schema, which is removed at the end. Its CPU time is measured if it runs on
    /// this machine [default: one is started].
    #[arg(long, value_name = "postgres://USER:PASSWORD@HOST/DATABASE")]
    postgres: Option<String>,
    /// File of events of make-events, one a line.
    #[arg(long)]
    events: PathBuf,
    /// File that `make-events --queries` wrote with the events.
    #[arg(long)]
    queries: PathBuf,
    /// Folder for Birdhouse's events, which are kept and used again.
    #[arg(long)]
    work: PathBuf,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Number of passes over the queries; the first is not timed.
    #[arg(long, default_value_t = 11, value_parser = at_least_one::<usize>())]
    passes: usize,
    /// Seconds of a shape after which a server gets no more of its queries (from the third pass on).
    #[arg(long, default_value_t = 60, value_parser = at_least_one::<u64>())]
    budget_s: u64,
    /// File to write PostgreSQL's plan of the first query of each shape to (EXPLAIN ANALYZE).
    #[arg(long)]
    explain: Option<PathBuf>,
}

/// The ways to answer.
const WAYS: [Way; 3] = [Way::Birdhouse, Way::Sql(Tags::Table), Way::Sql(Tags::Jsonb)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Birdhouse,
    Sql(Tags),
}

/// Connections to all servers.
struct Contenders {
    relay: RelayAt,
    socket: Socket,
    database: Database,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("The Nostream operator's experiment", &plan.work);
    fs::create_dir_all(&plan.work).with_context(|| format!("failed to make {}", plan.work.display()))?;
    let relay = filled(plan)?;
    let same = plan.work.join("same-events.jsonl");
    export(plan, &relay, &same)?;

    let own = plan.postgres.is_none().then(|| Postgres::start_with_settings(&SETTINGS)).transpose()?;
    let url = plan.postgres.clone().or_else(|| own.as_ref().map(Postgres::url)).context("no PostgreSQL to measure")?;
    let mut database = Database::open(&url)?;
    let events = database.load(&same)?;
    let back_fill = database.back_fill()?;
    describe(&mut record, &mut database, own.as_ref(), events)?;

    let running = relay.start()?;
    let at = RelayAt::started(Way::Birdhouse.name(), &running);
    let mut contenders = Contenders { socket: Socket::connect(&at)?, relay: at, database };
    answers(plan, &mut contenders, &mut record)?;
    contenders.database.close()?;
    running.stop()?;
    drop(own);

    let added = added_index::measure(&same, &plan.work.join("added-index"), &plan.queries);
    record.tables.push(back_fills(&back_fill, events, &added));
    if let Ok(added) = &added {
        record.note(added.note());
    }
    fs::remove_file(&same)?;
    Ok(record)
}

/// Makes a Birdhouse with the events, loaded unless it has them.
fn filled(plan: &Plan) -> Result<Relay> {
    let folder = plan.work.join("birdhouse");
    relay::filled(Kind::Birdhouse, &plan.birdhouse, &folder, &plan.events)?;
    Ok(Relay::new(Kind::Birdhouse, &plan.birdhouse, Home::Folder(folder))?)
}

/// Exports the stored events of Birdhouse, which all servers get.
fn export(plan: &Plan, relay: &Relay, to: &Path) -> Result<()> {
    let output = Command::new(&plan.birdhouse)
        .args(["export", "--log", "warn", "--relay-search", "off", "--data-dir"])
        .arg(relay.events_dir())
        .arg(to)
        .output()
        .with_context(|| format!("failed to run {}", plan.birdhouse.display()))?;
    ensure!(output.status.success(), "birdhouse export failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn describe(record: &mut Record, database: &mut Database, own: Option<&Postgres>, events: usize) -> Result<()> {
    let settings = if own.is_some() { format!("{}, fsync=off", listed(&SETTINGS)) } else { "unknown".to_owned() };
    let version = database.version()?;
    record.servers.push(Measured::new(Way::Birdhouse.name(), None, listed(Kind::Birdhouse.settings())));
    for tags in [Tags::Table, Tags::Jsonb] {
        record.servers.push(Measured::new(Way::Sql(tags).name(), Some(&version), &settings));
    }
    record.note(format!("{events} events, the same for all."));
    record.note(
        "The table `events` has the columns and indexes of Nostream's, with GIN over tags and over kind, tags and \
         time; `event_tags` has those of its migration of January 2024. Both were filled, then indexed, vacuumed and \
         analysed.",
    );
    record.note(
        "PostgreSQL gets the statement of Nostream, in one round trip, and returns rows. Nostream makes JSON of them \
         and writes it to a WebSocket, which is not in these figures. Birdhouse returns JSON over a WebSocket.",
    );
    for lacking in database.lacking() {
        record.note(lacking.clone());
    }
    Ok(())
}

// === answers ===

fn answers(plan: &Plan, contenders: &mut Contenders, record: &mut Record) -> Result<()> {
    let columns = |unit| WAYS.map(|way| (way.name(), unit));
    let layout = Layout::ServersInColumns;
    let mut latency =
        Table::new("From query to answer", "One at a time.", layout, columns(Unit::Seconds)).drawn(Plot::Dots);
    let mut cpu =
        Table::new("CPU time of the server", "All its processes, for one query.", layout, columns(Unit::Seconds));
    let budget = Duration::from_secs(plan.budget_s);
    for (shape, filters) in by_shape(&plan.queries, |name| name.starts_with("e-76"))? {
        if let Some(file) = &plan.explain {
            let explained = contenders.database.explain(&filters[0])?;
            fs::write(file.with_extension(format!("{shape}.txt")), explained)?;
        }
        let mut figures = WAYS.map(|_| Figures::default());
        for (pass, index) in turns(WAYS.len(), plan.passes) {
            let one = &mut figures[index];
            if one.is_asked(pass, budget) {
                one.refusal = contenders.ask(WAYS[index], &filters, pass, one).err().as_ref().map(Cell::failed);
            }
        }
        latency.push(&shape, figures.iter().map(Figures::latency));
        cpu.push(&shape, figures.iter().map(Figures::cpu_of_one));
        record.note(format!("{shape}: {}", agreement(&figures)));
    }
    record.tables.extend([latency, cpu]);
    Ok(())
}

/// Describes the agreement of all servers with the first.
fn agreement(figures: &[Figures]) -> String {
    let (ours, others) = (&figures[0].answers, &figures[1..]);
    let rows: usize = ours.iter().map(Vec::len).sum();
    let comparisons = others.iter().zip(&WAYS[1..]).map(|(other, way)| {
        let (same, ordered) = alike(ours, &other.answers);
        format!(
            "{} returns the same events for {same} of {} queries, in the same order for {ordered}",
            way.name(),
            ours.len()
        )
    });
    format!("{} rows on average; {}.", rows / ours.len().max(1), comparisons.collect::<Vec<_>>().join("; "))
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Birdhouse => "Birdhouse",
            Self::Sql(Tags::Jsonb) => "PostgreSQL, JSONB",
            Self::Sql(Tags::Table) => "PostgreSQL, event_tags",
        }
    }
}

impl Contenders {
    /// Sends every query once.
    fn ask(&mut self, way: Way, filters: &[Value], pass: usize, figures: &mut Figures) -> Result<()> {
        let before = self.cpu(way)?;
        let began = Instant::now();
        for filter in filters {
            let started = Instant::now();
            let answer = match way {
                Way::Birdhouse => req(&mut self.socket, filter)?,
                Way::Sql(tags) => self.database.ask(tags, filter)?,
            };
            match pass {
                0 => figures.answers.push(answer),
                _ => figures.durations.add(started.elapsed()),
            }
        }
        figures.spent += began.elapsed();
        if pass > 0 {
            figures.add_cpu(before, self.cpu(way)?);
        }
        Ok(())
    }

    fn cpu(&self, way: Way) -> Result<Option<Duration>> {
        match way {
            Way::Birdhouse => self.relay.cpu(),
            Way::Sql(_) => self.database.cpu(),
        }
    }
}

/// Sends a REQ and returns the answer up to EOSE.
fn req(socket: &mut Socket, filter: &Value) -> Result<Answer> {
    socket.send(&frame(&format!("[\"REQ\",\"q\",{filter}]")))?;
    let mut answer = Answer::new();
    let answered = up_to_eose(socket, |event| {
        answer.push(id(event).context("an event without an id")?);
        Ok(())
    })?;
    answered.map_err(Error::msg)?;
    socket.send(&frame("[\"CLOSE\",\"q\"]"))?;
    Ok(answer)
}

// === indexes added later ===

fn back_fills(sql: &BackFill, events: usize, added: &Result<AddedIndex>) -> Table {
    let columns = [
        ("wall", Unit::Seconds),
        ("CPU", Unit::Seconds),
        ("events", Unit::PerSecond),
        ("events in a CPU second", Unit::PerSecond),
    ];
    let mut table = Table::new(
        "Making the missing index",
        "PostgreSQL: `event_tags` filled by one statement, then its indexes, without queries. Birdhouse: posting lists \
         of all tags except a, e and p added to a relay that answers queries meanwhile.",
        Layout::ServersInRows,
        columns,
    );
    table.push_result(Way::Birdhouse.name(), added, |added| {
        let AddedIndex { events, wall, cpu, .. } = added;
        [seconds(Some(*wall)), seconds(Some(*cpu)), per_second(*events, *wall), per_second(*events, *cpu)]
    });
    let rate = |time: Option<Duration>| time.map_or(Cell::Nothing, |time| per_second(events, time));
    let cells = [seconds(Some(sql.wall)), seconds(sql.cpu), rate(Some(sql.wall)), rate(sql.cpu)];
    table.push(Way::Sql(Tags::Table).name(), cells);
    table
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::machine::args::parsed;

    #[test]
    fn incompletely_loaded_relay_is_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let [events, work] = ["events.jsonl", "work"].map(|name| folder.path().join(name).display().to_string());
        fs::write(&events, "").unwrap();
        let filled_by = |program| {
            let words = ["--birdhouse", program, "--events", &events, "--queries", &events, "--work", &work];
            filled(&parsed(&words))
        };
        assert!(filled_by("/bin/false").is_err());
        let half = Path::new(&work).join("birdhouse/events/half");
        fs::write(&half, "").unwrap();
        assert_eq!(filled_by("/bin/true").unwrap().events_dir(), half.parent().unwrap());
        assert!(!half.exists(), "an incomplete folder is used");
        fs::write(&half, "").unwrap();
        filled_by("/bin/false").unwrap();
        assert!(half.exists(), "it is loaded a second time");
    }
}
