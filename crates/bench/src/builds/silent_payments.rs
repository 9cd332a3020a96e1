//! The index of silent payments: its size, the CPU time of computing it and of scanning it, beside libsecp256k1 in the
//! same run; and a server with it, whose wallets ask while it scans.
//!
//! A real node checks the chain. Its blocks have mainnet's shares: of 3500 transactions 740 may be silent payments,
//! with 1.91 taproot outputs each (heights 709 632 to 962 151).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_chain::{BuildOptions, DerivedIndex, Height, Index, Profile, Secret, Snapshot, TweakDetail, Tweaks};
use birdhouse_node::BlockFiles;
use birdhouse_silentpayments::{Engine, Path, ScanKey, Scanner};
use birdhouse_store::{MemoryStore, SegmentOptions, SegmentStore};
use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::peers::{Birdhouse, Home};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_testkit::usage::own_cpu;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, loadblock};
use bitcoin::constants::genesis_block;
use bitcoin::secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};
use bitcoin::{Network, Script};

use crate::machine::args::at_least_one;
use crate::machine::server::version_of;
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};
use crate::wallets::beside_scan::{self, Part};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// New folder for the chain and the index.
    #[arg(long)]
    work: PathBuf,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Blocks with mainnet's shares.
    #[arg(long, default_value_t = 30, value_parser = at_least_one::<u32>())]
    blocks: u32,
    /// Turns of each measurement, of which the median counts.
    #[arg(long, default_value_t = 5, value_parser = at_least_one::<usize>())]
    turns: usize,
}

/// Transactions of a block, and those of them that may be silent payments.
const TXS: u32 = 3500;
const ELIGIBLE: u32 = 740;
/// Of a hundred of these, those with a second taproot output.
const SECOND_OUTPUT_PERCENT: u32 = 91;
/// Outputs of a transaction that makes coins.
const COINS_AT_ONCE: u32 = 1000;
/// A coinbase that is spent has this many blocks above it.
const MATURITY: u32 = 100;
const SCAN: [u8; 32] = [0x5d; 32];
/// Scripts whose histories a wallet asks for.
const HISTORIES: usize = 500;

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    fs::create_dir(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let mut record = Record::begin("Silent payments", &plan.work);
    record.servers = vec![Measured::new("birdhouse", Some(&version_of(&plan.birdhouse)?), "--silent-payments scan")];
    eprintln!("silent payments: a chain of {} blocks with {TXS} transactions ..", plan.blocks);
    let chain = chain(plan.blocks);
    let index = indexed(plan, &chain)?;
    let at = index.snapshot()?;

    let mut built = Vec::new();
    for turn in 0..plan.turns {
        built.push(computed(plan, &at, turn)?);
    }
    built.sort_unstable_by_key(|built| built.cpu);
    let Computed { derived, cpu } = built.swap_remove(plan.turns / 2);
    let tweaks = Tweaks::among(&[derived]).context("the index has this name")?;
    let (start, end) = (Height(0), Height(tweaks.len(&at)));
    let rows = tweaks.rows(&at, start..end)?.context("all are computed")?;
    ensure!(rows == u64::from(plan.blocks * ELIGIBLE), "{rows} rows");
    index.set_derived(vec![tweaks.index()]);
    let bytes = index.derived_progress()[0].bytes;

    let mut table = Table::new(
        "Rows",
        format!("{rows} transactions that may be silent payments, one thread, medians of {} turns.", plan.turns),
        Layout::OneServer,
        [("CPU a row", Unit::Seconds), ("beside libsecp256k1's", Unit::Times)],
    );
    let each = |cpu: Duration| cpu.as_secs_f64() / f64::from(plan.blocks * ELIGIBLE);
    let (multiply, scan) = by_library(&tweaks, &at, plan.turns)?;
    let mut push = |name: String, cpu: f64, beside: f64| table.push(name, [Cell::number(cpu), Cell::number(beside)]);
    push("libsecp256k1: multiply".into(), each(multiply), 1.0);
    push("computed from block files, read included".into(), each(cpu), each(cpu) / each(multiply));
    push("libsecp256k1: parse, multiply, add".into(), each(scan), 1.0);
    for path in [Path::Vector, Path::Scalar, Path::Reference] {
        let Some(engine) = Engine::with(path) else {
            record.note(format!("{path:?}: skipped, this processor lacks it."));
            continue;
        };
        let scanner = scanner(&engine)?;
        let one = scanned(&tweaks, &at, &scanner, 1, plan.turns)?;
        let two = scanned(&tweaks, &at, &scanner, 2, plan.turns)?;
        push(format!("scanned, {path:?}"), each(one), each(scan) / each(one));
        record.note(format!("{path:?}: two scans at once take {:.3} times the sum.", each(two) / each(one) / 2.0));
    }
    record.tables.push(table);
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    record.note(format!("On disk: {:.2} bytes a row.", bytes as f64 / rows as f64));
    let parts = [1, plan.blocks.div_ceil(3), plan.blocks].map(|blocks| {
        let start = end.0 - blocks;
        let rows = tweaks.rows(&at, Height(start)..end)?.context("all are computed")?;
        anyhow::Ok(Part { blocks, start, rows })
    });
    let parts = parts.into_iter().collect::<Result<Vec<Part>>>()?;
    record.tables.extend(served(plan, &scripthashes(&chain), &parts)?);
    Ok(record)
}

