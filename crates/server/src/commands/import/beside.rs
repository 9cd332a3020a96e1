//! Import and export by a running server, over its control socket.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, bail};

use super::lines::STANDARD;
use crate::commands::beside::{begin, parse, result};
use crate::config::ControlCommand;
use crate::operator::exchange::{Imported, Line};

/// Beginnings of the server's last line, which no event has.
const ENDS: [&[u8]; 2] = [b"{\"ok\":", b"{\"error\":"];

/// Has the server store the events of a file.
pub(super) fn import(socket: &Path, file: &Path) -> Result<Imported> {
    let mut lines: Box<dyn Read + Send> = if file == Path::new(STANDARD) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).with_context(|| format!("failed to read {}", file.display()))?)
    };
    let stream = begin(socket, &ControlCommand::Import)?;
    let mut to = stream.try_clone()?;
    // Its failure is the server's end, which its answer explains. It ends with this process.
    thread::spawn(move || {
        let _ = io::copy(&mut lines, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let imported = result(stream, |_| Ok(()))?;
    imported.context("the server has ended; events that it has stored are skipped when the import is run again")
}

/// Has the server write all events.
pub(super) fn export(socket: &Path, out: &mut dyn Write) -> Result<()> {
    let mut stream = BufReader::new(begin(socket, &ControlCommand::Export)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if stream.read_until(b'\n', &mut line).context("failed to read the server's answer")? == 0 {
            bail!("the server has ended before the last event");
        }
        if !ENDS.iter().any(|end| line.starts_with(end)) {
            out.write_all(&line).context("failed to write the events")?;
            continue;
        }
        out.flush().context("failed to write the events")?;
        match parse::<()>(&line)? {
            Line::Error(why) => bail!(why),
            _ => return Ok(()),
        }
    }
}
