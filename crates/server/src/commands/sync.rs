//! `birdhouse sync`: exchanges events with another relay, by the running server, or by this process if none runs.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use birdhouse_dial::Guard;
use birdhouse_mirror::{Purpose, Tally};
use birdhouse_relay::RuleBook;
use tokio::sync::mpsc;

use crate::app;
use crate::commands::beside;
use crate::config::{ControlCommand, Options, SyncRequest};
use crate::operator::ctl;
use crate::operator::exchange::{Line, REPORTS_WAITING, Synced, synchronize};
use crate::process::users::OtherUser;
use crate::services::{self, relay, rules};

/// Time between two lines about the progress where they are not on a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Prints reports: counts on standard error, ids on standard output.
struct Printer {
    printed: Option<Instant>,
    is_terminal: bool,
}

/// Exchanges events with another relay.
pub(crate) fn run(options: &Options, request: SyncRequest) -> Result<ExitCode> {
    let request = SyncRequest { key_file: request.key_file.map(std::path::absolute).transpose()?, ..request };
    let mut printer = Printer { printed: None, is_terminal: std::io::stderr().is_terminal() };
    let synced = match app::relay_ctl_dir(options)? {
        Some(dir) => by_server(&ctl::path(&dir), &request, &mut printer)?,
        None => by_this_process(options, &request, &mut printer)?,
    };
    printer.end();
    eprintln!("{}", synced.tally);
    match synced.failure {
        None if refuses(&request, &synced.tally) => Ok(ExitCode::FAILURE),
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            bail!("{why}; run the command again: it goes on with what is missing")
        }
    }
}

/// True if one side lacks events after the transfer, though it should have them.
fn refuses(request: &SyncRequest, tally: &Tally) -> bool {
    request.purpose != Purpose::List
        && tally.refused_here.unexpected() + tally.refused_there.total() + tally.withheld > 0
}

fn by_server(socket: &Path, request: &SyncRequest, printer: &mut Printer) -> Result<Synced> {
    let stream = beside::begin(socket, &ControlCommand::Sync(request.clone()))?;
    let synced = beside::result(stream, |line| printer.print(line))?;
    synced.context("the server has ended; start it, and run the command again: it goes on with what is missing")
}

fn by_this_process(options: &Options, request: &SyncRequest, printer: &mut Printer) -> Result<Synced> {
    OtherUser::refuse(&options.data_dir()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let rules = RuleBook::open(relay::folder(options)?.join(rules::FILE))?;
        let relay = relay::unserved(options, rules)?;
        let guard = Guard::new(services::refused(options, None));
        let (reports, mut lines) = mpsc::channel(REPORTS_WAITING);
        let printing = async move {
            while let Some(line) = lines.recv().await {
                printer.print(&line)?;
            }
            Ok(())
        };
        let (synced, printed) = tokio::join!(synchronize(&relay, &guard, request, reports), printing);
        printed.and(synced)
    })
}

impl Printer {
    fn print(&mut self, line: &Line<Synced>) -> Result<()> {
        match line {
            Line::Missing(id) => writeln!(std::io::stdout().lock(), "{id}")?,
            Line::Progress(tally) => self.progress(tally),
            Line::Ok(_) | Line::Error(_) => {}
        }
        Ok(())
    }

    fn progress(&mut self, tally: &Tally) {
        let now = Instant::now();
        if self.is_terminal {
            eprint!("\r\x1b[K{}", tally.line());
        } else if self.printed.is_some_and(|printed| now - printed >= LINE_INTERVAL) {
            eprintln!("{}", tally.line());
        } else if self.printed.is_some() {
            return;
        }
        self.printed = Some(now);
    }

    /// Ends the line of the progress.
    fn end(&self) {
        if self.is_terminal && self.printed.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