/// Measures a server on the chain: wallets beside scans, and scans of parts of the chain.
fn served(plan: &Plan, scripthashes: &[String], parts: &[Part]) -> Result<[Table; 2]> {
    let node = Bitcoind::start(Options::default().in_datadir(plan.work.join("node")))?;
    let home = Home::Folder(plan.work.join("server"));
    let server = Birdhouse::start_in(&node, home, &plan.birdhouse, &["--silent-payments=scan", "--log=warn"])?;
    let all = parts.last().context("there are parts")?;
    Ok([
        beside_scan::histories(&server, scripthashes, all, plan.turns)?,
        beside_scan::scans(&server, parts, plan.turns)?,
    ])
}

/// Returns the scripts with the most transactions, which are of one kind.
fn scripthashes(chain: &ChainBuilder) -> Vec<String> {
    let mut counts: HashMap<&Script, u32> = HashMap::new();
    let transactions = chain.blocks().iter().flat_map(|block| &block.txdata);
    for output in transactions.flat_map(|transaction| &transaction.output) {
        *counts.entry(&output.script_pubkey).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|(script, count)| (Reverse(*count), *script));
    counts.iter().take(HISTORIES).map(|(script, _)| scripthash(script.as_bytes())).collect()
}

/// Makes the chain, has a node check it, and builds an index in memory of its block files.
fn indexed(plan: &Plan, chain: &ChainBuilder) -> Result<Index> {
    let (file, datadir) = (plan.work.join("blocks.dat"), plan.work.join("node"));
    let mut out = BufWriter::new(File::create(&file)?);
    chain.write_loadblock(&mut out)?;
    out.flush()?;
    loadblock::import(&file, &datadir, chain.tip())?;
    let source = BlockFiles::open(&datadir.join("regtest/blocks"), Network::Regtest)?;
    let genesis = genesis_block(Network::Regtest).block_hash();
    let (store, secret) = (Arc::new(MemoryStore::new()), Secret([7; 16]));
    let index = Index::open(store, Arc::new(source), genesis, Profile::Lean, secret)?;
    index.build(None, &BuildOptions::modest(plan.work.join("build")))?;
    Ok(index)
}

fn chain(blocks: u32) -> ChainBuilder {
    let mut chain = ChainBuilder::new(352);
    let wanted = TXS + 2 * ELIGIBLE + blocks * (TXS / 20);
    let coinbases = wanted.div_ceil(COINS_AT_ONCE) + 1;
    chain.mine(MATURITY + coinbases);
    let ripe: Vec<Coin> = chain.coins().take(coinbases as usize).cloned().collect();
    for coin in ripe {
        let sat = coin.sat() / u64::from(COINS_AT_ONCE + 1);
        let lock = |number| Lock::new(Form::P2wpkh, number);
        let payments: Vec<Payment> = (0..COINS_AT_ONCE).map(|number| Payment::to_lock(lock(number), sat)).collect();
        chain.spend(&[coin], &payments);
    }
    chain.mine_block();
    for _ in 0..blocks {
        let mut coins: Vec<Coin> = chain.coins().filter(|coin| coin.lock.number < COINS_AT_ONCE).cloned().collect();
        coins.sort_unstable_by_key(|coin| Reverse(coin.sat()));
        let mut coins = coins.into_iter();
        for number in 0..TXS {
            let is_eligible = number < ELIGIBLE;
            // Half of the eligible ones spend two coins.
            let inputs: Vec<Coin> =
                coins.by_ref().take(if is_eligible && number.is_multiple_of(2) { 2 } else { 1 }).collect();
            let second = is_eligible && number % 100 < SECOND_OUTPUT_PERCENT;
            let outputs: &[Form] = match (is_eligible, second) {
                (true, true) => &[Form::P2tr, Form::P2tr],
                (true, false) => &[Form::P2tr],
                (false, _) => &[Form::P2wpkh],
            };
            let sat = (inputs.iter().map(Coin::sat).sum::<u64>() - 1000) / outputs.len() as u64;
            let lock = |form: &Form| Lock::new(*form, number % COINS_AT_ONCE);
            let payments: Vec<Payment> = outputs.iter().map(|form| Payment::to_lock(lock(form), sat)).collect();
            chain.spend(&inputs, &payments);
        }
        chain.mine_block();
    }
    chain
}

