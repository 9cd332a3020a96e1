//! A receiver's scan key, as the watch file has it.

use bitcoin::bech32::primitives::iter::{ByteIterExt as _, Fe32IterExt as _};
use bitcoin::bech32::{Bech32m, Fe32, Hrp};

use crate::silent_sender::Receiver;

/// The scan key as BIP 392 writes it: `b_scan` and `B_spend` after the version.
pub(crate) fn descriptor(receiver: &Receiver) -> String {
    let keys = [&receiver.scan.secret_bytes()[..], &receiver.spend.serialize()[..]].concat();
    let hrp = Hrp::parse_unchecked("tspscan");
    let chars = keys.into_iter().bytes_to_fes().with_checksum::<Bech32m>(&hrp).with_witness_version(Fe32::Q).chars();
    format!("sp([deadbeef/352h/1h/0h]{})", chars.collect::<String>())
}
