//! Every page against the figures of a scan of chain and mempool.

use birdhouse_silentpayments::AddressNetwork;
use birdhouse_testkit::ledger::{ScriptFacts, SpentState};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::{Address, Network, OutPoint, ScriptBuf, Txid};

use crate::silent_payments;
use crate::world::World;

/// Paths of pages with something on them.
pub(crate) struct Places {
    pub(crate) txid: Txid,
    unconfirmed: Txid,
    child: Txid,
    /// The script with the longest history, and its address.
    pub(crate) busy: ScriptBuf,
    pub(crate) address: String,
    block: String,
    coinbase: Txid,
    /// An address that was paid once.
    pub(crate) fresh: String,
    /// A transaction that was replaced, its replacement, and a child of the first.
    pub(crate) versions: [Txid; 2],
    dropped: Txid,
    /// A transaction that the mempool has, in hexadecimal.
    raw: String,
}

impl Places {
    /// Names and paths. After a line break: the text for the form on that page.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let Self { txid, unconfirmed, child, address, block, coinbase, fresh, versions, dropped, raw, .. } = self;
        let [replaced, replacement] = versions;
        vec![
            ("home", "/".into()),
            ("blocks", "/blocks".into()),
            ("projected", "/mempool-block/0".into()),
            ("history", "/mempool-history/1w".into()),
            ("block", format!("/block/{block}")),
            ("transaction", format!("/tx/{txid}")),
            ("unconfirmed", format!("/tx/{unconfirmed}")),
            ("child", format!("/tx/{child}")),
            ("replaced", format!("/tx/{replaced}")),
            ("replacement", format!("/tx/{replacement}")),
            ("dropped", format!("/tx/{dropped}")),
            ("unspent-output", format!("/tx/{txid}/spender/0")),
            ("coinbase", format!("/tx/{coinbase}")),
            ("address", format!("/address/{address}")),
            ("address-fresh", format!("/address/{fresh}")),
            ("unspent", format!("/address/{fresh}/unspent")),
            ("silent-payment", format!("/address/{}", silent_payments::address(AddressNetwork::Regtest))),
            ("wallet-form", "/addresses".into()),
            ("wallet", format!("/addresses\n{address}\n{fresh}")),
            ("scan-form", "/silent-payments".into()),
            ("push", "/push".into()),
            ("push-refused", "/push\n00".into()),
            ("push-tested", format!("/push/test\n{raw}")),
            ("labels", "/labels".into()),
            ("rest", "/rest".into()),
            ("status", "/status".into()),
            ("not-found", format!("/tx/{}", "00".repeat(32))),
        ]
    }
}

/// Puts a family of transactions into the mempool, and returns pages to look at.
pub(crate) fn places(world: &mut World) -> Places {
    let lock = Lock::new(Form::P2wpkh, 77);
    let script = world.live.wallet().script_pubkey(lock);
    let confirmed = world.live.pay(&[Payment::to_lock(lock, 700_000), Payment::to_lock(lock, 90_000)]).unwrap();
    world.live.mine().unwrap();
    let parent = world.live.pay(&[Payment::to_lock(lock, 500_000)]).unwrap();
    let coin: Coin = world
        .live
        .coins()
        .into_iter()
        .find(|coin| coin.outpoint.txid == parent.compute_txid() && coin.output.script_pubkey == script)
        .unwrap();
    let child = world.live.pay_from(&[coin], &[Payment::to_lock(lock, 120_000)], 50_000).unwrap();
    let (versions, dropped) = replaced(world);
    let ledger = world.live.ledger();
    let busy = busy(world);
    let mined = ledger.chain().last().unwrap();
    let address = |script: &ScriptBuf| Address::from_script(script, Network::Regtest).unwrap().to_string();
    Places {
        txid: confirmed.compute_txid(),
        unconfirmed: parent.compute_txid(),
        child: child.compute_txid(),
        address: address(&busy),
        busy,
        block: mined.hash.to_string(),
        coinbase: mined.txids[0],
        fresh: address(&script),
        versions,
        dropped,
        raw: bitcoin::consensus::encode::serialize_hex(&child),
    }
}

