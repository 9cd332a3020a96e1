//! An Electrum server at an address: the load generators know no more of whom they ask.

use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::usage::Usage;

use crate::process::{cpu_of_this, cpu_time};
use crate::record::{Cell, Layout, Table, Unit};

/// Who is measured: `NAME=HOST:PORT`, or `NAME=HOST:PORT#PID` for its CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAt {
    pub(crate) name: String,
    place: Result<Place, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// `HOST:PORT`.
    addr: String,
    pid: Option<u32>,
}

/// What measuring one server took, all turns together.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_field_names, reason = "quantities carry units")]
pub(crate) struct Effort {
    pub(crate) wall_s: f64,
    pub(crate) client_cpu_s: f64,
    /// Unknown where the server's process is not named.
    pub(crate) server_cpu_s: Option<f64>,
}

/// What a server's turns gave.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    pub(crate) figures: Result<T>,
    pub(crate) effort: Effort,
}

impl ServerAt {
    /// A server that was started here, or the reason why it could not be.
    pub(crate) fn started(name: &str, peer: &Result<Peer>) -> Self {
        let place = |peer: &Peer| Place { addr: format!("127.0.0.1:{}", peer.port()), pid: Some(peer.pid()) };
        Self { name: name.to_owned(), place: peer.as_ref().map(place).map_err(|error| format!("{error:#}")) }
    }

    /// `HOST:PORT`; the reason why it could not be started, if so.
    pub(crate) fn addr(&self) -> Result<&str> {
        self.place.as_ref().map(|place| &*place.addr).map_err(|reason| anyhow!("{reason}"))
    }

    /// CPU seconds of its process's present threads so far, to the nanosecond, if that is known.
    pub(crate) fn fine_cpu_s(&self) -> Result<Option<f64>> {
        self.pid().map(|pid| Ok(cpu_time(pid)?.as_secs_f64())).transpose()
    }

    /// CPU seconds of its process so far, in hundredths, if that is known.
    pub(crate) fn cpu_s(&self) -> Result<Option<f64>> {
        self.pid().map(|pid| Ok(Usage::of(pid)?.cpu.as_secs_f64())).transpose()
    }

    fn pid(&self) -> Option<u32> {
        self.place.as_ref().ok()?.pid
    }
}

impl FromStr for ServerAt {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("NAME=HOST:PORT")?;
        let (addr, pid) = addr_and_pid(rest)?;
        ensure!(!name.is_empty() && addr.contains(':'), "NAME=HOST:PORT");
        Ok(Self { name: name.to_owned(), place: Ok(Place { addr: addr.to_owned(), pid }) })
    }
}

/// Takes `ADDR` or `ADDR#PID` apart.
pub(crate) fn addr_and_pid(text: &str) -> Result<(&str, Option<u32>)> {
    Ok(match text.split_once('#') {
        Some((addr, pid)) => (addr, Some(pid.parse().context("a process is named by its number")?)),
        None => (text, None),
    })
}

/// Every server has a turn in each pass; who is first changes from pass to pass. One that fails has no further turn.
pub(crate) fn by_turns<T: Default>(
    servers: &[ServerAt],
    passes: usize,
    mut turn: impl FnMut(&ServerAt, usize, &mut T) -> Result<()>,
) -> Vec<Turns<T>> {
    places_by_turns(servers.len(), passes, |place, pass, figures, effort| {
        let server = &servers[place];
        effort.add(server, || turn(server, pass, figures))
    })
}

/// As [`by_turns`], of so many servers by their places, where a turn is more than is measured of it.
pub(crate) fn places_by_turns<T: Default>(
    count: usize,
    passes: usize,
    mut turn: impl FnMut(usize, usize, &mut T, &mut Effort) -> Result<()>,
) -> Vec<Turns<T>> {
    let mut all: Vec<Turns<T>> =
        (0..count).map(|_| Turns { figures: Ok(T::default()), effort: Effort::default() }).collect();
    for (pass, place) in turns(count, passes) {
        let Turns { figures, effort } = &mut all[place];
        let Ok(so_far) = figures else { continue };
        if let Err(error) = turn(place, pass, so_far, effort) {
            *figures = Err(error);
        }
    }
    all
}

/// Pass and place of each turn of `count` servers.
pub(crate) fn turns(count: usize, passes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..passes).flat_map(move |pass| (0..count).map(move |turn| (pass, (turn + pass) % count)))
}

impl Effort {
    /// Does something, and adds what it took.
    pub(crate) fn add<T>(&mut self, server: &ServerAt, work: impl FnOnce() -> Result<T>) -> Result<T> {
        server.addr()?;
        let (client, before, started) = (cpu_of_this()?, server.cpu_s()?, Instant::now());
        let result = work();
        self.wall_s += started.elapsed().as_secs_f64();
        self.client_cpu_s += cpu_of_this()? - client;
        // A server that ended has no more CPU time to tell.
        if let (Some(before), Ok(Some(after))) = (before, server.cpu_s()) {
            *self.server_cpu_s.get_or_insert_default() += after - before;
        }
        result
    }

    /// The load generator's share of one CPU while it measured.
    pub(crate) fn client_cpus(&self) -> Cell {
        Cell::number(self.client_cpu_s / self.wall_s)
    }

    pub(crate) fn server_cpu(&self) -> Cell {
        self.server_cpu_by(1.0)
    }

    /// The server's share of one CPU meanwhile.
    pub(crate) fn server_cpus(&self) -> Cell {
        self.server_cpu_by(self.wall_s)
    }

    /// The server's CPU time for each of so many.
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

/// A table that tells whether the load generator was in the way.
pub(crate) fn effort_table<T>(servers: &[ServerAt], all: &[Turns<T>]) -> Table {
    let columns = [
        ("asked for", Unit::Seconds),
        ("server CPU", Unit::Seconds),
        ("server", Unit::Cpus),
        ("load generator", Unit::Cpus),
    ];
    let meaning = "All turns of a server together, with what is not timed.";
    let mut table = Table::new("What it took", meaning, Layout::OneServer, columns);
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
    fn turns_alternate_and_who_fails_has_no_more() {
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
