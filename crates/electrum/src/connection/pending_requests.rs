//! Requests that a client has sent and that have not started: their parsing, admission and start.
//!
//! Requests that arrive within 100 us are collected, at most 64, because a thread serves nobody else until a job
//! starts. A long message is parsed on the thread that has it, after Tokio has moved that thread's other tasks away
//! (`block_in_place`).

use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::{Executor, Turn};

use crate::client::{Admission, Client, ConnectionState};
use crate::connection::silent_requests::{Admitted, Silent, SilentPayments};
use crate::error::RpcError;
use crate::job;
use crate::job::{Call, Form, Slot, Task};
use crate::limits::{Limits, SILENT_BATCH_MAX};
use crate::protocol::{Envelope, Id, Invalid, Item, Line};
use crate::request::{holds_scan_key, is_about_tweaks};
use crate::service::Service;
use crate::settings::TweakDialect;

/// Requests of one job that came in messages of their own, at most.
const PENDING_MAX: usize = 64;
/// A longer message is parsed while others are served: a megabyte takes milliseconds.
const PARSED_INLINE_BYTES: usize = 32 * 1024;

/// Requests that came in messages of their own and have not started yet.
pub(super) struct PendingRequests<'a> {
    service: &'a Arc<Service>,
    client: &'a Arc<Client>,
    calls: Vec<Call>,
    arrived: Instant,
    /// Turn in which they are admitted and begin.
    turn: Option<Turn>,
    /// Time from which they were collected, in that turn.
    began: Instant,
    /// Error that answers every request for now: the client has used too much.
    refusal: Option<RpcError>,
    /// The last message held a scan key, as far as it could be parsed.
    is_secret: bool,
}

/// Right of the client to stay connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Stays,
    SentAway,
}

impl<'a> PendingRequests<'a> {
    /// Begins to collect requests that arrived at `arrived`.
    pub(super) fn new(service: &'a Arc<Service>, client: &'a Arc<Client>, arrived: Instant) -> Self {
        let refusal = client.meter.check(arrived).err().map(RpcError::overdrawn);
        Self { service, client, calls: Vec::new(), arrived, turn: None, began: arrived, refusal, is_secret: false }
    }

    /// Returns true if the last message must be wiped.
    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Returns true if the client has used too much, and gets errors alone.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns true if another message may join these requests.
    pub(super) fn has_room(&self) -> bool {
        self.calls.len() < PENDING_MAX && self.began.elapsed() < self.service.settings.collect_time_max
    }

    /// Admits the requests of a message. A batch starts at once; other requests wait for [`Self::end`].
    pub(super) async fn take_message(&mut self, message: &[u8]) -> Presence {
        let mut turn = self.turn().await;
        let (form, items) = match parse(message, self.client.limits()) {
            Ok(Line::Single(item)) => (Form::Lines, vec![item]),
            Ok(Line::Batch(items)) => (Form::Batch, items),
            Err(error) => (Form::Lines, vec![Err(Invalid { id: Id::null(), error })]),
        };
        self.is_secret = items.iter().any(may_hold_scan_key);
        let permits = self.client.permits(items.len());
        self.client.meter.received(message.len(), items.len());
        let has_permits = self.client.try_take_permits(permits);
        if !has_permits || form == Form::Batch && !self.calls.is_empty() {
            // No turn is held while waiting for something else.
            self.start(turn);
            if !has_permits {
                self.client.take_permits(permits).await;
            }
            turn = self.turn().await;
        }
        let (calls, presence) = self.admit(items);
        match form {
            Form::Lines => {
                self.calls.extend(calls);
                self.turn = Some(turn);
            }
            Form::Batch => job::start(self.service, self.client, Form::Batch, calls, self.arrived, turn),
        }
        presence
    }

    fn admit(&self, items: Vec<Item<'_>>) -> (Vec<Call>, Presence) {
        let (settings, meter, limits) = (&self.service.settings, &self.client.meter, self.client.limits());
        let terms = Terms {
            software: &settings.server_version,
            subscriptions_max: meter.subscriptions_max(
                limits.subscriptions,
                limits.client_subscriptions,
                settings.limits.subscriptions,
            ),
            refusal: self.refusal.as_ref(),
            tweaks: settings.tweak_dialect,
        };
        let silent = Silent::new(self.service, self.client);
        let mut state = self.client.state();
        let admitted = admit(items, &mut state, terms, &silent);
        meter.follows(state.subscriptions());
        admitted
    }

