//! An Electrum server at an address, which is all that load generators know of it.

use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::usage::{Usage, own_cpu};

use crate::machine::process::cpu_time;
use crate::report::record::{Cell, Layout, Table, Unit};

/// A server to measure: `NAME=HOST:PORT`, or `NAME=HOST:PORT#PID` for its CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAt {
    pub(crate) name: String,
    address: Result<Address, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    /// `HOST:PORT`.
    addr: String,
    pid: Option<u32>,
}

/// Time that the measurement of one server took, all turns together.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_field_names, reason = "quantities carry units")]
pub(crate) struct Effort {
    pub(crate) wall_s: f64,
    pub(crate) client_cpu_s: f64,
    /// `None` where the server's process is unknown.
    pub(crate) server_cpu_s: Option<f64>,
}

/// Result of a server's turns.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    pub(crate) figures: Result<T>,
    pub(crate) effort: Effort,
}

impl ServerAt {
    /// Makes the entry of a server that this program started, or of its failure to start.
    pub(crate) fn started(name: &str, peer: &Result<Peer>) -> Self {
        let address = |peer: &Peer| Address { addr: format!("127.0.0.1:{}", peer.port()), pid: Some(peer.pid()) };
        Self { name: name.to_owned(), address: peer.as_ref().map(address).map_err(|error| format!("{error:#}")) }
    }

    /// Makes the entry of another port of a server that this program started.
    pub(crate) fn beside(name: &str, peer: &Result<Peer>, port: u16) -> Self {
        let mut server = Self::started(name, peer);
        if let Ok(address) = &mut server.address {
            address.addr = format!("127.0.0.1:{port}");
        }
        server
    }

    /// Returns `HOST:PORT`.
    ///
    /// # Errors
    /// The reason why the server did not start.
    pub(crate) fn addr(&self) -> Result<&str> {
        self.address.as_ref().map(|address| &*address.addr).map_err(|reason| anyhow!("{reason}"))
    }

    /// Returns the CPU seconds of its process's present threads, in nanoseconds, if the process is known.
    pub(crate) fn fine_cpu_s(&self) -> Result<Option<f64>> {
        self.pid().map(|pid| Ok(cpu_time(pid)?.as_secs_f64())).transpose()
    }

    /// Returns the CPU seconds of its process, in hundredths, if the process is known.
    pub(crate) fn cpu_s(&self) -> Result<Option<f64>> {
        self.pid().map(|pid| Ok(Usage::of(pid)?.cpu.as_secs_f64())).transpose()
    }

    fn pid(&self) -> Option<u32> {
        self.address.as_ref().ok()?.pid
    }
}

impl FromStr for ServerAt {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("NAME=HOST:PORT")?;
        let (addr, pid) = addr_and_pid(rest)?;
        ensure!(!name.is_empty() && addr.contains(':'), "NAME=HOST:PORT");
        Ok(Self { name: name.to_owned(), address: Ok(Address { addr: addr.to_owned(), pid }) })
    }
}

/// Splits `ADDR` or `ADDR#PID`.
pub(crate) fn addr_and_pid(text: &str) -> Result<(&str, Option<u32>)> {
    Ok(match text.split_once('#') {
        Some((addr, pid)) => (addr, Some(pid.parse().context("failed to parse the process id after #")?)),
        None => (text, None),
    })
}

/// Gives every server a turn in each pass. The first server changes from pass to pass; one that fails has no further
/// turn.
pub(crate) fn by_turns<T: Default>(
    servers: &[ServerAt],
    passes: usize,
    mut turn: impl FnMut(&ServerAt, usize, &mut T) -> Result<()>,
) -> Vec<Turns<T>> {
    indexes_by_turns(servers.len(), passes, |index, pass, figures, effort| {
        let server = &servers[index];
        effort.add(server, || turn(server, pass, figures))
    })
}

