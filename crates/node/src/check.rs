//! The check at start: is this the right node, and is it ready?
//!
//! The check is a pure function of two answers. The blocks that the node has are compared with an index by
//! [`KeptBlocks::check`]. Waiting helps when the error is `Transient`.

use birdhouse_chain::source::SourceResult;
use bitcoin::Network;
use serde::Deserialize;
use serde_json::json;

use crate::blk::{network_flag, unserved_chain};
use crate::conf::network_named;
use crate::error::{permanent, transient};
use crate::gaps::ChainStates;
use crate::pruning::{KeptBlocks, PruneInfo};
use crate::rpc::{Rpc, to_source_error};

/// The oldest version with every required call (`getblock 3`), in the notation of `getnetworkinfo`.
const VERSION_MIN: u32 = 230_000;

/// A node's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// The version in the notation of `getnetworkinfo`: 310000 is 31.0.
    pub version: u32,
    /// The user agent: `/Satoshi:31.0.0/`.
    pub user_agent: String,
    /// The height of its tip.
    pub blocks: u32,
    /// The blocks that it keeps.
    pub kept: KeptBlocks,
}

#[derive(Deserialize)]
struct ChainInfo {
    chain: String,
    blocks: u32,
    #[serde(flatten)]
    pruning: PruneInfo,
}

#[derive(Deserialize)]
struct NetworkInfo {
    version: u32,
    #[serde(default)]
    subversion: String,
}

/// Checks version, network and UTXO snapshot of the node. One that downloads the chain is ready: every block up to its
/// tip can be read. The blocks that it keeps are for [`KeptBlocks::check`], because those that the index has are not
/// needed.
///
/// # Errors
/// The first unmet requirement, with advice.
pub fn check_node(rpc: &Rpc, network: Network) -> SourceResult<NodeFacts> {
    let net: NetworkInfo = rpc.call("getnetworkinfo", &json!([])).map_err(to_source_error)?;
    let chain: ChainInfo = rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
    let facts = check(rpc.address(), &chain, net, network)?;
    match ChainStates::of(rpc)?.unfinished() {
        Some(unfinished) => Err(transient(format!("{unfinished} (node at {})", rpc.address()))),
        None => Ok(facts),
    }
}

fn check(address: &str, chain: &ChainInfo, net: NetworkInfo, wanted: Network) -> SourceResult<NodeFacts> {
    match network_named(&chain.chain) {
        Some(network) if network == wanted => {}
        Some(other) => {
            return Err(permanent(format!(
                "the node at {address} is of the network {}, not {}; choose --network {}, or another node",
                chain.chain,
                network_flag(wanted),
                network_flag(other)
            )));
        }
        None => {
            return Err(permanent(format!("failed to use the node at {address}: {}", unserved_chain(&chain.chain))));
        }
    }
    if net.version < VERSION_MIN {
        return Err(permanent(format!(
            "the node at {address} ({}) is too old; upgrade it to Bitcoin Core 23 or later",
            net.subversion
        )));
    }
    Ok(NodeFacts { version: net.version, user_agent: net.subversion, blocks: chain.blocks, kept: chain.pruning.kept() })
}

#[derive(Deserialize)]
struct Announced {
    #[serde(default)]
    localaddresses: Vec<LocalAddress>,
}

#[derive(Deserialize)]
struct LocalAddress {
    port: u16,
}

/// Asks the node for the ports that it announces to its peers.
///
/// # Errors
/// The node does not answer.
pub fn announced_ports(rpc: &Rpc) -> SourceResult<Vec<u16>> {
    let Announced { localaddresses } = rpc.call_quick("getnetworkinfo", &json!([])).map_err(to_source_error)?;
    Ok(localaddresses.into_iter().map(|local| local.port).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_chain::Height;
    use birdhouse_chain::source::SourceErrorKind;

    use super::*;
    use crate::pruning::PruneMode;

    fn verdict(chain: &str, version: u32, wanted: Network) -> SourceResult<NodeFacts> {
        let chain = serde_json::from_str(chain).unwrap();
        check("node:1", &chain, NetworkInfo { version, subversion: "/Satoshi/".into() }, wanted)
    }

    #[test]
    fn ready_node_passes() {
        let facts = verdict(r#"{"chain":"main","blocks":7,"headers":7}"#, 310_000, Network::Bitcoin).unwrap();
        let kept = KeptBlocks { mode: PruneMode::Off, first: Height(0), headers: Height(7) };
        assert_eq!(facts, NodeFacts { version: 310_000, user_agent: "/Satoshi/".into(), blocks: 7, kept });
    }

    #[test]
    fn wrong_network_names_both_and_the_switch() {
        let error = verdict(r#"{"chain":"test","blocks":7,"headers":7}"#, 310_000, Network::Bitcoin).unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::Permanent);
        assert!(error.message.contains("network test,") && error.message.contains("--network testnet"), "{error}");
    }

    #[test]
    fn a_chain_that_is_not_served_is_named_with_those_that_are() {
        let error = verdict(r#"{"chain":"testnet5","blocks":7,"headers":7}"#, 329_900, Network::Bitcoin).unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::Permanent);
        let expected = "the chain \"testnet5\" is not served; give a node of one of these networks: bitcoin, testnet, \
                        testnet4, signet, regtest";
        assert!(error.message.ends_with(expected), "{error}");
    }

    #[test]
    fn old_node_is_for_a_person() {
        let old = verdict(r#"{"chain":"main","blocks":7,"headers":7}"#, 220_000, Network::Bitcoin);
        assert_eq!(old.unwrap_err().kind, SourceErrorKind::Permanent);
    }

    #[test]
    fn a_node_in_initial_download_is_followed() {
        for chain in ["main", "regtest"] {
            let info = format!(r#"{{"chain":"{chain}","blocks":5,"headers":10,"initialblockdownload":true}}"#);
            let network = network_named(chain).unwrap();
            assert_eq!(verdict(&info, 310_000, network).unwrap().blocks, 5);
        }
    }

    #[test]
    fn addresses_that_a_node_announces_have_ports() {
        let text = r#"{"version":310000,"localaddresses":[{"address":"192.0.2.7","port":8335,"score":1}]}"#;
        let Announced { localaddresses } = serde_json::from_str(text).unwrap();
        assert_eq!(localaddresses.iter().map(|local| local.port).collect::<Vec<_>>(), [8335]);
        let Announced { localaddresses } = serde_json::from_str(r#"{"version":310000}"#).unwrap();
        assert!(localaddresses.is_empty());
    }
}
