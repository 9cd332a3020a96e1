//! State of an invoice from what its address received. Pure: the same payments at the same time have the same state,
//! so a reorg or a replacement takes it back as it came.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::file::InvoiceChange;

/// Terms of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Satoshis that are asked for.
    pub(crate) amount: u64,
    /// End of the time to pay, in seconds since 1970.
    pub(crate) expires: u64,
    /// Blocks, that of the payment among them, after which it is confirmed.
    pub(crate) confirmations: u32,
}

/// An output that pays the address of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Satoshis.
    pub(crate) value: u64,
    /// Blocks from its own to the tip; 0 in the mempool.
    pub(crate) confirmations: u32,
    /// Time at which it was there for certain, in seconds since 1970.
    pub(crate) seen: u64,
}

/// State of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InvoiceState {
    /// Nothing came yet.
    Unpaid,
    /// Less than the amount came, and there is time left.
    Underpaid,
    /// The amount came in time.
    Paid,
    /// More than the amount came in time.
    Overpaid,
    /// The amount came in time, and has its confirmations.
    Confirmed,
    /// The time ended before the amount came.
    Expired,
}

/// State of an invoice and the sums behind it, in satoshis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    /// The state.
    pub(crate) state: InvoiceState,
    /// Received in time.
    pub(crate) received: u64,
    /// The part of it that has its confirmations.
    pub(crate) confirmed: u64,
    /// Received after the end.
    pub(crate) late: u64,
    /// False while the node's mempool is not known, so that more may have come.
    pub(crate) is_known: bool,
}

impl InvoiceState {
    /// Returns the news of a change from another state; `None` where nothing is to be announced.
    pub(crate) fn change_from(self, before: Self) -> Option<InvoiceChange> {
        let rank = |state: Self| match state {
            Self::Unpaid | Self::Underpaid | Self::Expired => 0,
            Self::Paid | Self::Overpaid => 1,
            Self::Confirmed => 2,
        };
        match (rank(before).cmp(&rank(self)), self) {
            _ if before == self => None,
            (Ordering::Greater, _) | (_, Self::Unpaid) => Some(InvoiceChange::TakenBack),
            (Ordering::Less, Self::Confirmed) => Some(InvoiceChange::Confirmed),
            (Ordering::Less, _) => Some(InvoiceChange::Paid),
            (Ordering::Equal, Self::Underpaid) => Some(InvoiceChange::Underpaid),
            (Ordering::Equal, Self::Expired) => Some(InvoiceChange::Expired),
            (Ordering::Equal, Self::Paid | Self::Overpaid | Self::Confirmed) => None,
        }
    }
}

impl Standing {
    /// Returns the state at the time `now`, in seconds since 1970.
    pub(crate) fn of(terms: &Terms, payments: &[Payment], now: u64) -> Self {
        let sum = |counts: &dyn Fn(&Payment) -> bool| {
            payments.iter().filter(|payment| counts(payment)).map(|payment| payment.value).sum::<u64>()
        };
        let in_time = |payment: &Payment| payment.seen <= terms.expires;
        let received = sum(&in_time);
        let confirmed = sum(&|payment| in_time(payment) && payment.confirmations >= terms.confirmations);
        let late = sum(&|payment| !in_time(payment));
        let state = if confirmed >= terms.amount {
            InvoiceState::Confirmed
        } else if received > terms.amount {
            InvoiceState::Overpaid
        } else if received == terms.amount {
            InvoiceState::Paid
        } else if now > terms.expires {
            InvoiceState::Expired
        } else if received > 0 {
            InvoiceState::Underpaid
        } else {
            InvoiceState::Unpaid
        };
        Self { state, received, confirmed, late, is_known: true }
    }

    /// Returns it for payments of the chain alone, while the node's mempool is not known. The state is the one that was
    /// `reported`, unless these payments lead beyond it.
    #[must_use]
    pub(crate) fn without_mempool(self, reported: InvoiceState) -> Self {
        let state = if self.state.is_beyond(reported) { self.state } else { reported };
        Self { state, is_known: false, ..self }
    }
}

impl InvoiceState {
    /// True if only further payments, or further confirmations, lead here from another state.
    fn is_beyond(self, other: Self) -> bool {
        match (self, other) {
            (Self::Expired, _) => false,
            // A payment in time that was not seen before.
            (_, Self::Expired) => !self.asks(),
            _ => self.progress() > other.progress(),
        }
    }

    fn progress(self) -> u8 {
        match self {
            Self::Unpaid | Self::Expired => 0,
            Self::Underpaid => 1,
            Self::Paid => 2,
            Self::Overpaid => 3,
            Self::Confirmed => 4,
        }
    }