/// An index that was computed, and the CPU time that it took.
struct Computed {
    derived: Arc<DerivedIndex>,
    cpu: Duration,
}

/// Computes the index by one thread, in a folder of its own.
fn computed(plan: &Plan, at: &Snapshot, turn: usize) -> Result<Computed> {
    let store = SegmentStore::open(&plan.work.join(format!("tweaks-{turn}")), &[], SegmentOptions::default())?;
    let derived = Tweaks::derived(Network::Regtest, TweakDetail::Scan);
    let derived = Arc::new(DerivedIndex::open(Arc::new(store), derived, 1)?);
    let began = own_cpu();
    while derived.advance(at)? {}
    Ok(Computed { derived, cpu: own_cpu().saturating_sub(began) })
}

fn scanner(engine: &Engine) -> Result<Scanner> {
    let spend = SecretKey::from_slice(&[2; 32])?.public_key(SECP256K1);
    Ok(engine.scanner(ScanKey::new(&SCAN, &spend.serialize(), &[])?))
}

/// Returns the CPU time of scans of all rows, by one thread each.
fn scanned(tweaks: &Tweaks, at: &Snapshot, scanner: &Scanner, scans: usize, turns: usize) -> Result<Duration> {
    let end = Height(tweaks.len(at));
    let scan = || tweaks.find(at, scanner, Height(0)..end);
    measured(turns, || {
        thread::scope(|scope| {
            let all: Vec<_> = (0..scans).map(|_| scope.spawn(scan)).collect();
            all.into_iter().try_for_each(|one| {
                let found = one.join().expect("a scan does not panic")?;
                ensure!(found.is_some_and(|found| found.is_empty()), "a stranger was paid");
                Ok(())
            })
        })
    })
}

/// Returns the CPU time of libsecp256k1 for all rows: of the multiplication that computes a tweak, and of all that a
/// scan needs.
fn by_library(tweaks: &Tweaks, at: &Snapshot, turns: usize) -> Result<(Duration, Duration)> {
    let rows = tweaks.read(at, Height(0)..Height(tweaks.len(at)))?.context("all are computed")?;
    let scan = Scalar::from_be_bytes(SCAN)?;
    let spend = SecretKey::from_slice(&[2; 32])?.public_key(SECP256K1);
    let points = rows.iter().map(|row| PublicKey::from_slice(row.tweak)).collect::<Result<Vec<_>, _>>()?;
    let multiply = measured(turns, || {
        for point in &points {
            std::hint::black_box(point.mul_tweak(SECP256K1, &scan)?);
        }
        Ok(())
    })?;
    let scanned = measured(turns, || {
        for row in rows.iter() {
            let [_, x @ ..] = PublicKey::from_slice(row.tweak)?.mul_tweak(SECP256K1, &scan)?.serialize();
            // Others hash here, which takes half a microsecond.
            std::hint::black_box(spend.add_exp_tweak(SECP256K1, &Scalar::from_be_bytes(x)?)?.serialize());
        }
        Ok(())
    })?;
    Ok((multiply, scanned))
}

/// Returns the median CPU time of some work.
fn measured(turns: usize, work: impl Fn() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::with_capacity(turns);
    for _ in 0..turns {
        let began = own_cpu();
        work()?;
        times.push(own_cpu().saturating_sub(began));
    }
    times.sort_unstable();
    Ok(times[turns / 2])
}
