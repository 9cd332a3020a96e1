//! Several addresses, extended keys or descriptors at once. They come in the body, and nothing of them is kept.

use std::collections::HashSet;

use birdhouse_chain::{ScriptHash, ScriptStats};
use birdhouse_esplora::script::address_of;
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, script_of_hash};
use bitcoin::{ScriptBuf, Txid};

use super::changes::{balances, changes, received};
use super::refusal::refused;
use super::scan;
use super::script::entry;
use crate::views::several::{Member, Several, form, page};
use birdhouse_descriptors::{Branch, Derivation, GAP, Named, Steps, Underived, parse};

/// Scripts of one question.
const SCRIPTS_MAX: usize = 5_000;
/// Lines of one question.
const LINES_MAX: usize = 500;
/// Transactions on a page.
const PAGE: usize = 25;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/addresses", Lane::Memory, empty, "A form for several addresses, an extended key or a descriptor."),
    Route::post("/addresses", Lane::Blocks, several, "Several addresses, an extended key or a descriptor."),
];

fn empty(question: &Question<'_>) -> Answer {
    Reply::html(form(question.network(), scan::access(question)), Cache::Private)
}

fn several(question: &Question<'_>) -> Answer {
    let text = question.params.form("q").unwrap_or_default();
    if text.trim().is_empty() {
        return Reply::elsewhere("/addresses".into());
    }
    of_text(question, &text)
}

/// Answers about everything that a text names.
pub(super) fn of_text(question: &Question<'_>, text: &str) -> Answer {
    Reply::html(page(&values(question, text)?), Cache::NoStore)
}

/// Answers about a text if anything that it names was ever used.
pub(super) fn of_used(question: &Question<'_>, text: &str) -> Result<Option<Reply>, Failure> {
    let values = values(question, text)?;
    let is_used = values.members.iter().any(|member| member.chain.txs + member.mempool.txs > 0);
    is_used.then(|| Reply::html(page(&values), Cache::NoStore)).transpose()
}

fn values(question: &Question<'_>, text: &str) -> Result<Several, Failure> {
    let after = question.params.form("after").filter(|after| !after.is_empty());
    let after = after.map(|after| after.parse::<Txid>().map_err(|_| Failure::bad_request("the cursor is no txid")));
    let after = after.transpose()?;
    let mut steps = Steps::default();
    // All lines before any of them is derived: the bound is on the whole question.
    let lines = lines(text)?.into_iter().map(|line| read(question, line, &mut steps));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let step = || question.at.charge_step();
    let mut wallet = Wallet {
        question,
        steps,
        derivation: Derivation::new(&step),
        members: Vec::new(),
        known: HashSet::new(),
        named: 0,
        unused: 0,
        next: Vec::new(),
    };
    for line in lines {
        wallet.add(line)?;
    }
    let scripts: Vec<ScriptHash> = wallet.members.iter().map(|member| member.hash).collect();
    let found = question.at.newest_of_all(&scripts, after, PAGE + 1)?;
    let own: HashSet<&ScriptHash> = scripts.iter().collect();
    let entries = found.iter().take(PAGE).map(|found| entry(question, found, |script| own.contains(script)));
    let changes = changes(question.at, &wallet.members)?;
    Ok(Several {
        network: question.network(),
        text: text.to_owned(),
        entries: entries.collect(),
        is_more: found.len() > PAGE,
        is_first: after.is_none(),
        unused: wallet.unused,
        next: wallet.next,
        received: received(&changes),
        balances: balances(question.at, &changes),
        tip_time: question.at.block_time(question.at.tip().height).unwrap_or_default(),
        members: wallet.members,
    })
}

/// The addresses, keys and descriptors of a text: one a line, or several addresses with spaces or commas between them.
fn lines(text: &str) -> Result<Vec<&str>, Failure> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // A descriptor has commas of its own.
        let is_descriptor = line.contains('(');
        let separators: &[char] = if is_descriptor { &[] } else { &[' ', ',', ';', '\t'] };
        all.extend(line.split(separators).map(str::trim).filter(|part| !part.is_empty()));
    }
    if all.len() > LINES_MAX {
        return Err(Failure::bad_request(format!("these are more than {LINES_MAX} lines")));
    }
    Ok(all)
}