    /// True while the customer is asked to pay.
    pub(crate) fn asks(self) -> bool {
        matches!(self, Self::Unpaid | Self::Underpaid)
    }
}

#[cfg(test)]
mod tests {
    use super::InvoiceState::{Confirmed, Expired, Overpaid, Paid, Underpaid, Unpaid};
    use super::*;

    const TERMS: Terms = Terms { amount: 1000, expires: 100, confirmations: 2 };

    fn payment(value: u64, confirmations: u32, seen: u64) -> Payment {
        Payment { value, confirmations, seen }
    }

    #[test]
    fn an_invoice_passes_through_its_states() {
        let cases: [(&[Payment], u64, InvoiceState); 12] = [
            (&[], 100, Unpaid),
            (&[], 101, Expired),
            (&[payment(999, 0, 50)], 60, Underpaid),
            // Confirmations do not make up for what is missing.
            (&[payment(999, 9, 50)], 60, Underpaid),
            (&[payment(999, 9, 50)], 101, Expired),
            (&[payment(400, 0, 50), payment(600, 0, 60)], 60, Paid),
            // Paid in time: it stays so after the end.
            (&[payment(1000, 0, 100)], 500, Paid),
            (&[payment(1000, 1, 100)], 500, Paid),
            (&[payment(1000, 2, 100)], 500, Confirmed),
            (&[payment(1001, 0, 50)], 60, Overpaid),
            // One second late.
            (&[payment(1000, 6, 101)], 101, Expired),
            (&[payment(400, 6, 99), payment(600, 6, 101)], 102, Expired),
        ];
        for (payments, now, expected) in cases {
            assert_eq!(Standing::of(&TERMS, payments, now).state, expected, "{payments:?} at {now}");
        }
    }

    #[test]
    fn sums_tell_what_came_in_time_and_what_came_late() {
        let payments = [payment(700, 3, 10), payment(500, 0, 20), payment(300, 5, 200)];
        let standing = Standing::of(&TERMS, &payments, 300);
        assert_eq!(standing, Standing { state: Overpaid, received: 1200, confirmed: 700, late: 300, is_known: true });
        // The rest of the amount waits for its block, as a whole it is confirmed then.
        let payments = [payment(700, 3, 10), payment(500, 2, 20)];
        assert_eq!(Standing::of(&TERMS, &payments, 300).state, Confirmed);
    }

    #[test]
    fn without_a_mempool_nothing_is_taken_back_and_no_time_ends() {
        let all = [Unpaid, Underpaid, Paid, Overpaid, Confirmed];
        for (number, now) in all.iter().enumerate() {
            for (reported_number, reported) in all.iter().enumerate() {
                let standing = Standing { state: *now, received: 0, confirmed: 0, late: 0, is_known: true };
                let shown = standing.without_mempool(*reported);
                assert_eq!((shown.state, shown.is_known), (all[number.max(reported_number)], false));
            }
        }
        let ended = Standing::of(&TERMS, &[], 101);
        assert_eq!((ended.state, ended.without_mempool(Unpaid).state), (Expired, Unpaid));
        assert_eq!(ended.without_mempool(Paid).state, Paid);
        // What had ended stays so, unless a block shows a payment in time.
        assert_eq!(Standing::of(&TERMS, &[payment(999, 1, 50)], 60).without_mempool(Expired).state, Expired);
        assert_eq!(Standing::of(&TERMS, &[payment(1000, 1, 50)], 101).without_mempool(Expired).state, Paid);
    }

    #[test]
    fn a_change_of_state_is_news_once_and_what_is_taken_back_is_said() {
        use InvoiceState::{Confirmed, Expired, Overpaid, Paid, Underpaid, Unpaid};
        let rows = [
            (Unpaid, Unpaid, None),
            (Unpaid, Underpaid, Some(InvoiceChange::Underpaid)),
            (Underpaid, Paid, Some(InvoiceChange::Paid)),
            (Unpaid, Overpaid, Some(InvoiceChange::Paid)),
            (Paid, Overpaid, None),
            (Overpaid, Confirmed, Some(InvoiceChange::Confirmed)),
            (Unpaid, Confirmed, Some(InvoiceChange::Confirmed)),
            (Confirmed, Paid, Some(InvoiceChange::TakenBack)),
            (Paid, Unpaid, Some(InvoiceChange::TakenBack)),
            (Paid, Expired, Some(InvoiceChange::TakenBack)),
            (Underpaid, Unpaid, Some(InvoiceChange::TakenBack)),
            (Unpaid, Expired, Some(InvoiceChange::Expired)),
        ];
        for (before, now, change) in rows {
            assert_eq!(now.change_from(before), change, "{before:?} {now:?}");
        }
    }
}
