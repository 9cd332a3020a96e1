//! Settings that do nothing in their combination.

use super::{ListenerKind, Options, RoleName, SilentPayments, Switch};

/// Settings of the transport of wallets and of the node, without effect where wallets are not served.
const BITCOIN_ONLY: [&str; 13] = [
    "node-dir",
    "node-prune-",
    "blocks-dir",
    "rpc-",
    "zmq-",
    "follow",
    "profile",
    "build-",
    "cache-mib",
    "reorg-depth-max",
    "electrum-",
    "public-host",
    "tor",
];

impl Options {
    /// Returns a warning for each group of settings that do nothing.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let given = self.given();
        let of = |is_meant: &dyn Fn(&str) -> bool| {
            let names: Vec<&str> = given.iter().map(String::as_str).filter(|name| is_meant(name)).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let mut warnings = Vec::new();
        let mut warn = |names: Option<String>, why: &str| {
            warnings.extend(names.map(|names| format!("without effect: {names}, because {why}")));
        };
        if !self.has(&[ListenerKind::Relay, ListenerKind::RelayTls]) {
            let why = "the relay is off; set relay-addr";
            warn(of(&|name| name == "stream" || name.starts_with("relay-")), why);
        }
        if !self.has(&[ListenerKind::WatchApi]) {
            let is_meant = |name: &str| name == "watch-api-token-file" || name == "watch-invoice-gap";
            warn(of(&is_meant), "the API for programs is off; set watch-api-addr");
        }
        if !self.has(&[ListenerKind::Blossom, ListenerKind::BlossomTls]) {
            warn(of(&|name| name.starts_with("blossom-")), "the media store is off; set blossom-addr");
        }
        if self.relay_plugin.is_none() {
            warn(of(&|name| name == "relay-plugin-broken"), "there is no relay-plugin");
        }
        if self.ops_addr.is_none() {
            warn(of(&|name| name.starts_with("ops-")), "the dashboard is off; set ops-addr");
        }
        if self.tor != Some(Switch::On) {
            warn(of(&|name| name == "tor-control-addr"), "tor is off");
        }
        if self.bitcoin == Some(Switch::Off) {
            let is_meant = |name: &str| BITCOIN_ONLY.iter().any(|prefix| name.starts_with(prefix));
            warn(of(&is_meant), "bitcoin is off");
        }
        if self.store.is_none() {
            warn(of(&|name| name == "role" || name.starts_with("store-")), "there is no cluster; set store");
        }
        if self.store.is_none() || self.role != Some(RoleName::Front) || self.has_bitcoin() {
            warn(of(&|name| name == "relay-writer"), "this process is no front end of a relay on a cluster");
        }
        if self.store.is_some() && self.bitcoin == Some(Switch::Off) {
            warn(of(&|name| name == "relay-search"), "a relay on a cluster has no full-text index");
        }
        if self.role == Some(RoleName::Front) || self.follow.is_some() {
            let has_no_cache = self.follow.is_none();
            let is_meant =
                |name: &str| name == "profile" || (name == "cache-mib" && has_no_cache) || name.starts_with("build-");
            warn(of(&is_meant), "another process writes the index");
        }
        if self.silent_payments != Some(SilentPayments::Full) {
            warn(of(&|name| name == "tweak-streams"), "tweaks need silent-payments = \"full\"");
        }
        if !self.has(&ListenerKind::WITH_TLS) {
            warn(of(&|name| name.starts_with("tls-")), "no listener uses TLS; set electrum-tls-addr");
        }
        if self.blocks_dir.is_some() && self.node_dir.is_none() {
            warn(
                of(&|name| name.starts_with("rpc-") || name.starts_with("zmq-")),
                "blocks-dir alone serves without a node; set node-dir as well",
            );
        }
        warnings
    }

    /// Returns `true` if a listener of one of these kinds is set.
    fn has(&self, kinds: &[ListenerKind]) -> bool {
        self.listeners().iter().any(|listener| kinds.contains(&listener.kind))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::parse_file;

    fn warnings(text: &str) -> Vec<String> {
        parse_file(text).unwrap().warnings()
    }

    #[test]
    fn settings_of_a_relay_that_is_off_do_nothing() {
        let text = "relay-name = 'Nest'\nrelay-url = 'wss://relay.example.org'\n";
        let expected = "without effect: relay-url, relay-name, because the relay is off; set relay-addr";
        assert_eq!(warnings(text), [expected]);
        assert_eq!(warnings(&format!("relay-addr = '127.0.0.1:7777'\n{text}")), [""; 0]);
        let table = "[[listener]]\nname = 'r'\nkind = 'relay'\naddr = '127.0.0.1:7777'\n";
        assert_eq!(warnings(&format!("{text}{table}")), [""; 0]);
    }

    #[test]
    fn other_settings_without_effect_are_named_with_the_reason() {
        for (text, expected) in [
            ("tls-cert = 'c'\ntls-key = 'k'", "without effect: tls-cert, tls-key, because no listener uses TLS"),
            ("relay-addr = '127.0.0.1:7777'\nbitcoin = 'off'\nrpc-user = 'a'", "rpc-user, because bitcoin is off"),
            ("blocks-dir = 'b'\nrpc-addr = 'h:1'", "rpc-addr, because blocks-dir alone"),
            ("silent-payments = 'scan'\ntweak-streams = 'v2'", "tweak-streams, because tweaks need silent-payments"),
            ("relay-addr = '127.0.0.1:7777'\nrelay-plugin-broken = 'accept'", "there is no relay-plugin"),
        ] {
            let found = warnings(text);
            assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        }
        for listener in
            ["electrum-tls-addr = '0.0.0.0'", "http-tls-addr = '0.0.0.0:443'", "rest-tls-addr = '0.0.0.0:443'"]
        {
            assert_eq!(warnings(&format!("{listener}\ntls-cert = 'c'\ntls-key = 'k'")), [""; 0]);
        }
    }
}
