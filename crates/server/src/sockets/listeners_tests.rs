//! Listeners of flags and tables.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_electrum::ServerLimits;

use super::*;
use crate::sockets::protocols::RELAY;

fn planned(file: &str) -> Result<Vec<Plan>> {
    plan(&toml::from_str(file).unwrap(), Network::Regtest)
}

fn summary(plans: &[Plan]) -> Vec<(&str, Kind, String, Limits)> {
    plans.iter().map(|plan| (&*plan.name, plan.kind, plan.addr.to_string(), plan.limits.clone())).collect()
}

#[test]
fn when_nothing_is_said_plain_tcp_listens_on_loopback() {
    let plans = planned("").unwrap();
    assert_eq!(summary(&plans), [("tcp", Kind::Tcp, "127.0.0.1:60401".into(), Limits::private())]);
}

#[test]
fn simple_settings_name_the_usual_listeners_and_their_ports() {
    let plans = planned(
        "electrum-tls-addr = '0.0.0.0'\nelectrum-ws-addr = '127.0.0.1:9000'\nelectrum-wss-addr = '::'\n\
         tls-cert = 'c'\ntls-key = 'k'",
    )
    .unwrap();
    assert_eq!(
        summary(&plans),
        [
            ("tls", Kind::Tls, "0.0.0.0:60402".into(), Limits::public()),
            ("ws", Kind::Ws, "127.0.0.1:9000".into(), Limits::private()),
            ("wss", Kind::Wss, "[::]:60404".into(), Limits::public()),
        ]
    );
    assert_eq!(plans[0].tls_files, Some(("c".into(), "k".into())));
}

#[test]
fn tables_add_listeners() {
    let plans = planned(
        "electrum-addr = '127.0.0.1'\ntls-cert = 'c'\ntls-key = 'k'\n\
         [[listener]]\nname = 'onion'\nkind = 'tcp'\naddr = '127.0.0.1:50011'\nproxy-from = ['127.0.0.0/8']\n\
         [[listener]]\nname = 'mine'\nkind = 'ssl'\naddr = '10.0.0.1:50012'\nlimits = 'private'\n\
         tls-cert = 'c2'\ntls-key = 'k2'",
    )
    .unwrap();
    assert_eq!(
        summary(&plans),
        [
            ("tcp", Kind::Tcp, "127.0.0.1:60401".into(), Limits::private()),
            ("onion", Kind::Tcp, "127.0.0.1:50011".into(), Limits::public()),
            ("mine", Kind::Tls, "10.0.0.1:50012".into(), Limits::private()),
        ]
    );
    assert_eq!(plans[1].proxy_from.as_ref().unwrap()[0].to_string(), "127.0.0.0/8");
    assert_eq!(plans[2].tls_files, Some(("c2".into(), "k2".into())));
}

#[test]
fn the_relay_has_listeners_of_its_own_in_tls_and_behind_proxies() {
    let file = "relay-addr = '127.0.0.1:7777'\nrelay-tls-addr = '0.0.0.0:7778'\ntls-cert = 'c'\ntls-key = 'k'\n\
        [[listener]]\nname = 'onion'\nkind = 'relay'\naddr = '127.0.0.1:7779'\nproxy-from = ['127.0.0.0/8']\n\
        [[listener]]\nname = 'other'\nkind = 'relay-tls'\naddr = '[::]:7780'\ntls-cert = 'c2'\ntls-key = 'k2'\n\
        [[listener]]\nname = 'mine'\nkind = 'tcp'\naddr = '127.0.0.1:1'";
    let options = toml::from_str(file).unwrap();
    let plans = plan_of(&options, &RELAY).unwrap();
    let seen: Vec<_> = plans.iter().map(|plan| (&*plan.name, plan.kind, plan.addr.to_string())).collect();
    assert_eq!(
        seen,
        [
            ("relay", Kind::Ws, "127.0.0.1:7777".into()),
            ("relay-tls", Kind::Wss, "0.0.0.0:7778".into()),
            ("onion", Kind::Ws, "127.0.0.1:7779".into()),
            ("other", Kind::Wss, "[::]:7780".into()),
        ]
    );
    assert_eq!(plans[1].tls_files, Some(("c".into(), "k".into())));
    assert_eq!(plans[2].proxy_from.as_ref().unwrap()[0].to_string(), "127.0.0.0/8");
    assert_eq!(plans[3].tls_files, Some(("c2".into(), "k2".into())));
    assert_eq!(summary(&plan(&options, Network::Regtest).unwrap())[0].0, "mine", "and wallets have theirs");
    assert!(plan_of(&Options::default(), &RELAY).unwrap().is_empty());
    for wrong in ["addr = '::'", "addr = '[::]:7777'\nlimits = 'public'"] {
        let file = format!("[[listener]]\nname = 'x'\nkind = 'relay'\n{wrong}");
        assert!(plan_of(&toml::from_str(&file).unwrap(), &RELAY).is_err(), "{wrong}");
    }
    let twice = "relay-addr = '[::]:1'\n[[listener]]\nname = 'relay'\nkind = 'relay'\naddr = '[::]:2'";
    assert!(plan_of(&toml::from_str(twice).unwrap(), &RELAY).is_err(), "two of one name");
}