/// A transaction and its replacement, and a child of the first one, which is dropped with it.
fn replaced(world: &mut World) -> ([Txid; 2], Txid) {
    let payment = [Payment::to_lock(Lock::new(Form::P2tr, 78), 60_000)];
    let first = world.live.pay(&payment).unwrap();
    let paid = first.compute_txid();
    let coin = world.live.coins().into_iter().find(|coin| coin.outpoint.txid == paid && coin.sat() == 60_000).unwrap();
    let child = world.live.pay_from(&[coin], &[Payment::to_lock(Lock::new(Form::P2tr, 79), 20_000)], 5_000).unwrap();
    world.sync();
    let second = world.live.replace(&first, &payment, 90_000).unwrap();
    world.sync();
    ([paid, second.compute_txid()], child.compute_txid())
}

/// The script with an address and the longest history.
fn busy(world: &World) -> ScriptBuf {
    let scripts = world.live.ledger().scripts().into_iter();
    let named = scripts.filter(|(script, _)| Address::from_script(script, Network::Regtest).is_ok());
    named.max_by_key(|(_, facts)| facts.confirmed.len()).unwrap().0
}

pub(crate) fn page(world: &World, path: &str) -> String {
    let got = world.rest.get(path);
    assert_eq!((got.status, got.header("content-type")), (200, "text/html; charset=utf-8"), "{path}: {}", got.text());
    got.text()
}

/// The text of a page without its markup, with spaces instead of narrow and fixed ones.
pub(crate) fn text(page: &str) -> String {
    let mut text = String::new();
    let mut is_inside = false;
    for char in page.chars() {
        match char {
            '<' => is_inside = true,
            '>' => is_inside = false,
            '\u{a0}' | '\u{202f}' if !is_inside => text.push(' '),
            char if !is_inside => text.push(char),
            _ => {}
        }
    }
    text
}

/// An amount as pages write it.
pub(crate) fn btc(sat: u64) -> String {
    format!("{}.{:08} BTC", sat / 100_000_000, sat % 100_000_000)
}

/// The link to an output: its transaction has 50 on a page.
pub(crate) fn link_of(OutPoint { txid, vout }: OutPoint) -> String {
    match vout / 50 * 50 {
        0 => format!("href=\"/tx/{txid}#output-{vout}\""),
        start => format!("href=\"/tx/{txid}?outputs={start}#output-{vout}\""),
    }
}

/// All txids that a page links to, in order, each once.
pub(crate) fn linked(page: &str) -> Vec<Txid> {
    let mut all: Vec<Txid> = Vec::new();
    for txid in page.split("href=\"/tx/").skip(1).filter_map(|part| part.get(..64)?.parse().ok()) {
        if !all.contains(&txid) {
            all.push(txid);
        }
    }
    all
}

#[test]
fn first_page_and_blocks_have_the_chain_and_the_mempool() {
    let mut world = World::small(81);
    let places = places(&mut world);
    let home = page(&world, "/");
    let ledger = world.live.ledger();
    for mined in ledger.chain().iter().rev().take(8) {
        assert!(home.contains(&format!("href=\"/block/{}\"", mined.hash)), "{}", mined.hash);
    }
    for txid in [places.unconfirmed, places.child] {
        assert!(linked(&home).contains(&txid));
    }
    let waiting = ledger.mempool();
    let fees: u64 = waiting.values().map(|one| one.fee_sat).sum();
    let plain = text(&home);
    assert!(plain.contains(&format!("Transactions{}", waiting.len())) && plain.contains(&btc(fees)), "{plain}");
    // Every block is on one page of the list.
    let (mut path, mut seen) = ("/blocks".to_owned(), 0);
    loop {
        let list = page(&world, &path);
        seen += list.matches("<th scope=\"row\">").count();
        let Some((_, older)) = list.rsplit_once("<a href=\"/blocks/").filter(|(_, rest)| rest.contains(">Older</a>"))
        else {
            break;
        };
        path = format!("/blocks/{}", older.split('"').next().unwrap());
    }
    assert_eq!(seen, ledger.chain().len());
}

