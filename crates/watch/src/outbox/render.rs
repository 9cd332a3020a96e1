//! Messages of notices: one plain line, without Markdown and pictures, which clients of direct messages show badly.

use std::fmt::Write as _;

use crate::channel::{Message, Priority};
use crate::file::InvoiceChange;
use crate::notice::{Amounts, InvoiceNotice, Notice, NoticeKind};

/// Returns the message of a notice. A click opens the transaction below an address, as `https://explorer.example.org`.
pub fn render(notice: &Notice, explorer: Option<&str>) -> Message {
    let click = explorer.zip(notice.txid).map(|(base, txid)| format!("{}/tx/{txid}", base.trim_end_matches('/')));
    Message {
        id: notice.id.to_string(),
        created: notice.at,
        title: title(notice),
        line: line(notice, Amounts::describe, balance_of),
        line_without_amounts: line(notice, Amounts::describe_without, |_| String::new()),
        priority: if notice.is_alarm() { Priority::Alarm } else { priority(&notice.kind) },
        click,
        body: serde_json::to_value(notice).expect("its keys are texts"),
    }
}

impl Amounts {
    /// Describes the change of the balance.
    fn describe(&self) -> String {
        match self.spent.checked_sub(self.received) {
            _ if self.spent == 0 => format!("received {}", btc(self.received)),
            Some(net) => format!("spent {}", btc(net)),
            None => format!("received {}", btc(self.received - self.spent)),
        }
    }

    fn describe_without(&self) -> String {
        if self.spent > self.received { "spent".into() } else { "received".into() }
    }
}

fn title(notice: &Notice) -> String {
    match notice.amounts.spent {
        _ if !notice.is_alarm() => notice.watch.to_string(),
        0 => format!("{} may have been spent from", notice.watch),
        _ => format!("{} was spent from", notice.watch),
    }
}

fn priority(kind: &NoticeKind) -> Priority {
    match kind {
        NoticeKind::Replaced { .. } | NoticeKind::Dropped | NoticeKind::Reorganised => Priority::High,
        NoticeKind::Invoice(invoice) if invoice.state == InvoiceChange::TakenBack => Priority::High,
        NoticeKind::Health(health) if !health.is_over => Priority::High,
        _ => Priority::Usual,
    }
}

fn balance_of(notice: &Notice) -> String {
    let Some(balance) = notice.balance else { return String::new() };
    let total = i128::from(balance.confirmed) + i128::from(balance.unconfirmed);
    format!(", balance {}", btc(u64::try_from(total).unwrap_or_default()))
}

/// Writes an amount of satoshis.
fn btc(sat: u64) -> String {
    const BITCOIN: u64 = 100_000_000;
    format!("{}.{:08} BTC", sat / BITCOIN, sat % BITCOIN)
}

