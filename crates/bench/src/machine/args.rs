//! Arguments that several subcommands share.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;

/// Returns a parser of numbers of at least 1.
pub(crate) fn at_least_one<T: TryFrom<u64> + Clone + Send + Sync>() -> RangedU64ValueParser<T>
where
    T::Error: std::error::Error + Send + Sync,
{
    RangedU64ValueParser::new().range(1..)
}

/// Returns the path of the server that was built or installed with this program.
pub(crate) fn default_birdhouse() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name("birdhouse")
}

/// Parses the arguments of a subcommand.
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) fn parsed<P: clap::Args>(words: &[&str]) -> P {
    let command = P::augment_args(clap::Command::new("plan").no_binary_name(true));
    P::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
}
