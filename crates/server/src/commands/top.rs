//! `birdhouse top`: the state of a running server in a terminal, over its control socket.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use birdhouse_dashboard::{Status, Top, frame_text};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::Paragraph;

use super::ctl::ask;
use crate::config::ControlCommand;
use crate::operator::{Answer, ctl};

/// Interval of the frames.
const INTERVAL: Duration = Duration::from_secs(2);
/// Columns and rows of the frame that `--once` prints.
const ONCE: (u16, u16) = (110, 60);

/// Prints one frame about the server whose control socket lies in this folder.
pub(crate) fn print(dir: &Path) -> Result<ExitCode> {
    print!("{}", frame_text(&status(dir)?, ONCE.0, ONCE.1));
    Ok(ExitCode::SUCCESS)
}

/// Shows the server whose control socket lies in this folder.
pub(crate) fn run(dir: &Path) -> Result<ExitCode> {
    // A server that does not run is an error before the terminal changes.
    let status = status(dir)?;
    let mut terminal = ratatui::try_init().context("failed to use the terminal; `birdhouse top --once` needs none")?;
    let shown = show(&mut terminal, dir, status);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

fn show(terminal: &mut DefaultTerminal, dir: &Path, first: Status) -> Result<()> {
    let mut state = Ok(first);
    loop {
        terminal.draw(|frame| match &state {
            Ok(status) => frame.render_widget(Top(status), frame.area()),
            Err(error) => frame.render_widget(Paragraph::new(format!("{error:#}\n\nq quits")), frame.area()),
        })?;
        // A key or a new size is drawn at once, with the same figures.
        if event::poll(INTERVAL)? {
            match event::read()? {
                Event::Key(key) if quits(key) => return Ok(()),
                _ => continue,
            }
        }
        state = status(dir);
    }
}

fn quits(key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || is_interrupt)
}

fn status(dir: &Path) -> Result<Status> {
    match ask(&ctl::path(dir), &ControlCommand::Status)? {
        Answer::Ok(status) => {
            serde_json::from_value(status).context("failed to read the state; are server and top of the same version?")
        }
        Answer::Error(error) => bail!(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_interrupt_quit() {
        let key = |code, modifiers| quits(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE) && !key(KeyCode::Enter, KeyModifiers::NONE));
    }
}