fn line(notice: &Notice, amounts: impl Fn(&Amounts) -> String, balance: impl Fn(&Notice) -> String) -> String {
    let is_unknown = notice.is_partial && notice.amounts == Amounts::default();
    let what = if is_unknown { "an unknown amount".to_owned() } else { amounts(&notice.amounts) };
    let text = match &notice.kind {
        NoticeKind::Seen => match notice.block {
            Some(block) => format!("{what}, in block {}", block.height.0),
            None => format!("{what}, unconfirmed"),
        },
        NoticeKind::Confirmed { confirmations: 1 } => format!("{what}, 1 confirmation"),
        NoticeKind::Confirmed { confirmations } => format!("{what}, {confirmations} confirmations"),
        NoticeKind::Replaced { by } => format!("{what} was replaced by txid {by}"),
        NoticeKind::Dropped => format!("{what} left the mempool unconfirmed"),
        NoticeKind::Reorganised => format!("{what} was taken back by a reorg"),
        NoticeKind::Digest { transactions, .. } if notice.amounts == Amounts::default() && !is_unknown => {
            format!("{transactions} known transactions changed")
        }
        NoticeKind::Digest { transactions, .. } => format!("{what} in {transactions} transactions"),
        NoticeKind::Invoice(invoice) => invoice_line(invoice, &what),
        NoticeKind::Test => "this channel works".to_owned(),
        NoticeKind::Health(health) if health.is_over => format!("well again: {}", health.text),
        NoticeKind::Health(health) => health.text.clone(),
    };
    let mut line = format!("{}: {text}", notice.watch);
    if !matches!(notice.kind, NoticeKind::Test | NoticeKind::Health(_)) {
        if notice.is_partial {
            let whole = if notice.txid.is_some() { "the transaction" } else { "these transactions" };
            let _ = write!(line, ", a part of {whole} is no longer known");
        }
        line.push_str(&balance(notice));
    }
    if let Some(txid) = notice.txid {
        let _ = write!(line, ", txid {txid}");
    }
    // Nothing breaks the line, whatever the name of a watch holds.
    line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Describes a change of an invoice. `what` is the sum that came, or that something came.
fn invoice_line(invoice: &InvoiceNotice, what: &str) -> String {
    let name = invoice.label.as_deref().unwrap_or(&invoice.invoice);
    match invoice.state {
        InvoiceChange::Paid => format!("invoice {name} is paid, {what}"),
        InvoiceChange::Underpaid => format!("invoice {name} is paid in part, {what}"),
        InvoiceChange::Confirmed => format!("invoice {name} is paid and confirmed, {what}"),
        InvoiceChange::Expired => format!("invoice {name} has expired"),
        InvoiceChange::TakenBack => format!("a payment of invoice {name} was taken back"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_chain::Balance;

    use super::*;
    use crate::outbox::tests::notice;

    const TXID: &str = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";

    fn payment(kind: NoticeKind, received: u64, spent: u64) -> Notice {
        let balance = Some(Balance { confirmed: 250_000_000, unconfirmed: -50_000_000 });
        let (txid, amounts) = (Some(TXID.parse().unwrap()), Amounts { received, spent });
        Notice { kind, txid, amounts, balance, ..notice(1, 1_790_000_000) }
    }

    #[test]
    fn a_payment_is_one_line_with_amounts_and_one_without() {
        let message = render(&payment(NoticeKind::Seen, 1_000_000, 0), Some("https://example.org/"));
        let line = format!("number 1: received 0.01000000 BTC, unconfirmed, balance 2.00000000 BTC, txid {TXID}");
        assert_eq!(message.line, line);
        assert_eq!(message.line_without_amounts, format!("number 1: received, unconfirmed, txid {TXID}"));
        assert_eq!(message.click.unwrap(), format!("https://example.org/tx/{TXID}"));
        assert_eq!((message.priority, message.title.as_str()), (Priority::Usual, "number 1"));
        assert_eq!(message.body["kind"], "seen");
    }

    #[test]
    fn a_spend_says_what_left_the_wallet_and_alarms_where_it_is_cold() {
        let spend = payment(NoticeKind::Confirmed { confirmations: 6 }, 400, 1_000);
        let message = render(&spend, None);
        assert!(message.line.contains("spent 0.00000600 BTC, 6 confirmations"), "{}", message.line);
        assert_eq!(message.priority, Priority::Usual);
        let message = render(&Notice { is_cold: true, ..spend }, None);
        assert_eq!((message.priority, message.title.as_str()), (Priority::Alarm, "number 1 was spent from"));
        let received = Notice { is_cold: true, ..payment(NoticeKind::Seen, 1_000, 0) };
        assert_eq!(render(&received, None).priority, Priority::Usual);
        // It may be a spend with change.
        for amounts in [received.amounts, Amounts::default()] {
            let message = render(&Notice { is_partial: true, amounts, ..received.clone() }, None);
            let title = "number 1 may have been spent from";
            assert_eq!((message.priority, message.title.as_str()), (Priority::Alarm, title));
            assert!(!message.line.contains("0.00000000 BTC"), "{}", message.line);
        }
    }

    #[test]
    fn a_digest_of_the_past_is_no_alarm_and_one_after_a_pause_is() {
        let digest = |is_past| {
            let kind = NoticeKind::Digest { transactions: 60, is_past };
            Notice { is_cold: true, txid: None, ..payment(kind, 400, 1_000) }
        };
        assert_eq!(render(&digest(true), None).priority, Priority::Usual);
        assert_eq!(render(&digest(false), None).priority, Priority::Alarm);
        let known = Notice { amounts: Amounts::default(), ..digest(false) };
        let message = render(&known, None);
        assert!(message.line.contains("number 1: 60 known transactions changed, balance"), "{}", message.line);
        assert_eq!(message.priority, Priority::Usual);
    }

    /// Beside a pruned node a payment whose inputs are unknown may be a spend, whatever it paid.
    #[test]
    fn a_digest_of_a_cold_watch_with_a_part_unknown_is_an_alarm() {
        let digest = |is_past, received| {
            let kind = NoticeKind::Digest { transactions: 60, is_past };
            Notice { is_cold: true, is_partial: true, txid: None, ..payment(kind, received, 0) }
        };
        for received in [0, 400] {
            let message = render(&digest(false, received), None);
            let title = "number 1 may have been spent from";
            assert_eq!((message.priority, message.title.as_str()), (Priority::Alarm, title), "{received}");
            assert!(!message.line.contains("known transactions changed"), "{}", message.line);
            assert_eq!(render(&digest(true, received), None).priority, Priority::Usual);
            let usual = Notice { is_cold: false, ..digest(false, received) };
            assert_eq!(render(&usual, None).priority, Priority::Usual);
        }
        let message = render(&digest(false, 0), None);
        assert!(message.line.starts_with("number 1: an unknown amount in 60 transactions"), "{}", message.line);
    }

    #[test]
    fn an_invoice_is_one_line_with_its_label() {
        let invoice = |state, label: Option<&str>| {
            let (invoice, label) = ("00ff".to_owned(), label.map(str::to_owned));
            let kind = NoticeKind::Invoice(InvoiceNotice { invoice, state, label, amount: 150_000 });
            Notice { txid: None, balance: None, ..payment(kind, 150_000, 0) }
        };
        let message = render(&invoice(InvoiceChange::Paid, Some("Order 7")), None);
        assert_eq!(message.line, "number 1: invoice Order 7 is paid, received 0.00150000 BTC");
        assert_eq!(message.line_without_amounts, "number 1: invoice Order 7 is paid, received");
        assert_eq!((&message.body["kind"], &message.body["state"]), (&"invoice".into(), &"paid".into()));
        let message = render(&invoice(InvoiceChange::TakenBack, None), None);
        assert_eq!(message.line, "number 1: a payment of invoice 00ff was taken back");
        assert_eq!(message.priority, Priority::High);
    }

    #[test]
    fn a_name_cannot_break_the_line() {
        let watch = crate::file::WatchName::new("a\r\nb");
        let message = render(&Notice { watch, ..payment(NoticeKind::Dropped, 1, 0) }, None);
        assert!(message.line.starts_with("a  b: ") && !message.line.contains('\n'));
    }
}
