//! A private Apache Cassandra for tests: one node, or a cluster on one machine.
//!
//! `scripts/cassandra` runs each node and ends it when its standard input closes, so no node outlives the test, however
//! that ends. A machine without Java and the jars (`scripts/peers cassandra`) has no cluster; its tests say that they
//! are skipped.

#![forbid(unsafe_code)]

mod circumstances;
mod clock;
mod cut_off;
mod slow;

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::circumstances::Circumstances;
pub use self::clock::clock_library;
pub use self::cut_off::CutOff;
pub use self::slow::Slow;

/// The port of clients.
const PORT: u16 = 9042;
/// The longest wait for a node to answer, and for the nodes to know each other.
const START_PATIENCE: Duration = Duration::from_mins(5);
/// The pause between two looks at a node.
const LOOK: Duration = Duration::from_millis(100);
/// Message of a node that made its first role.
const FIRST_ROLE: &str = "Created default superuser role";
/// Heap of a node's virtual machine.
const HEAP: &str = "384m";

/// A running cluster. Dropping it kills its nodes and removes their data.
#[derive(Debug)]
pub struct Cassandra {
    nodes: Vec<Node>,
    /// First three bytes of the addresses.
    network: [u8; 3],
    folder: TempDir,
}

#[derive(Debug)]
struct Node {
    /// The script that runs the node; it ends when this is dropped.
    script: Option<Child>,
    circumstances: Circumstances,
}

/// A node of a cluster, counted from 0.
pub type NodeNumber = usize;

/// Returns the folder of Cassandra's jars; `None` if this machine lacks them, or Java.
pub fn installed() -> Option<PathBuf> {
    let given = std::env::var_os("CASSANDRA_LIB").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let found = given.or_else(|| Some(cache?.join("birdhouse/cassandra-5.0.9/lib")))?;
    let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    (found.is_dir() && java.is_ok_and(|status| status.success())).then_some(found)
}

/// Reports on the terminal, and in the summary of `make test`, that a test was skipped for want of Cassandra.
pub fn report_skipped(test: &str) {
    let line = format!("{test}: skipped, because Java or Cassandra is missing (scripts/peers cassandra installs it)");
    println!("{line}");
    let Some(path) = std::env::var_os("TEST_PEER_FAULTS") else { return };
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    // The report is for people; a test does not fail because it cannot be written.
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}

impl Cassandra {
    /// Starts a cluster and waits until clients can connect to each node; `None` if this machine has no Cassandra.
    ///
    /// # Errors
    /// Failures of the operating system, and nodes that do not answer in time.
    pub fn start(nodes: u8) -> io::Result<Option<Self>> {
        Self::start_with(nodes, |_| Ok(Circumstances::default()))
    }