/// A line of the question.
enum Line {
    Hash(ScriptHash),
    Named(Named),
}

fn read(question: &Question<'_>, line: &str, steps: &mut Steps) -> Result<Line, Failure> {
    question.at.charge_step()?;
    if let Ok(hash) = script_of_hash(line) {
        return Ok(Line::Hash(hash));
    }
    parse(line, question.network(), steps).map(Line::Named).map_err(|reason| refused(question, &reason))
}

/// Scripts while they are collected.
struct Wallet<'a> {
    question: &'a Question<'a>,
    /// Steps of derivation that are left.
    steps: Steps,
    derivation: Derivation<'a>,
    /// Scripts with a transaction, and those that were named alone.
    members: Vec<Member>,
    known: HashSet<ScriptHash>,
    /// Scripts that were added, with those that were known.
    named: usize,
    /// Derived scripts without a transaction.
    unused: usize,
    /// The first script without a transaction of each branch that has one with a transaction.
    next: Vec<Member>,
}

impl Wallet<'_> {
    fn add(&mut self, line: Line) -> Result<(), Failure> {
        match line {
            Line::Hash(hash) => self.insert(hash, None, "script hash".into()),
            Line::Named(Named::One(script)) => {
                let name = if self.address(&script).is_some() { "address" } else { "script" };
                self.insert_script(&script, name.into())
            }
            Line::Named(Named::Many(descriptors)) => descriptors.iter().try_for_each(|described| {
                let branch = Branch::new(described, &mut self.derivation).map_err(underived)?;
                self.insert_branch(&branch)
            }),
        }
    }

    fn insert_script(&mut self, script: &ScriptBuf, name: String) -> Result<(), Failure> {
        self.insert(ScriptHash::of(script.as_bytes()), self.address(script), name)
    }

    fn insert(&mut self, hash: ScriptHash, address: Option<String>, name: String) -> Result<(), Failure> {
        let member = self.member(hash, address, name)?;
        self.push(member)
    }

    /// Adds the used scripts of a branch, up to the gap.
    fn insert_branch(&mut self, branch: &Branch) -> Result<(), Failure> {
        if !branch.is_ranged() {
            let script = branch.script(0, &self.derivation).map_err(underived)?;
            return self.insert_script(&script, branch.name(0));
        }
        let (mut gap, mut first_unused, mut is_used) = (0, None, false);
        for number in 0.. {
            if number >= GAP {
                // The first ones are charged.
                self.steps.charge(branch.keys()).map_err(|reason| refused(self.question, &reason))?;
            }
            let script = branch.script(number, &self.derivation).map_err(underived)?;
            let hash = ScriptHash::of(script.as_bytes());
            let member = self.member(hash, self.address(&script), branch.name(number))?;
            if member.chain.txs + member.mempool.txs > 0 {
                (gap, first_unused, is_used) = (0, None, true);
                self.push(member)?;
                continue;
            }
            (gap, self.unused) = (gap + 1, self.unused + 1);
            self.prove_few()?;
            first_unused.get_or_insert(member);
            if gap == GAP {
                break;
            }
        }
        self.next.extend(first_unused.filter(|_| is_used));
        Ok(())
    }

    fn push(&mut self, member: Member) -> Result<(), Failure> {
        self.named += 1;
        if self.known.insert(member.hash) {
            self.members.push(member);
        }
        self.prove_few()
    }

    fn prove_few(&self) -> Result<(), Failure> {
        if self.named + self.unused > SCRIPTS_MAX {
            return Err(Failure::bad_request(format!("these are more than {SCRIPTS_MAX} scripts")));
        }
        Ok(())
    }

    fn member(&self, hash: ScriptHash, address: Option<String>, name: String) -> Result<Member, Failure> {
        let at = self.question.at;
        let (chain, mempool): (ScriptStats, ScriptStats) = (at.confirmed_stats(&hash)?, at.unconfirmed_stats(&hash));
        Ok(Member { hash, address, name, chain, mempool })
    }

    fn address(&self, script: &ScriptBuf) -> Option<String> {
        address_of(script, self.question.network())
    }
}

fn underived(reason: Underived) -> Failure {
    match reason {
        Underived::Ended(error) => error.into(),
        Underived::Impossible => Failure::bad_request("the scripts of this descriptor need a private key"),
    }
}
