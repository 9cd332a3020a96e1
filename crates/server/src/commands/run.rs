//! `birdhouse run`: builds the index if needed, follows the node, and serves wallets, the relay or both until a signal.

use std::process::ExitCode;

use anyhow::Result;

use crate::app::{self, App};
use crate::config::{Options, Switch};
use crate::process::{Level, Shutdown, Signals, private};

/// Runs the server. `flags` are the settings without those of the configuration file, which SIGHUP reads again.
pub(crate) fn run(signals: &Signals, flags: Options, options: &Options, level: Level) -> Result<ExitCode> {
    if options.core_dumps != Some(Switch::On) {
        private::forbid_dumps()?;
    }
    let app = App { signals: signals.clone(), flags, ..App::open(options)? };
    let stopped = async {
        signals.stopped().await;
        Ok(())
    };
    app::serve(&app, &Shutdown::default(), level, |_| {}, stopped)?;
    Ok(ExitCode::SUCCESS)
}