#[test]
fn pages_of_a_block_list_its_transactions_with_their_fees() {
    let world = World::start(82);
    let ledger = world.live.ledger();
    let outputs = ledger.outputs();
    let (height, mined) = (0_u32..).zip(ledger.chain()).max_by_key(|(_, mined)| mined.txids.len()).unwrap();
    let mut listed = Vec::new();
    for start in (0..mined.txids.len()).step_by(25) {
        listed.extend(linked(&page(&world, &format!("/block/{}?start={start}", mined.hash))));
    }
    assert_eq!(listed, mined.txids);
    let fee = |tx: &bitcoin::Transaction| -> u64 {
        let taken = tx.input.iter().map(|input| outputs[&input.previous_output].output.value.to_sat()).sum::<u64>();
        taken - tx.output.iter().map(|output| output.value.to_sat()).sum::<u64>()
    };
    let total: u64 = mined.block.txdata.iter().skip(1).map(fee).sum();
    let plain = text(&page(&world, &format!("/block/{height}")));
    assert!(plain.contains(&format!("All together{}", btc(total))), "{plain}");
    for figure in
        [mined.hash.to_string(), mined.block.header.merkle_root.to_string(), mined.block.header.nonce.to_string()]
    {
        assert!(plain.contains(&figure), "{figure}");
    }
}

#[test]
fn pages_of_transactions_have_inputs_outputs_spenders_and_their_place() {
    let mut world = World::small(83);
    let places = places(&mut world);
    let ledger = world.live.ledger();
    let outputs = ledger.outputs();
    let confirmed = ledger.chain().iter().flat_map(|mined| &mined.block.txdata);
    let waiting = ledger.mempool().values().map(|waiting| &waiting.tx);
    let all: Vec<_> = confirmed.chain(waiting).collect();
    let spends = |tx: &bitcoin::Transaction| {
        let txid = tx.compute_txid();
        tx.input.iter().map(move |input| (input.previous_output, txid)).collect::<Vec<_>>()
    };
    let spenders: std::collections::HashMap<_, _> = all.iter().flat_map(|tx| spends(tx)).collect();
    // Every third, from the unconfirmed ones back.
    for tx in all.iter().rev().step_by(3) {
        let txid = tx.compute_txid();
        let starts = (0..tx.output.len()).step_by(50);
        let markup: String = starts.map(|start| page(&world, &format!("/tx/{txid}?outputs={start}"))).collect();
        let plain = text(&markup);
        for input in tx.input.iter().filter(|_| !tx.is_coinbase()) {
            let from = link_of(input.previous_output);
            assert!(markup.contains(&from), "{txid} {from}");
            assert!(plain.contains(&btc(outputs[&input.previous_output].output.value.to_sat())), "{txid}");
        }
        for (vout, output) in (0..).zip(&tx.output) {
            assert!(plain.contains(&btc(output.value.to_sat())), "{txid}:{vout}");
            let outpoint = bitcoin::OutPoint { txid, vout };
            if let Some(spender) = spenders.get(&outpoint) {
                let direct = [format!("/tx/{spender}#input-"), format!("/tx/{spender}?inputs=")];
                let on_request = format!("/tx/{txid}/spender/{vout}");
                if !direct.iter().any(|path| markup.contains(&format!("href=\"{path}"))) {
                    assert!(markup.contains(&on_request), "{txid}:{vout}");
                    let found = world.rest.get(&on_request);
                    assert_eq!(found.status, 303);
                    assert!(direct.iter().any(|path| found.header("location").starts_with(path)));
                }
            }
        }
    }
    // The child pays for its parent, and both come with the next block.
    let parent = text(&page(&world, &format!("/tx/{}", places.unconfirmed)));
    assert!(parent.contains("the next block") && parent.contains("Descendants (CPFP)"), "{parent}");
    assert!(parent.contains(&places.child.to_string()));
    let child = text(&page(&world, &format!("/tx/{}", places.child)));
    assert!(child.contains("Ancestors (CPFP)") && child.contains(&places.unconfirmed.to_string()), "{child}");
}