#[test]
fn each_profile_can_be_changed_where_it_says_so() {
    let file = "electrum-addr = '127.0.0.1'\nelectrum-tls-addr = '0.0.0.0'\n\
        [limits.public]\nclient-connections = 20\nidle-timeout = '10 min'\nclient-work = 'none'\n\
        [limits.private]\nmessage-bytes = 5000000\n\
        [limits.server]\nread-threads = 64\nshutdown-timeout = '1 s'";
    let plans = planned(file).unwrap();
    let private = Limits { message_bytes: 5_000_000, ..Limits::private() };
    let idle_timeout = std::time::Duration::from_mins(10);
    let public = Limits { client_connections: Some(20), idle_timeout, client_work: None, ..Limits::public() };
    assert_eq!([&plans[0].limits, &plans[1].limits], [&private, &public]);
    let server = toml::from_str::<Options>(file).unwrap().limits.unwrap().server();
    let shutdown_timeout = std::time::Duration::from_secs(1);
    assert_eq!(server, ServerLimits { read_threads: 64, shutdown_timeout, ..ServerLimits::default() });
}

#[test]
fn a_limit_that_cannot_be_is_refused_with_what_could() {
    let error = |file: &str| toml::from_str::<Options>(file).unwrap_err().to_string();
    assert!(error("[limits.public]\nidle-timeout = 30").contains("expected a time like"));
    assert!(error("[limits.public]\nhandshake-timeout = 'none'").contains("expected a time like"));
    assert!(error("[limits.server]\nnode-calls = 'none'").contains("expected a number"));
    assert!(error("[limits.public]\nclient_connections = 5").contains("unknown field"));
    assert!(error("[limits.mine]\nidle = '5 s'").contains("unknown field"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let twice = "[[listener]]\nname = 'tcp'\nkind = 'tcp'\naddr = '::1'\n";
    assert!(planned(&format!("electrum-addr = '127.0.0.1'\n{twice}")).is_err(), "two of one name");
    assert!(planned("electrum-tls-addr = '::'\ntls-cert = 'c'").is_err(), "a certificate without a key");
    assert!(toml::from_str::<Options>("electrum-addr = 'localhost'").is_err(), "a name");
    assert!(toml::from_str::<Options>("[[listener]]\nname = 'x'\nkind = 'quic'\naddr = '::'").is_err());
}

#[test]
fn public_hosts_are_announced_by_name() {
    let public: Vec<PublicHost> =
        ["tcp://Abc.onion", "ssl://e.example.org:443", "wss://e.example.org", "tcp://[2001:db8::1]:7"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
    let host = |name: &str| Host { name: name.into(), ..Host::default() };
    assert_eq!(
        hosts(&public, Network::Bitcoin),
        [
            Host { tcp_port: Some(50001), ..host("abc.onion") },
            Host { ssl_port: Some(443), wss_port: Some(50004), ..host("e.example.org") },
            Host { tcp_port: Some(7), ..host("2001:db8::1") },
        ]
    );
    for wrong in ["e.example.org:50002", "http://e.example.org", "ssl://", "ssl://e.example.org:x", "ssl://a/b"] {
        assert!(wrong.parse::<PublicHost>().is_err(), "{wrong}");
    }
}

#[test]
fn peers_are_asked_by_tcp_or_tls_on_the_internet_or_anywhere_on_a_private_chain() {
    let found = |urls: &[&str], network| {
        let peers: Vec<PublicHost> = urls.iter().map(|url| url.parse().unwrap()).collect();
        discovery(&peers, network)
    };
    let Discovery { seeds, scope } = found(&["ssl://e.example.org", "tcp://192.0.2.1:7"], Network::Bitcoin).unwrap();
    let host = |name: &str| Host { name: name.into(), ..Host::default() };
    let expected =
        [Host { ssl_port: Some(50002), ..host("e.example.org") }, Host { tcp_port: Some(7), ..host("192.0.2.1") }];
    assert_eq!((&seeds[..], scope), (&expected[..], PeerScope::Internet));
    assert_eq!(found(&[], Network::Regtest).unwrap(), Discovery { seeds: vec![], scope: PeerScope::Everywhere });
    assert!(found(&["wss://e.example.org"], Network::Bitcoin).is_err());
    assert!(found(&["tcp://abc.onion"], Network::Bitcoin).is_err());
}