    async fn turn(&mut self) -> Turn {
        if let Some(turn) = self.turn.take() {
            return turn;
        }
        let turn = self.service.reads.processors.take(&self.client.meter).await;
        self.began = Instant::now();
        turn
    }

    fn start(&mut self, turn: Turn) {
        if !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            job::start(self.service, self.client, Form::Lines, calls, self.arrived, turn);
        }
    }

    /// Starts the requests that wait.
    pub(super) fn end(mut self) {
        if let Some(turn) = self.turn.take() {
            self.start(turn);
        }
    }
}

/// Returns true for a request that holds a scan key, and for what is no request: nobody knows what it holds.
fn may_hold_scan_key(item: &Item<'_>) -> bool {
    item.as_ref().map_or(true, |envelope| holds_scan_key(&envelope.method))
}

fn parse<'a>(message: &'a [u8], limits: &Limits) -> Result<Line<'a>, RpcError> {
    Executor::for_bytes(message.len(), PARSED_INLINE_BYTES).run(|| Line::parse(message, limits))
}

/// Conditions under which requests are admitted.
#[derive(Debug, Clone, Copy)]
struct Terms<'a> {
    /// Name of the server's software.
    software: &'a str,
    subscriptions_max: usize,
    /// Error that answers every request for now.
    refusal: Option<&'a RpcError>,
    /// Methods of tweaks that are served.
    tweaks: TweakDialect,
}

impl Terms<'_> {
    /// Returns true for a method of tweaks that is not served.
    fn lacks(&self, method: &str) -> bool {
        is_about_tweaks(method)
            && match self.tweaks {
                TweakDialect::Off => true,
                TweakDialect::V1 => !method.ends_with(".subscribe"),
                TweakDialect::V2 => false,
            }
    }
}