// === addresses ===

/// Changes of a script's balance in chain order, from the model.
fn changes(world: &World, script: &ScriptBuf, facts: &ScriptFacts) -> Vec<(Txid, i64)> {
    let ledger = world.live.ledger();
    let outputs = ledger.outputs();
    let all: std::collections::HashMap<Txid, &bitcoin::Transaction> =
        ledger.chain().iter().flat_map(|mined| mined.txids.iter().copied().zip(&mined.block.txdata)).collect();
    let change = |txid: &Txid| {
        let tx = all[txid];
        let paid = tx.output.iter().filter(|output| output.script_pubkey == *script);
        let taken = tx.input.iter().filter_map(|input| outputs.get(&input.previous_output));
        let taken = taken.filter(|output| output.output.script_pubkey == *script);
        let sum = |values: &mut dyn Iterator<Item = u64>| i64::try_from(values.sum::<u64>()).unwrap();
        sum(&mut paid.map(|output| output.value.to_sat())) - sum(&mut taken.map(|output| output.output.value.to_sat()))
    };
    facts.confirmed.iter().map(|(_, txid)| (*txid, change(txid))).collect()
}

/// Transactions and balances of the table `history` of a page, newest first.
fn rows(page: &str) -> Vec<(Txid, String)> {
    let (_, history) = page.split_once("id=\"history\"").unwrap();
    let rows = history.split("</section>").next().unwrap().split("<tr>").skip(2);
    let row = |row: &str| {
        let cells: Vec<&str> = row.split("</td>").collect();
        (linked(row)[0], text(cells[4]).trim().to_owned())
    };
    rows.map(row).collect()
}

/// The target of a link by its text.
fn target(page: &str, name: &str) -> Option<String> {
    let (before, _) = page.split_once(&format!("\">{name}</a>"))?;
    let path = before.rsplit_once("href=\"")?.1.split('#').next()?;
    Some(path.replace("&amp;", "&"))
}

#[test]
fn a_history_has_every_transaction_and_its_running_balance_from_both_ends() {
    let mut world = World::start(84);
    let places = places(&mut world);
    world.live.mine().unwrap();
    world.sync();
    let scripts = world.live.ledger().scripts();
    let changes = changes(&world, &places.busy, &scripts[&places.busy]);
    assert!(changes.len() > 60, "{}", changes.len());
    let mut balance = 0_u64;
    let mut expected: Vec<(Txid, String)> = Vec::new();
    for (txid, change) in &changes {
        balance = balance.checked_add_signed(*change).unwrap();
        expected.push((*txid, btc(balance).replace(" BTC", "")));
    }
    expected.reverse();
    let base = format!("/address/{}", places.address);
    let walk = |start: String, link: &str| -> Vec<Vec<(Txid, String)>> {
        let mut pages = Vec::new();
        let mut next = Some(start);
        while let Some(path) = next {
            let markup = page(&world, &path);
            pages.push(rows(&markup));
            next = target(&markup, link);
        }
        pages
    };
    let downwards = walk(base.clone(), "Older").concat();
    assert_eq!(downwards, expected);
    let mut upwards = walk(format!("{base}?oldest"), "Newer");
    upwards.reverse();
    assert_eq!(upwards.concat(), expected);
    // A balance that is not ours is not shown.
    let cursor = expected[30].0;
    let forged = page(&world, &format!("{base}?before={cursor}&balance=123-0123456789abcdef"));
    assert!(!text(&forged).contains("Balance (BTC)") && forged.contains("Balances are shown on pages"));
    let older: Vec<Txid> = linked(&forged);
    assert_eq!(older, expected[31..56].iter().map(|(txid, _)| *txid).collect::<Vec<_>>());
    assert_eq!(world.rest.get(&format!("{base}?before={}", places.txid)).status, 404);
}

