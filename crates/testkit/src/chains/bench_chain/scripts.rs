//! The scripts of the benchmark chain: numbered, each a function of seed and number, never stored.
//!
//! By consensus anyone can spend all of them. On disk and in an index they have the sizes of the usual ones:
//! - witness programs of version 2 (20 bytes, as P2WPKH) and 3 (32 bytes, as P2TR), which consensus leaves for later
//!   soft forks with any witness ([BIP141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki));
//! - real P2WSH and P2SH around `<20 bytes> OP_DROP OP_TRUE`;
//! - a bare script of 25 bytes, as P2PKH.
//!
//! Most are used once or a few times, the oldest of them about ten times. The first numbers are reserved for those used
//! more: one with far more than 100 000 transactions (of 8 million), five with tens of thousands, then *busy* ones with
//! 300 to 1000, then *medium* ones with about 30, a tenth of them with about 100.

use birdhouse_regtest::rng::{Rng, mix};
use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::opcodes::all as op;

use super::stats::{Sample, Samples};

/// A script's number.
pub(super) type ScriptId = u32;

const LARGE: u32 = 5;
// Classes of outputs by a number below 10 000: each constant is the end of its class.
const TO_BUSIEST: u64 = 37;
const TO_LARGE: u64 = TO_BUSIEST + 19;
const TO_BUSY: u64 = TO_LARGE + 281;
const TO_MEDIUM: u64 = TO_BUSY + 232;
/// Scripts seen before; numbers above this take a new script.
const TO_SEEN: u64 = TO_MEDIUM + 3631;
const WALLET_SAMPLES: u32 = 3000;
/// Number of counted scripts without a class of their own, the oldest ones.
const OLD: u32 = 3000;

/// Form of a script, which decides how it is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `OP_2 <20 bytes>`
    Key20,
    /// `OP_3 <32 bytes>`
    Key32,
    P2wsh,
    P2sh,
    /// `OP_NOP OP_NOP <20 bytes> OP_DROP OP_TRUE`
    Bare,
}

pub(super) struct Scripts {
    seed: u64,
    busy: u32,
    medium: u32,
    next: ScriptId,
    /// For the reserved numbers and the [`OLD`] ones after them: number of transactions that touch them, and the last
    /// one.
    uses: Vec<(u64, Option<u64>)>,
}

impl Scripts {
    /// Makes the scripts of a chain. Classes grow with the number of transactions, so that the counts per script stay.
    pub(super) fn new(seed: u64, txs: u64) -> Self {
        let class = |share: u64| u32::try_from((txs / share).max(2)).unwrap_or(u32::MAX / 4);
        let (busy, medium) = (class(5333), class(400));
        let next = 1 + LARGE + busy + medium;
        Self { seed, busy, medium, next, uses: vec![(0, None); (next + OLD) as usize] }
    }

    pub(super) fn fresh(&mut self) -> ScriptId {
        self.next += 1;
        self.next - 1
    }

    /// Chooses the script of the next output.
    pub(super) fn choose(&mut self, rng: &mut Rng) -> ScriptId {
        let draw = rng.below(10_000);
        let first_simple = 1 + LARGE + self.busy + self.medium;
        match draw {
            0..TO_BUSIEST => 0,
            TO_BUSIEST..TO_LARGE => 1 + below(rng, LARGE),
            TO_LARGE..TO_BUSY => {
                // The first half gets more than twice the others' transactions, so that counts differ.
                let among = if rng.per_mille(400) { self.busy / 2 } else { self.busy };
                1 + LARGE + below(rng, among)
            }
            TO_BUSY..TO_MEDIUM => {
                let among = if rng.per_mille(200) { self.medium / 10 } else { self.medium };
                1 + LARGE + self.busy + below(rng, among)
            }
            TO_MEDIUM..TO_SEEN if self.next > first_simple => first_simple + below(rng, self.next - first_simple),
            _ => self.fresh(),
        }
    }

    /// Counts that transaction number `tx` pays or spends this script.
    pub(super) fn touched(&mut self, script: ScriptId, tx: u64) {
        if let Some((count, last)) = self.uses.get_mut(script as usize)
            && *last != Some(tx)
        {
            *count += 1;
            *last = Some(tx);
        }
    }

