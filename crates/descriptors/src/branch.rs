//! Scripts of a descriptor by their numbers.

use std::collections::HashMap;

use bitcoin::bip32::{ChildNumber, DerivationPath, Xpub};
use bitcoin::key::{Parity, TweakedPublicKey};
use bitcoin::secp256k1::{Secp256k1, VerifyOnly};
use bitcoin::{PublicKey, ScriptBuf, Weight};
use miniscript::descriptor::checksum::Engine;
use miniscript::descriptor::{DescriptorType, DescriptorXKey, SinglePubKey, Wildcard};
use miniscript::{Descriptor, DescriptorPublicKey, ForEachKey as _, TranslateErr, Translator, translate_hash_clone};

/// The derivation of keys for one question. Keys on the way to a wildcard are derived once, whatever shares them.
pub struct Derivation<'a> {
    secp: Secp256k1<VerifyOnly>,
    known: HashMap<(Xpub, ChildNumber), Xpub>,
    /// Called before each step; an error ends the derivation.
    step: &'a dyn Fn() -> birdhouse_chain::Result<()>,
}

/// The reason why a script is not derived.
#[derive(Debug)]
pub enum Underived {
    /// The derivation was ended.
    Ended(birdhouse_chain::Error),
    /// The keys have no such script.
    Impossible,
}

/// A descriptor of one branch.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    pub(crate) descriptor: Descriptor<DescriptorPublicKey>,
    pub(crate) output_key: OutputKey,
}

/// The key of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKey {
    /// As the descriptor has it.
    OfForm,
    /// The internal key of a taproot descriptor, without a tweak: `rawtr`
    /// ([BIP 386](https://github.com/bitcoin/bips/blob/master/bip-0386.mediawiki) has the form with one).
    Internal,
}

/// A branch of scripts that are numbered from 0 on, or a single one.
#[derive(Debug)]
pub struct Branch {
    /// The descriptor, with keys that need only the wildcard's step.
    descriptor: Descriptor<DescriptorPublicKey>,
    output_key: OutputKey,
    /// The last step of the path before the wildcard, of the first key that has one.
    last_step: Option<String>,
}

impl Described {
    /// Returns true if it has more than one script.
    pub fn is_ranged(&self) -> bool {
        self.descriptor.has_wildcard()
    }

    /// Returns its keys.
    pub fn keys(&self) -> impl Iterator<Item = DescriptorPublicKey> + '_ {
        self.descriptor.iter_pk()
    }

    /// Returns the largest weight of what spends one of its outputs, if it is known.
    pub fn max_weight_to_satisfy(&self) -> Option<Weight> {
        self.descriptor.max_weight_to_satisfy().ok()
    }

    /// Returns its text with its checksum.
    pub fn text(&self) -> String {
        self.text_of(&self.descriptor.to_string())
    }

    /// Returns the text of the descriptor of one number, with its checksum; `None` for a hardened number.
    pub fn text_at(&self, number: u32) -> Option<String> {
        Some(self.text_of(&self.descriptor.at_derivation_index(number).ok()?.to_string()))
    }

    fn text_of(&self, text: &str) -> String {
        match self.output_key {
            OutputKey::OfForm => text.into(),
            OutputKey::Internal => {
                let text = text.split('#').next().unwrap_or_default();
                with_checksum(&format!("raw{text}"))
            }
        }
    }

    /// Returns the script of a number; `None` for a number that has none.
    pub fn script(&self, number: u32) -> Option<ScriptBuf> {
        let is_number = number < HARDENED && (number == 0 || self.is_ranged());
        if !is_number {
            return None;
        }
        let goes_on = || Ok(());
        let mut derivation = Derivation::new(&goes_on);
        Branch::new(self, &mut derivation).ok()?.script(number, &derivation).ok()
    }
}

/// The first number of hardened keys.
const HARDENED: u32 = 1 << 31;

/// Returns a descriptor with its checksum ([BIP 380](https://github.com/bitcoin/bips/blob/master/bip-0380.mediawiki)).
pub fn with_checksum(text: &str) -> String {
    let mut engine = Engine::new();
    match engine.input(text) {
        Ok(()) => format!("{text}#{}", engine.checksum()),
        Err(_) => text.into(),
    }
}

impl<'a> Derivation<'a> {
    /// Returns a derivation that calls `step` before each step.
    pub fn new(step: &'a dyn Fn() -> birdhouse_chain::Result<()>) -> Self {
        Self { secp: Secp256k1::verification_only(), known: HashMap::new(), step }
    }

    fn child(&self, parent: &Xpub, number: ChildNumber) -> Result<Xpub, Underived> {
        (self.step)().map_err(Underived::Ended)?;
        parent.ckd_pub(&self.secp, number).map_err(|_| Underived::Impossible)
    }

    fn along(&mut self, key: Xpub, path: &DerivationPath) -> Result<Xpub, Underived> {
        let mut key = key;
        for number in path {
            if let Some(child) = self.known.get(&(key, *number)) {
                key = *child;
                continue;
            }
            let child = self.child(&key, *number)?;
            self.known.insert((key, *number), child);
            key = child;
        }
        Ok(key)
    }
}