    /// Starts one node whose clients must encrypt their connections, and log in: first as `cassandra`, with this word
    /// as the password, too. `certificate` returns a certificate for an address, and its key (PKCS #8), as PEM.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_secured(certificate: impl FnOnce(&str) -> String) -> io::Result<Option<Self>> {
        let mut certificate = Some(certificate);
        let secured = Self::start_with(1, |cluster| {
            let pem = cluster.folder.path().join("node.pem");
            let make = certificate.take().expect("there is one node");
            fs::write(&pem, make(&cluster.address(0)))?;
            Ok(Circumstances { pem: Some(pem), ..Circumstances::default() })
        })?;
        let Some(cluster) = secured else { return Ok(None) };
        let began = Instant::now();
        while !cluster.log(0).contains(FIRST_ROLE) {
            if began.elapsed() > START_PATIENCE {
                return Err(io::Error::other(format!("the node has no role: {}", cluster.log(0))));
            }
            sleep(LOOK);
        }
        Ok(Some(cluster))
    }

    fn start_with(
        nodes: u8,
        mut circumstances: impl FnMut(&Self) -> io::Result<Circumstances>,
    ) -> io::Result<Option<Self>> {
        let Some(lib) = installed() else { return Ok(None) };
        let mut cluster = Self { nodes: Vec::new(), network: network(), folder: TempDir::new()? };
        for number in 0..nodes {
            let own = circumstances(&cluster)?;
            let node = cluster.launch(&lib, number.into(), nodes.into(), own)?;
            cluster.nodes.push(node);
        }
        (0..usize::from(nodes)).try_for_each(|number| cluster.wait_for(number))?;
        Ok(Some(cluster))
    }

    /// Addresses of the nodes, with commas.
    pub fn hosts(&self) -> String {
        let hosts: Vec<_> = (0..self.nodes.len()).map(|number| self.address(number)).collect();
        hosts.join(",")
    }

    /// Kills a node (`SIGKILL`).
    ///
    /// # Errors
    /// Failures of the operating system.
    pub fn kill(&mut self, number: NodeNumber) -> io::Result<()> {
        self.signal(number, "KILL")?;
        self.nodes[number].end()
    }

    /// Stops a node without ending it (`SIGSTOP`).
    ///
    /// # Errors
    /// Failures of the operating system.
    pub fn pause(&self, number: NodeNumber) -> io::Result<()> {
        self.signal(number, "STOP")
    }

    /// Lets a paused node go on.
    ///
    /// # Errors
    /// Failures of the operating system.
    pub fn resume(&self, number: NodeNumber) -> io::Result<()> {
        self.signal(number, "CONT")
    }

    /// Cuts a node off: nothing reaches it, and nothing that it sends reaches anybody. `None` where this process may
    /// not change the firewall, or `nft` is missing.
    ///
    /// # Errors
    /// Failures of the operating system.
    pub fn cut_off(&self, number: NodeNumber) -> io::Result<Option<CutOff>> {
        let [a, b, c] = self.network;
        CutOff::of(Ipv4Addr::new(a, b, c, last_byte(number)), PORT)
    }

    /// Slows a node down: it runs for a few hundredths of the time, and is stopped meanwhile, until this is dropped.
    ///
    /// # Errors
    /// The node was never started.
    pub fn slow_down(&self, number: NodeNumber) -> io::Result<Slow> {
        Ok(Slow::of(self.pid(number)?))
    }

    /// Starts a killed node again, with its data, its disk and its clock.
    ///
    /// # Errors
    /// Failures of the operating system, and a node that does not answer in time.
    pub fn restart(&mut self, number: NodeNumber) -> io::Result<()> {
        let lib = installed().ok_or_else(|| io::Error::other("Cassandra was there before"))?;
        let circumstances = self.nodes[number].circumstances.clone();
        self.nodes[number] = self.launch(&lib, number, self.nodes.len(), circumstances)?;
        self.wait_for(number)
    }

    /// Starts a killed node again, whose clock is some seconds ahead of the machine's, or behind.
    ///
    /// # Errors
    /// As [`Self::restart`], and those of [`clock_library`].
    pub fn restart_with_clock(&mut self, number: NodeNumber, ahead_s: i64) -> io::Result<()> {
        let library = clock_library(&self.folder_of(number), ahead_s)?;
        self.nodes[number].circumstances.clock = Some(library);
        self.restart(number)
    }

    /// Starts a killed node again, with its data on a disk of its own of some mebibytes. Returns false if this process
    /// may not mount one.
    ///
    /// # Errors
    /// As [`Self::restart`].
    pub fn restart_on_small_disk(&mut self, number: NodeNumber, mebibytes: u64) -> io::Result<bool> {
        let folder = self.folder_of(number);
        let Some(disk) = circumstances::small_disk(&folder, &self.data_dir(number), mebibytes)? else {
            return Ok(false);
        };
        self.nodes[number].circumstances.disk = Some(disk);
        self.restart(number).map(|()| true)
    }

    /// Folder of a node's data, as the node sees it.
    pub fn data_dir(&self, number: NodeNumber) -> PathBuf {
        self.folder_of(number).join("data")
    }

    /// Process id of a node's virtual machine.
    ///
    /// # Errors
    /// The node was never started.
    pub fn pid(&self, number: NodeNumber) -> io::Result<u32> {
        let text = fs::read_to_string(self.folder_of(number).join("pid"))?;
        text.trim().parse().map_err(|_| io::Error::other(format!("{text:?} is no process id")))
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Log of a node.
    pub fn log(&self, number: NodeNumber) -> String {
        let path = self.folder_of(number).join("log/system.log");
        fs::read_to_string(path).unwrap_or_default()
    }

    fn launch(&self, lib: &Path, number: NodeNumber, nodes: usize, circumstances: Circumstances) -> io::Result<Node> {
        let seeds: Vec<_> = (0..nodes).map(|number| self.address(number)).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra");
        let child = Command::new(script)
            .arg(self.folder_of(number))
            .args([&self.address(number), &seeds.join(","), &token(number, nodes).to_string(), HEAP])
            .env("CASSANDRA_LIB", lib)
            .envs(circumstances.envs())
            .stdin(Stdio::piped())
            .spawn()?;
        Ok(Node { script: Some(child), circumstances })
    }

    /// Waits until a node accepts clients and knows that the others are up.
    fn wait_for(&self, number: NodeNumber) -> io::Result<()> {
        let began = Instant::now();
        let others = self.nodes.len() - 1;
        loop {
            let is_open = TcpStream::connect((self.address(number).as_str(), PORT)).is_ok();
            if is_open && self.log(number).matches("is now UP").count() >= others {
                return Ok(());
            }
            if began.elapsed() > START_PATIENCE {
                return Err(io::Error::other(format!("node {number} did not start: {}", self.log(number))));
            }
            sleep(LOOK);
        }
    }

    fn signal(&self, number: NodeNumber, signal: &str) -> io::Result<()> {
        let process = self.pid(number)?;
        let sent = Command::new("kill").args(["-s", signal, &process.to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err(io::Error::other(format!("failed to send SIG{signal} to {process}"))) }
    }

    fn address(&self, number: NodeNumber) -> String {
        let [a, b, c] = self.network;
        format!("{a}.{b}.{c}.{}", last_byte(number))
    }

    fn folder_of(&self, number: NodeNumber) -> PathBuf {
        self.folder.path().join(format!("node{number}"))
    }
}

impl Node {
    /// Ends the script, which kills the node.
    fn end(&mut self) -> io::Result<()> {
        let Some(mut script) = self.script.take() else { return Ok(()) };
        drop(script.stdin.take());
        script.wait().map(drop)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nothing can be done about a script that cannot be waited for.
        let _ = self.end();
    }
}

/// A loopback network of this process: all nodes of a cluster share their ports.
fn network() -> [u8; 3] {
    static CLUSTERS: AtomicU8 = AtomicU8::new(0);
    let process = std::process::id().to_le_bytes();
    [127, 64 | process[1] & 63, process[0].wrapping_add(CLUSTERS.fetch_add(1, Ordering::Relaxed))]
}

fn last_byte(number: NodeNumber) -> u8 {
    u8::try_from(number + 1).expect("a cluster of tests has few nodes")
}

/// The token of a node: the nodes divide the ring evenly.
fn token(number: NodeNumber, nodes: usize) -> i128 {
    i128::from(i64::MIN) + (number as i128) * (1_i128 << 64) / (nodes as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_divide_the_ring() {
        assert_eq!(token(0, 1), i64::MIN.into());
        assert_eq!(
            [0, 1, 2].map(|number| token(number, 3)),
            [-9_223_372_036_854_775_808, -3_074_457_345_618_258_603, 3_074_457_345_618_258_602]
        );
    }
}