    pub(super) fn form(&self, script: ScriptId) -> Form {
        match self.word(script, 0) % 100 {
            0..40 => Form::Key20,
            40..60 => Form::Key32,
            60..70 => Form::P2wsh,
            70..90 => Form::P2sh,
            _ => Form::Bare,
        }
    }

    pub(super) fn script_pubkey(&self, script: ScriptId) -> Vec<u8> {
        let form = self.form(script);
        let payload = self.payload(script);
        match form {
            Form::Key20 => framed(&[op::OP_PUSHNUM_2.to_u8(), 20], &payload[..20], &[]),
            Form::Key32 => framed(&[op::OP_PUSHNUM_3.to_u8(), 32], &payload, &[]),
            Form::P2wsh => {
                let hash = sha256::Hash::hash(&self.inner_script(script));
                framed(&[0, 32], hash.as_byte_array(), &[])
            }
            Form::P2sh => {
                let hash = hash160::Hash::hash(&self.inner_script(script));
                framed(&[op::OP_HASH160.to_u8(), 20], hash.as_byte_array(), &[op::OP_EQUAL.to_u8()])
            }
            Form::Bare => {
                let nop = op::OP_NOP.to_u8();
                framed(&[nop, nop, 20], &payload[..20], &[op::OP_DROP.to_u8(), op::OP_PUSHNUM_1.to_u8()])
            }
        }
    }

    /// Returns the script that a P2WSH or P2SH output hashes. It drops the two padding items, because the stack must
    /// end clean (BIP141).
    pub(super) fn inner_script(&self, script: ScriptId) -> Vec<u8> {
        let end = [op::OP_DROP.to_u8(), op::OP_2DROP.to_u8(), op::OP_PUSHNUM_1.to_u8()];
        framed(&[20], &self.payload(script)[..20], &end)
    }

    pub(super) fn distinct(&self) -> u64 {
        let reserved = (1 + LARGE + self.busy + self.medium) as usize;
        let unused = self.uses[..reserved].iter().filter(|(count, _)| *count == 0).count();
        u64::from(self.next) - unused as u64
    }

    pub(super) fn samples(&self) -> Samples {
        let (busy, medium) = (1 + LARGE, 1 + LARGE + self.busy);
        let simple = medium + self.medium;
        let step = ((self.next - simple) / WALLET_SAMPLES).max(1);
        let used = |ids: std::ops::Range<ScriptId>| {
            ids.map(|id| self.sample(id)).filter(|sample| sample.txs > 0).collect::<Vec<_>>()
        };
        Samples {
            largest: used(0..busy),
            busy: used(busy..medium),
            medium: used(medium..simple).into_iter().take(WALLET_SAMPLES as usize).collect(),
            old: used(simple..self.next.min(simple + OLD)),
            simple: (simple..self.next)
                .step_by(step as usize)
                .take(WALLET_SAMPLES as usize)
                .map(|id| self.scripthash(id))
                .collect(),
        }
    }

    fn sample(&self, script: ScriptId) -> Sample {
        let script_pubkey = self.script_pubkey(script);
        let scripthash = crate::clients::client::scripthash(&script_pubkey);
        Sample { scripthash, script_pubkey: script_pubkey.to_lower_hex_string(), txs: self.uses[script as usize].0 }
    }

    fn scripthash(&self, script: ScriptId) -> String {
        crate::clients::client::scripthash(&self.script_pubkey(script))
    }

    fn word(&self, script: ScriptId, word: u64) -> u64 {
        mix(mix(self.seed ^ 0x5c21_9d07) ^ (u64::from(script) << 3 | word))
    }

    fn payload(&self, script: ScriptId) -> [u8; 32] {
        let mut payload = [0; 32];
        for (word, chunk) in (1..).zip(payload.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&self.word(script, word).to_le_bytes());
        }
        payload
    }
}

fn framed(before: &[u8], middle: &[u8], after: &[u8]) -> Vec<u8> {
    [before, middle, after].concat()
}

fn below(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound.max(1)))).expect("below a u32")
}
