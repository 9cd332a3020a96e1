//! A campaign: every way of breaking the server, in pieces, until the volumes are reached or the time is over. Seeded
//! and resumable; its report says what was reached.

mod page;
mod parts;
mod relay_kills;
mod state;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use self::parts::{PARTS, Part};
pub(crate) use self::relay_kills::{WriterPlan, run_writer};
use self::state::{PartState, State};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Folder of the state, the logs of failures and the report. A campaign that is there goes on.
    #[arg(long)]
    work: PathBuf,
    /// Hours after which no further piece begins [default: until the volumes are reached].
    #[arg(long)]
    hours: Option<f64>,
    /// Fraction of the full volumes.
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Seed of the first piece of each part.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Parts to run [default: all].
    #[arg(long, value_delimiter = ',', value_parser = PARTS.map(|part| part.name))]
    parts: Vec<String>,
}

/// Runs a campaign. Fails if a part has failed.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    ensure!(plan.share > 0.0, "--share must be above 0");
    std::fs::create_dir_all(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let (path, began) = (plan.work.join("state.json"), Instant::now());
    let mut state = State::read(&path)?;
    let is_chosen = |part: &&Part| plan.parts.is_empty() || plan.parts.iter().any(|name| name == part.name);
    let parts: Vec<&Part> = PARTS.iter().filter(is_chosen).collect();
    let is_time_over = || plan.hours.is_some_and(|hours| began.elapsed().as_secs_f64() > hours * 3600.0);
    while !is_time_over()
        && let Some((part, volume)) = next(&parts, &state, plan.share)
    {
        let first_seed = state.part(part.name).next_seed.max(plan.seed);
        println!("{}: {volume} {} from seed {first_seed} on", part.name, part.unit);
        let start = Instant::now();
        let progress = part.run(first_seed, volume, &plan.work)?;
        progress.failures.iter().for_each(|failure| println!("{} FAILED: {failure}", part.name));
        state.add(part.name, progress, start.elapsed());
        state.write(&path)?;
        std::fs::write(plan.work.join("report.md"), page::report(&PARTS, &state, plan.share))?;
    }
    println!("{}", page::report(&PARTS, &state, plan.share));
    let failed: Vec<&str> = state.parts.iter().filter(|(_, part)| part.has_failed()).map(|(name, _)| &**name).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Returns the part that lags most, and the volume of its next piece. A part that failed is not gone on with.
fn next<'a>(parts: &[&'a Part], state: &State, share: f64) -> Option<(&'a Part, u64)> {
    let left = |part: &&&'a Part| {
        let so_far = state.part(part.name);
        !so_far.has_failed() && so_far.done < part.wanted(share)
    };
    let lagging = *parts.iter().filter(left).min_by(|one, other| {
        let reached = |part: &Part| state.part(part.name).reached(part.wanted(share));
        reached(one).total_cmp(&reached(other))
    })?;
    let missing = lagging.wanted(share) - state.part(lagging.name).done;
    // A piece has a least volume: tests make sure that what they mean to hit was hit.
    Some((lagging, if missing < 2 * lagging.piece { missing.max(lagging.piece) } else { lagging.piece }))
}

impl Part {
    /// Returns the volume to reach.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "far below 2^53"
    )]
    fn wanted(&self, share: f64) -> u64 {
        (self.volume as f64 * share).ceil() as u64
    }
}

impl PartState {
    fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Returns the fraction of a volume that passed.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn reached(&self, wanted: u64) -> f64 {
        self.done as f64 / wanted.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::state::Progress;
    use super::*;

    fn add(state: &mut State, name: &str, done: u64, failures: &[&str]) {
        let failures = failures.iter().map(|failure| (*failure).to_owned()).collect();
        state.add(name, Progress { done, failures, ..Progress::default() }, Duration::from_secs(1));
    }

    #[test]
    fn the_part_that_lags_most_is_next_until_its_volume_is_reached() {
        let part = |name, volume, piece| Part { name, volume, piece, ..PARTS[0] };
        let (one, other) = (part("one", 1000, 100), part("other", 10, 4));
        let (parts, mut state) = ([&one, &other], State::default());
        let name = |next: Option<(&Part, u64)>| next.map(|(part, volume)| (part.name, volume));
        assert_eq!(name(next(&parts, &state, 1.0)), Some(("one", 100)));
        add(&mut state, "one", 100, &[]);
        assert_eq!(name(next(&parts, &state, 1.0)), Some(("other", 4)));
        add(&mut state, "other", 4, &[]);
        assert_eq!(name(next(&parts, &state, 1.0)), Some(("one", 100)), "a tenth, and two fifths");
        add(&mut state, "one", 750, &[]);
        assert_eq!(name(next(&parts, &state, 1.0)), Some(("other", 6)), "the rest is one piece");
        assert_eq!(name(next(&parts, &state, 0.1)), None);
        add(&mut state, "other", 6, &[]);
        assert_eq!(name(next(&parts, &state, 1.0)), Some(("one", 150)));
        add(&mut state, "one", 0, &["seed 9"]);
        assert_eq!(name(next(&parts, &state, 1.0)), None);
    }
}
