//! `birdhouse config`: the settings in effect with their origin, or an example of a configuration file.

use std::process::ExitCode;

use crate::config::{Options, Setting, UseInFile};
use crate::index::setup;

/// Prints the settings as TOML; the origin of each is a comment, and so are settings that are not set. A configuration
/// file with these lines has the same effect, but for secrets, which are hidden.
pub(crate) fn run(options: &Options, settings: &[Setting]) -> ExitCode {
    print!("{}", text(settings, &found(options)));
    ExitCode::SUCCESS
}

/// Returns what is found in the node's own configuration for settings that are not set.
fn found(options: &Options) -> Vec<(&'static str, String)> {
    let Ok(conf) = setup::node_conf(options) else { return Vec::new() };
    let network = options.network.is_none().then(|| ("network", conf.network.to_string()));
    let rpc = options.rpc_addr.is_none().then_some(("rpc-addr", conf.rpc_address));
    let zmq = options.zmq_sequence_addr.is_none().then_some(conf.zmq_sequence).flatten();
    network.into_iter().chain(rpc).chain(zmq.map(|addr| ("zmq-sequence-addr", addr))).collect()
}

fn text(settings: &[Setting], found: &[(&str, String)]) -> String {
    let mut text = String::new();
    for Setting { name, value, origin, use_in_file } in settings {
        let found = found.iter().find(|(setting, _)| setting == name && origin == "default");
        let line = match (found, value, use_in_file) {
            (Some((_, value)), ..) => format!("#{name} = {value:?}  # the node's configuration"),
            (None, Some(value), UseInFile::Same) => format!("{name} = {value}  # {origin}"),
            (None, Some(value), UseInFile::None) => format!("#{name} = {value}  # {origin}"),
            (None, None, _) => format!("#{name}  # not set"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_line_with_its_origin() {
        let setting = |name: &str, value: Option<&str>, origin: &str| Setting {
            name: name.into(),
            value: value.map(Into::into),
            origin: origin.into(),
            use_in_file: if origin == "default" { UseInFile::None } else { UseInFile::Same },
        };
        let settings = [
            setting("profile", Some("\"lean\""), "/etc/birdhouse.toml"),
            setting("network", Some("\"bitcoin\""), "default"),
            setting("banner", None, "default"),
        ];
        let expected = "profile = \"lean\"  # /etc/birdhouse.toml\n#network = \"regtest\"  # the node's configuration\n\
                        #banner  # not set\n";
        assert_eq!(text(&settings, &[("network", "regtest".into())]), expected);
    }
}
