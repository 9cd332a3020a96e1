//! The command that every program runs for a notice, and the listener that hears of it.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Most notices that wait to be read.
const WAITING_MAX: usize = 100_000;

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct TellPlan {
    /// Listener of the measurement.
    addr: SocketAddr,
    /// Transaction of the notice; without it, the notice is JSON on the standard input.
    txid: Option<String>,
}

/// Passes a notice on to the listener.
pub(crate) fn tell(plan: &TellPlan) -> Result<()> {
    let txid = if let Some(txid) = &plan.txid {
        txid.clone()
    } else {
        let notice: Value = serde_json::from_reader(std::io::stdin())?;
        notice["data"]["txid"].as_str().context("the notice names no transaction")?.to_owned()
    };
    Ok(TcpStream::connect(plan.addr)?.write_all(txid.as_bytes())?)
}

/// Hears of notices, and remembers how often it heard of each transaction.
pub(super) struct Hook {
    addr: SocketAddr,
    heard: Receiver<(String, Instant)>,
    times: HashMap<String, u32>,
}

impl Hook {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let (sender, heard) = sync_channel(WAITING_MAX);
        // It ends with this program.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut txid, at) = (String::new(), Instant::now());
                if socket.is_ok_and(|mut socket| socket.read_to_string(&mut txid).is_ok())
                    && sender.send((txid, at)).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { addr, heard, times: HashMap::new() })
    }

    /// Returns the command line to run; `txid` is what the program puts the id of a transaction in place of.
    pub(super) fn command(&self, txid: Option<&str>) -> Result<Vec<String>> {
        let this = std::env::current_exe()?.display().to_string();
        Ok([this, "tell".to_owned(), self.addr.to_string()].into_iter().chain(txid.map(str::to_owned)).collect())
    }

    /// Returns the number of notices of a transaction.
    pub(super) fn times(&self, txid: &str) -> u32 {
        self.times.get(txid).copied().unwrap_or(0)
    }

    /// Returns the number of all notices.
    pub(super) fn total(&self) -> u32 {
        self.times.values().sum()
    }

    /// Waits for the next notice of a transaction; returns its moment.
    ///
    /// # Errors
    /// None comes in time.
    pub(super) fn wait_for(&mut self, txid: &str, patience: Duration) -> Result<Instant> {
        let until = Instant::now() + patience;
        while let Some((named, at)) = self.next(until)? {
            if named == txid {
                return Ok(at);
            }
        }
        bail!("no notice of {txid} within {} s", patience.as_secs())
    }

    /// Reads notices until none has come for this time.
    pub(super) fn settle(&mut self, quiet: Duration) -> Result<()> {
        while self.next(Instant::now() + quiet)?.is_some() {}
        Ok(())
    }

    fn next(&mut self, until: Instant) -> Result<Option<(String, Instant)>> {
        match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((txid, at)) => {
                *self.times.entry(txid.clone()).or_default() += 1;
                Ok(Some((txid, at)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the listener for notices has ended"),
        }
    }
}