impl Branch {
    /// Derives the keys of a descriptor up to the wildcard.
    ///
    /// # Errors
    /// The derivation was ended, or the keys have no such script.
    pub fn new(described: &Described, derivation: &mut Derivation<'_>) -> Result<Self, Underived> {
        let Described { descriptor, output_key } = described;
        let last_step = last_step(descriptor);
        let descriptor = descriptor.translate_pk(&mut Prefixes(derivation)).map_err(underived)?;
        Ok(Self { descriptor, output_key: *output_key, last_step })
    }

    /// True if it has more than one script.
    pub fn is_ranged(&self) -> bool {
        self.descriptor.has_wildcard()
    }

    /// The number of keys of each script.
    pub fn keys(&self) -> usize {
        self.descriptor.iter_pk().count()
    }

    /// The script of a number.
    pub fn script(&self, number: u32, derivation: &Derivation<'_>) -> Result<ScriptBuf, Underived> {
        let derived = self.descriptor.translate_pk(&mut Keys { number, derivation }).map_err(underived)?;
        Ok(match self.output_key {
            OutputKey::OfForm => derived.script_pubkey(),
            OutputKey::Internal => {
                let key = derived.internal_key().ok_or(Underived::Impossible)?.inner.x_only_public_key().0;
                ScriptBuf::new_p2tr_tweaked(TweakedPublicKey::dangerous_assume_tweaked(key))
            }
        })
    }

    /// The form of its scripts and the path of a number in it: `wpkh 0/5`.
    pub fn name(&self, number: u32) -> String {
        let form = match self.output_key {
            OutputKey::OfForm => form(&self.descriptor),
            OutputKey::Internal => "rawtr",
        };
        let path = match &self.last_step {
            _ if !self.is_ranged() => String::new(),
            Some(step) => format!(" {step}/{number}"),
            None => format!(" {number}"),
        };
        format!("{form}{path}")
    }
}

fn last_step(descriptor: &Descriptor<DescriptorPublicKey>) -> Option<String> {
    let mut last = None;
    descriptor.for_each_key(|key| {
        if let DescriptorPublicKey::XPub(key) = key {
            last = key.derivation_path.into_iter().last().map(ToString::to_string);
        }
        last.is_none()
    });
    last
}

/// The name of a descriptor's script form.
fn form(descriptor: &Descriptor<DescriptorPublicKey>) -> &'static str {
    match descriptor.desc_type() {
        DescriptorType::Pkh => "pkh",
        DescriptorType::Wpkh => "wpkh",
        DescriptorType::ShWpkh => "sh-wpkh",
        DescriptorType::Wsh | DescriptorType::WshSortedMulti => "wsh",
        DescriptorType::ShWsh | DescriptorType::ShWshSortedMulti => "sh-wsh",
        DescriptorType::Sh | DescriptorType::ShSortedMulti => "sh",
        DescriptorType::Tr => "tr",
        DescriptorType::Bare => "bare",
    }
}

fn underived(error: TranslateErr<Underived>) -> Underived {
    match error {
        TranslateErr::TranslatorErr(error) => error,
        TranslateErr::OuterError(_) => Underived::Impossible,
    }
}

/// Puts the last key before the wildcard in place of each key with a path.
struct Prefixes<'a, 'b>(&'a mut Derivation<'b>);

impl Translator<DescriptorPublicKey> for Prefixes<'_, '_> {
    type TargetPk = DescriptorPublicKey;
    type Error = Underived;

    fn pk(&mut self, key: &DescriptorPublicKey) -> Result<DescriptorPublicKey, Underived> {
        match key {
            DescriptorPublicKey::XPub(key) => Ok(DescriptorPublicKey::XPub(DescriptorXKey {
                origin: None,
                xkey: self.0.along(key.xkey, &key.derivation_path)?,
                derivation_path: DerivationPath::master(),
                wildcard: key.wildcard,
            })),
            DescriptorPublicKey::Single(_) => Ok(key.clone()),
            DescriptorPublicKey::MultiXPub(_) => Err(Underived::Impossible),
        }
    }

    translate_hash_clone!(DescriptorPublicKey);
}

/// Puts the key of a number in place of each key.
struct Keys<'a, 'b> {
    number: u32,
    derivation: &'a Derivation<'b>,
}

impl Translator<DescriptorPublicKey> for Keys<'_, '_> {
    type TargetPk = PublicKey;
    type Error = Underived;

    fn pk(&mut self, key: &DescriptorPublicKey) -> Result<PublicKey, Underived> {
        let key = match key {
            DescriptorPublicKey::Single(key) => {
                return Ok(match key.key {
                    SinglePubKey::FullKey(key) => key,
                    SinglePubKey::XOnly(key) => PublicKey::new(key.public_key(Parity::Even)),
                });
            }
            DescriptorPublicKey::XPub(key) if key.derivation_path.is_empty() => key,
            _ => return Err(Underived::Impossible),
        };
        let derived = match key.wildcard {
            Wildcard::None => key.xkey,
            Wildcard::Unhardened => {
                let number = ChildNumber::from_normal_idx(self.number).map_err(|_| Underived::Impossible)?;
                self.derivation.child(&key.xkey, number)?
            }
            Wildcard::Hardened => return Err(Underived::Impossible),
        };
        Ok(PublicKey::new(derived.public_key))
    }

    translate_hash_clone!(DescriptorPublicKey);
}