#[test]
fn addresses_have_the_models_balance_unspent_outputs_and_file() {
    let mut world = World::small(85);
    places(&mut world);
    let mut charts = 0;
    for (script, facts) in world.live.ledger().scripts() {
        let Ok(address) = Address::from_script(&script, Network::Regtest) else { continue };
        let changes = changes(&world, &script, &facts);
        let balance: i64 = changes.iter().map(|(_, change)| change).sum();
        let plain = text(&page(&world, &format!("/address/{address}")));
        assert!(plain.contains(&format!("Balance{}", btc(u64::try_from(balance).unwrap()))), "{address}: {plain}");
        let balances = changes.iter().scan(0, |balance, (_, change)| {
            *balance += change;
            Some(u64::try_from(*balance).unwrap())
        });
        if let (Some(most), 2..) = (balances.max(), changes.len()) {
            let now = btc(u64::try_from(balance).unwrap());
            let label = format!("{} changes of the balance: at most {}, now {now}", changes.len(), btc(most));
            let markup = page(&world, &format!("/address/{address}"));
            // A history that takes more than a few reads has none.
            if markup.contains("class=\"chart\"") {
                charts += 1;
                assert!(markup.replace('\u{202f}', "").contains(&label), "{address}: {label}");
            }
        }
        let unspent = page(&world, &format!("/address/{address}/unspent"));
        let open = facts.outputs.iter().filter(|output| output.spent == SpentState::No);
        let mut count = 0;
        for output in open {
            count += 1;
            let link = link_of(output.outpoint);
            assert!(unspent.contains(&link), "{address} {link}");
        }
        assert_eq!(unspent.matches("#output-").count(), count, "{address}");
        let file = world.rest.get(&format!("/address/{address}/history.csv"));
        assert_eq!((file.status, file.header("content-type")), (200, "text/csv; charset=utf-8"));
        let file = file.text();
        let lines: Vec<Vec<&str>> = file.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let expected = changes.iter().rev().map(|(txid, change)| (txid.to_string(), change.to_string()));
        assert!(lines.iter().map(|line| (line[2].to_owned(), line[3].to_owned())).eq(expected), "{address}: {file}");
        if let Some(newest) = lines.first() {
            assert_eq!(newest[4], balance.to_string(), "{address}");
        }
    }
    assert!(charts > 5, "{charts}");
}

#[test]
fn unspent_outputs_come_in_pages() {
    let mut world = World::small(86);
    let lock = Lock::new(Form::P2wpkh, 95);
    let payments: Vec<Payment> = (0..130).map(|number| Payment::to_lock(lock, 1_000 + number)).collect();
    world.live.pay(&payments[..60]).unwrap();
    world.live.mine().unwrap();
    world.live.pay(&payments[60..]).unwrap();
    world.sync();
    let script = world.live.wallet().script_pubkey(lock);
    let address = Address::from_script(&script, Network::Regtest).unwrap();
    let (mut values, mut pages, mut next) = (Vec::new(), 0, Some(format!("/address/{address}/unspent")));
    while let Some(path) = next {
        let markup = page(&world, &path);
        let plain = text(&markup);
        let heading = if pages == 0 { "1\u{2013}100 of 130 unspent outputs" } else { "101\u{2013}130 of 130" };
        assert!(plain.contains(heading), "{plain}");
        let rows = markup.split("<tr>").skip(2);
        values.extend(rows.map(|row| text(row.split("</td>").nth(2).unwrap()).trim().to_owned()));
        (pages, next) = (pages + 1, target(&markup, "After"));
    }
    // The mempool's first, and each once.
    let (newest, oldest) = values.split_at(70);
    for (found, numbers) in [(newest, 60..130), (oldest, 0..60)] {
        let mut found = found.to_vec();
        found.sort();
        assert_eq!(found, numbers.map(|number| btc(1_000 + number).replace(" BTC", "")).collect::<Vec<_>>());
    }
    assert_eq!((pages, world.rest.get(&format!("/address/{address}/unspent?start=130")).status), (2, 404));
}