/// Admits the items of a message in order: one call each.
fn admit(
    items: Vec<Item<'_>>,
    state: &mut ConnectionState,
    terms: Terms<'_>,
    silent: &impl SilentPayments,
) -> (Vec<Call>, Presence) {
    let (mut presence, mut silent_requests) = (Presence::Stays, 0);
    let mut admit_one = |item: Item<'_>| {
        let Envelope { id, method, args } = match item {
            Ok(envelope) => envelope,
            Err(Invalid { id, error }) => return Call::answered(Some(id), None, Err(error)),
        };
        if terms.lacks(&method) || holds_scan_key(&method) && !silent.is_known() {
            return Call::answered(id, None, Err(RpcError::unknown_method(&method)));
        }
        let request = match state.read(&method, args) {
            Ok(request) => request,
            Err(error) => return Call::answered(id, None, Err(error)),
        };
        let kind = Some(request.kind());
        if let Some(refusal) = terms.refusal {
            return Call::answered(id, kind, Err(refusal.clone()));
        }
        match state.admit(request, terms.software, terms.subscriptions_max) {
            Admission::Run(work, topic) => Call { slot: Slot { id, kind, topic }, task: Task::Run(work) },
            Admission::Answer(result) => Call::answered(id, kind, result),
            Admission::Silent(_) if silent_requests == SILENT_BATCH_MAX => {
                let message =
                    format_args!("a batch may have at most {SILENT_BATCH_MAX} requests about silent payments");
                Call::answered(id, kind, Err(RpcError::excessive(message)))
            }
            Admission::Silent(request) => {
                silent_requests += 1;
                match silent.admit(state, request) {
                    Ok(Admitted { answer, topic }) => {
                        Call { slot: Slot { id, kind, topic }, task: Task::Answered(Ok(answer)) }
                    }
                    Err(error) => Call::answered(id, kind, Err(error)),
                }
            }
            Admission::Farewell(error) => {
                presence = Presence::SentAway;
                Call::answered(id, kind, Err(error))
            }
        }
    };
    let calls = items.into_iter().map(&mut admit_one).collect();
    (calls, presence)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::protocol::Answer;
    use crate::request::{FeeQuery, IndexRequest, MemoryRequest, Read, SilentRequest, Work};
    use proptest::prelude::*;

    #[test]
    fn requests_about_silent_payments_beyond_their_bound_in_a_batch_are_refused() {
        struct Accepting;

        impl SilentPayments for Accepting {
            fn is_known(&self) -> bool {
                true
            }

            fn admit(&self, _: &mut ConnectionState, _: SilentRequest) -> Result<Admitted, RpcError> {
                Ok(Admitted { answer: Answer::Null, topic: None })
            }
        }

        let (scan, spend) = ("11".repeat(32), format!("02{}", "22".repeat(32)));
        let method = "blockchain.silentpayments.subscribe";
        let request = |id: usize| serde_json::json!({ "id": id, "method": method, "params": [scan, spend] });
        let line = serde_json::Value::from((0..SILENT_BATCH_MAX + 2).map(request).collect::<Vec<_>>()).to_string();
        let Ok(Line::Batch(items)) = Line::parse(line.as_bytes(), &Limits::default()) else { panic!("a batch") };
        let terms = Terms { software: "test", subscriptions_max: 10, refusal: None, tweaks: TweakDialect::Off };
        let (calls, _) = admit(items, &mut ConnectionState::new(), terms, &Accepting);
        let refused =
            calls.iter().filter(|call| matches!(&call.task, Task::Answered(Err(error)) if error.is_refusal()));
        assert_eq!(refused.count(), 2);
    }

    /// A server without an index of silent payments.
    struct NoSilentPayments;

    impl SilentPayments for NoSilentPayments {
        fn is_known(&self) -> bool {
            false
        }

        fn admit(&self, _: &mut ConnectionState, _: SilentRequest) -> Result<Admitted, RpcError> {
            unreachable!("the methods are not known")
        }
    }

    /// The calls of a line that a fresh client sends.
    fn calls(line: &[u8]) -> Result<Vec<Call>, RpcError> {
        let terms = Terms { software: "test", subscriptions_max: 10, refusal: None, tweaks: TweakDialect::Off };
        let items = match Line::parse(line, &Limits::default())? {
            Line::Single(item) => vec![item],
            Line::Batch(items) => items,
        };
        Ok(admit(items, &mut ConnectionState::new(), terms, &NoSilentPayments).0)
    }

    /// JSON that is nearly a request.
    fn near_request() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
            "[0-9a-f]{64}".prop_map(Into::into),
        ];
        let params = prop_oneof![
            proptest::collection::vec(leaf.clone(), 0..4).prop_map(serde_json::Value::from),
            proptest::collection::btree_map("scripthash|height|tx_hash|cp_height", leaf.clone(), 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            leaf.clone(),
        ];
        let method = prop_oneof![
            Just("blockchain.scripthash.subscribe"),
            Just("blockchain.scripthash.get_history"),
            Just("blockchain.block.headers"),
            Just("blockchain.transaction.get"),
            Just("blockchain.transaction.id_from_pos"),
            Just("blockchain.estimatefee"),
            Just("server.version"),
            Just("server.ping"),
            Just("none"),
        ];
        (leaf, method, params)
            .prop_map(|(id, method, params)| serde_json::json!({ "id": id, "method": method, "params": params }))
    }

    proptest! {
        #[test]
        fn any_bytes_become_one_call_an_item_or_one_error(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(calls) = calls(&line) {
                prop_assert!(!calls.is_empty());
            }
        }

        #[test]
        fn any_near_request_becomes_exactly_one_call(request in near_request()) {
            let calls = calls(request.to_string().as_bytes()).unwrap();
            prop_assert_eq!(calls.len(), 1);
            // `null`, numbers and strings are ids; what else stands there is answered under null.
            prop_assert!(calls[0].slot.id.is_some());
        }

        #[test]
        fn a_batch_becomes_a_call_for_each_item(requests in proptest::collection::vec(near_request(), 1..5)) {
            let line = serde_json::Value::from(requests.clone()).to_string();
            prop_assert_eq!(calls(line.as_bytes()).unwrap().len(), requests.len());
        }

        #[test]
        fn a_cut_request_is_no_json(request in near_request(), cut in 1usize..100) {
            let line = request.to_string();
            let cut = line.len().saturating_sub(cut);
            prop_assert_eq!(calls(&line.as_bytes()[..cut]).unwrap_err(), RpcError::parse());
        }
    }

    #[test]
    fn a_request_without_id_is_a_call_without_reply() {
        let calls = calls(br#"{"method":"server.ping"}"#).unwrap();
        assert!(matches!(
            &calls[..],
            [Call { slot: Slot { id: None, .. }, task: Task::Run(Work::Read(Read::Memory(MemoryRequest::Ping))) }]
        ));
    }

    #[test]
    fn a_version_counts_for_the_rest_of_its_batch() {
        let line = br#"[{"id":0,"method":"server.version","params":["c",["1.4","1.6"]]},
            {"id":1,"method":"mempool.get_info"}]"#;
        let calls = calls(&line[..]).unwrap();
        let fees = IndexRequest::Fees(FeeQuery::MempoolInfo);
        assert!(matches!(&calls[1].task, Task::Run(Work::Read(Read::Index(request))) if *request == fees));
    }
}