/// Gives turns by index, as [`by_turns`] does, where only a part of a turn is measured.
pub(crate) fn indexes_by_turns<T: Default>(
    count: usize,
    passes: usize,
    mut turn: impl FnMut(usize, usize, &mut T, &mut Effort) -> Result<()>,
) -> Vec<Turns<T>> {
    let mut all: Vec<Turns<T>> =
        (0..count).map(|_| Turns { figures: Ok(T::default()), effort: Effort::default() }).collect();
    for (pass, index) in turns(count, passes) {
        let Turns { figures, effort } = &mut all[index];
        let Ok(so_far) = figures else { continue };
        if let Err(error) = turn(index, pass, so_far, effort) {
            *figures = Err(error);
        }
    }
    all
}

/// Returns pass and index of each turn of `count` servers.
pub(crate) fn turns(count: usize, passes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..passes).flat_map(move |pass| (0..count).map(move |turn| (pass, (turn + pass) % count)))
}

impl Effort {
    /// Does `work` and adds the time it took.
    pub(crate) fn add<T>(&mut self, server: &ServerAt, work: impl FnOnce() -> Result<T>) -> Result<T> {
        server.addr()?;
        let (client, before, started) = (own_cpu().as_secs_f64(), server.cpu_s()?, Instant::now());
        let result = work();
        self.wall_s += started.elapsed().as_secs_f64();
        self.client_cpu_s += own_cpu().as_secs_f64() - client;
        // The CPU time of a server that ended is unknown.
        if let (Some(before), Ok(Some(after))) = (before, server.cpu_s()) {
            *self.server_cpu_s.get_or_insert_default() += after - before;
        }
        result
    }

    /// Returns the cell of the load generator's CPUs during the measurement.
    pub(crate) fn client_cpus(&self) -> Cell {
        Cell::number(self.client_cpu_s / self.wall_s)
    }

    pub(crate) fn server_cpu(&self) -> Cell {
        self.server_cpu_by(1.0)
    }

    /// Returns the cell of the server's CPUs during the measurement.
    pub(crate) fn server_cpus(&self) -> Cell {
        self.server_cpu_by(self.wall_s)
    }

    /// Returns the cell of the server's CPU time for each of `count`.
    pub(crate) fn server_cpu_by(&self, count: f64) -> Cell {
        self.server_cpu_s.map_or(Cell::Nothing, |cpu_s| Cell::number(cpu_s / count))
    }
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.wall_s += other.wall_s;
        self.client_cpu_s += other.client_cpu_s;
        if let Some(cpu_s) = other.server_cpu_s {
            *self.server_cpu_s.get_or_insert_default() += cpu_s;
        }
    }
}

/// Makes a table of CPU times, which shows whether the load generator was the bottleneck.
pub(crate) fn effort_table<T>(servers: &[ServerAt], all: &[Turns<T>]) -> Table {
    let columns = [
        ("wall time", Unit::Seconds),
        ("server CPU", Unit::Seconds),
        ("server", Unit::Cpus),
        ("load generator", Unit::Cpus),
    ];
    let meaning = "All turns of a server together, untimed requests included.";
    let mut table = Table::new("Time of the measurement", meaning, Layout::OneServer, columns);
    for (server, Turns { figures, effort }) in servers.iter().zip(all) {
        table.push_result(&server.name, figures, |_| {
            [Cell::number(effort.wall_s), effort.server_cpu(), effort.server_cpus(), effort.client_cpus()]
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_with_its_address_and_process() {
        let server: ServerAt = "ours=127.0.0.1:50001#12".parse().expect("well formed");
        assert_eq!((&*server.name, server.addr().expect("an address")), ("ours", "127.0.0.1:50001"));
        assert!("127.0.0.1:50001".parse::<ServerAt>().is_err() && "a=b".parse::<ServerAt>().is_err());
    }

    #[test]
    fn turns_alternate_and_a_failed_server_has_no_more() {
        let servers = ["a=h:1", "b=h:2", "c=h:3"].map(|text| text.parse::<ServerAt>().expect("well formed"));
        let mut asked = String::new();
        let all = by_turns(&servers, 3, |server, pass, turns: &mut usize| {
            asked += &server.name;
            *turns += 1;
            ensure!(server.name != "b" || pass == 0, "it ended");
            Ok(())
        });
        assert_eq!(asked, "abcbcaca");
        let figures: Vec<Option<usize>> = all.into_iter().map(|one| one.figures.ok()).collect();
        assert_eq!(figures, [Some(3), None, Some(3)]);
    }
}
