//! One synchronization with a peer: comparison, fetches and uploads at the same time, on one connection.
//!
//! It may be interrupted at any moment and be run again: a window of time in which both sides have the same events
//! costs one message each way, so nothing is remembered. A peer without negentropy is asked for `pages`.

mod pages;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::relay::{Accepted, Answer, Received};
use birdhouse_events::{Event, EventId, Filter, hex};
use birdhouse_relay::Exchange;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::clock::elapsed;
use crate::comparison::{Begun, Comparison, Step};
use crate::fetch::{Came, Fetch};
use crate::intake::Intake;
use crate::job::{Job, Purpose};
use crate::limits::{
    CLOSED_MAX, PROBE_TIMEOUT, REPEATED_MAX, SILENCE_TIMEOUT, UNASKED_MAX, UPLOAD_BYTES_MAX, WINDOW_ATTEMPTS_MAX,
    WINDOW_IDS_MAX,
};
use crate::page::{Next, Page, dated};
use crate::pauses::Pauses;
use crate::peer::Peer;
use crate::tally::SharedTally;
use crate::upload::{Outgoing, Sent, Upload};
use crate::windows::{OneSecond, Window, Windows};
use crate::words::{is_unknown, wants_identity};

/// Words of a refusal of a comparison that has too many events.
const TOO_LARGE: [&str; 5] = ["too many", "too_big", "too big", "too large", "more than"];

/// An event that one side lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The peer lacks it.
    There(EventId),
    /// This relay lacks it.
    Here(EventId),
}

/// A synchronization on its way.
struct Session<'a> {
    exchange: &'a Arc<Exchange>,
    peer: &'a mut Peer,
    job: &'a Job,
    tally: &'a SharedTally,
    /// Listener for the ids that one side lacks.
    found: Option<mpsc::Sender<Missing>>,
    windows: Windows,
    method: Method,
    comparing: Option<Comparing>,
    page: Option<Page>,
    /// Own events of what the last page covers, which come before the next page.
    rest: Option<Rest>,
    next_page: Option<Next>,
    /// Number of the last window or page, for its name.
    last: u64,
    fetch: Fetch,
    upload: Upload,
    intake: Intake,
    /// Attempts at the window.
    attempts: usize,
    /// Uploads that the peer wanted after a proof of identity.
    repeated: usize,
    /// REQs that were closed in a row.
    closed: usize,
    /// Pauses in which nothing is asked.
    pauses: Pauses,
    /// True while the peer owes an answer.
    is_owed: bool,
    /// Time of the last answer that was owed, or since when one is.
    answered: Duration,
    /// Events that were not asked for.
    unasked: usize,
    /// Second at whose events the page before ended, with nothing new.
    stuck: Option<u64>,
}

/// A way to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Negentropy is tried.
    Probing,
    /// The peer has negentropy.
    Negentropy,
    /// The peer is asked for pages.
    Pages,
}

/// A window whose comparison is on its way.
struct Comparing {
    name: String,
    window: Window,
    comparison: Comparison,
    /// The next message, which waits until there is room for what it finds.
    held: Option<Vec<u8>>,
}

/// Own events of a window that a page covers.
struct Rest {
    window: Window,
    /// Those that the peer has.
    theirs: HashSet<EventId>,
}

/// Compares events with those of a peer, and transfers what is missing. With the purpose [`Purpose::List`], `found`
/// gets the ids of the events that one side lacks.
///
/// # Errors
/// The reason why it ended early, in one line. What was transferred until then is stored on both sides.
pub async fn sync(
    exchange: &Arc<Exchange>,
    peer: &mut Peer,
    job: &Job,
    tally: &SharedTally,
    found: Option<mpsc::Sender<Missing>>,
) -> Result<(), String> {
    let (came, clock) = (peer.came(), peer.clock().clone());
    let session = Session {
        exchange,
        peer,
        job,
        tally,
        found,
        windows: Windows::new(job.since, job.until, clock.seconds()),
        method: Method::Probing,
        comparing: None,
        page: None,
        rest: None,
        next_page: None,
        last: 0,
        fetch: Fetch::default(),
        upload: Upload::default(),
        intake: Intake::start(Arc::clone(exchange), job.wanted(), tally.clone(), came, clock),
        attempts: 0,
        repeated: 0,
        closed: 0,
        pauses: Pauses::default(),
        is_owed: false,
        answered: elapsed(),
        unasked: 0,
        stuck: None,
    };
    session.run().await
}

impl Session<'_> {
    async fn run(mut self) -> Result<(), String> {
        let ended = self.work().await;
        // What has come is stored in any case.
        let progress = self.intake.progress.clone();
        let stored = self.intake.finish().await;
        let failed = progress.borrow().failed;
        ended.and(stored).and(if failed == 0 {
            Ok(())
        } else {
            Err(format!("this relay could not keep {failed} of the events; see the reasons"))
        })
    }

    async fn work(&mut self) -> Result<(), String> {
        loop {
            self.go_on().await?;
            if self.is_idle() {
                self.tally.change(|tally| tally.withheld = self.fetch.withheld);
                return Ok(());
            }
            self.listen().await?;
        }
    }

    fn is_idle(&self) -> bool {
        let compares = self.comparing.is_some() || self.windows.next().is_some();
        let pages = self.page.is_some() || self.rest.is_some() || self.next_page.is_some();
        !compares && !pages && self.fetch.is_idle() && self.upload.is_idle()
    }

    fn has_room(&self) -> bool {
        self.fetch.has_room() && self.upload.has_room()
    }

    // === what is asked of the peer ===

    async fn go_on(&mut self) -> Result<(), String> {
        if self.pauses.left(elapsed()).is_some() {
            return self.send_events().await;
        }
        if self.has_room() {
            match (self.method, &mut self.comparing) {
                (Method::Pages, _) => self.go_on_with_pages().await?,
                (_, None) => self.open_window().await?,
                (_, Some(comparing)) => {
                    if let Some(held) = comparing.held.take() {
                        let message = json!(["NEG-MSG", comparing.name, hex::string(&held)]);
                        self.send(&message).await?;
                    }
                }
            }
        }
        while let Some(request) = self.fetch.next() {
            let ids: Vec<String> = request.ids.iter().map(ToString::to_string).collect();
            self.send(&json!(["REQ", request.name, { "ids": ids }])).await?;
        }
        self.send_events().await
    }

    async fn send_events(&mut self) -> Result<(), String> {
        // Events that are not sent make no room for an answer, so others are read in their stead.
        loop {
            let mut ids = self.upload.next_reads();
            if ids.is_empty() {
                break;
            }
            ids.sort_unstable();
            let events = self.exchange.events(&Filter { ids: Some(ids), ..Filter::default() }).await?;
            let (sent, kept): (Vec<Event>, Vec<Event>) = events.into_iter().partition(|event| self.job.sends(event));
            let sent = sent.into_iter().map(|event| Outgoing { id: event.id, json: event.to_json() });
            let (sent, too_long): (Vec<_>, Vec<_>) = sent.partition(|event| event.json.len() <= UPLOAD_BYTES_MAX);
            self.tally.change(|tally| {
                tally.kept += kept.len() as u64;
                tally.too_long += too_long.len() as u64;
            });
            self.upload.read(sent);
        }
        while let Some(Outgoing { json, .. }) = self.upload.next(elapsed()) {
            let bytes = self.peer.send_text(format!("[\"EVENT\",{json}]")).await?;
            self.sent(bytes);
            self.tally.change(|tally| tally.sent += 1);
        }
        Ok(())
    }

    /// Opens the next window, if there is one.
    async fn open_window(&mut self) -> Result<(), String> {
        let crowded = |OneSecond| format!("more than {WINDOW_IDS_MAX} events are of one second");
        loop {
            let Some(window) = self.windows.next() else { return Ok(()) };
            let ids = self.exchange.ids(&self.job.own_in(window), WINDOW_IDS_MAX).await?;
            if ids.len() > WINDOW_IDS_MAX {
                let oldest = ids.last().expect("it has ids").created_at;
                self.windows.begin_after(oldest).map_err(crowded)?;
                continue;
            }
            let Begun { comparison, first } = Comparison::begin(&ids);
            let name = self.next_name("n");
            let filter = self.job.wire_in(window);
            self.send(&json!(["NEG-OPEN", name, filter, hex::string(&first)])).await?;
            self.comparing = Some(Comparing { name, window, comparison, held: None });
            return Ok(());
        }
    }

    fn next_name(&mut self, beginning: &str) -> String {
        self.last += 1;
        format!("{beginning}{}", self.last)
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        let bytes = self.peer.send(message).await?;
        self.sent(bytes);
        Ok(())
    }

    fn sent(&self, bytes: usize) {
        self.exchange.sent(bytes);
        self.tally.change(|tally| tally.bytes_out += bytes as u64);
    }

    // === what the peer says ===

    /// Waits for the peer, or until something may be sent again.
    async fn listen(&mut self) -> Result<(), String> {
        let Some(left) = self.patience()? else { return Ok(()) };
        let pauses = [self.upload.pause(elapsed()), self.pauses.left(elapsed())].into_iter().flatten();
        let wait = pauses.fold(left, Duration::min);
        let exchange = self.exchange;
        let received = tokio::select! {
            biased;
            () = exchange.disconnected() => return Err("the operator closed this connection".into()),
            received = timeout(wait, self.peer.next()) => received,
        };
        match received {
            Ok(Ok(Received::Message(text))) => self.hear(&text).await,
            Ok(Err(why)) => Err(why),
            // The next round sees whose turn it is.
            Ok(Ok(Received::Alive)) | Err(_) => Ok(()),
        }
    }

    /// Returns the time for which the peer is waited for; `None` if there is another way to ask it. Only answers that
    /// are owed give it more time.
    ///
    /// # Errors
    /// It has none left.
    fn patience(&mut self) -> Result<Option<Duration>, String> {
        let owes = self.fetch.is_waited_for() || self.upload.is_waited_for() || self.comparing.is_some();
        let owes = owes || self.page.is_some();
        if owes && !self.is_owed {
            self.answered = elapsed();
        }
        self.is_owed = owes;
        let patience = if self.method == Method::Probing { PROBE_TIMEOUT } else { SILENCE_TIMEOUT };
        let left = patience.saturating_sub(elapsed().saturating_sub(self.answered));
        if !owes {
            return Ok(Some(patience));
        }
        if !left.is_zero() {
            return Ok(Some(left));
        }
        if self.method == Method::Probing {
            self.answered = elapsed();
            self.ask_for_pages();
            return Ok(None);
        }
        Err(format!("{} has not answered in {} s", self.peer.name(), SILENCE_TIMEOUT.as_secs()))
    }

    async fn hear(&mut self, text: &str) -> Result<(), String> {
        self.exchange.received(text.len());
        self.tally.change(|tally| tally.bytes_in += text.len() as u64);
        let Some(answer) = Answer::parse(text) else { return Ok(()) };
        if let Some(proved) = self.peer.proved(&answer) {
            return proved;
        }
        match answer {
            Answer::Auth(challenge) => self.peer.prove(challenge).await,
            Answer::Event { subscription, event } => self.take(&subscription, event.get()).await,
            Answer::Eose(name) => self.ended(&name).await,
            Answer::Closed { subscription, reason } => self.refused(&subscription, &reason),
            Answer::Ok { id, accepted, reason } => {
                self.decided(&id, accepted, &reason);
                Ok(())
            }
            Answer::Compared { session, message } => self.compared(&session, &message).await,
            Answer::CompareRefused { session, reason } => self.window_refused(&session, &reason),
            Answer::Notice(text) => {
                let text = text.to_ascii_lowercase();
                if self.method == Method::Probing && is_unknown(&text) {
                    self.ask_for_pages();
                }
                Ok(())
            }
        }
    }

    fn ask_for_pages(&mut self) {
        tracing::debug!(peer = %self.peer.name(), "the peer has no negentropy; asking for pages");
        self.method = Method::Pages;
        self.comparing = None;
    }

    /// Takes an event of a fetch or of a page.
    async fn take(&mut self, subscription: &str, json: &str) -> Result<(), String> {
        if let Some(page) = &mut self.page
            && page.name == subscription
        {
            let passed_on = page.add(json.to_owned()).map_err(|why| format!("{}: {why}", self.peer.name()))?;
            self.answered = elapsed();
            if let Some(json) = passed_on
                && self.job.purpose.is_down()
            {
                self.tally.change(|tally| tally.received += 1);
                self.intake.add(json).await;
            }
            return Ok(());
        }
        let came = dated(json).map_or(Came::Unasked, |dated| self.fetch.came(subscription, &dated.id));
        if came == Came::Unasked {
            self.unasked += 1;
            if self.unasked > UNASKED_MAX {
                return Err(format!("{} sends events that it was not asked for", self.peer.name()));
            }
            return Ok(());
        }
        self.answered = elapsed();
        self.tally.change(|tally| tally.received += 1);
        self.intake.add(json.to_owned()).await;
        Ok(())
    }

    async fn ended(&mut self, name: &str) -> Result<(), String> {
        let page = self.page.take_if(|page| page.name == name);
        let is_of_fetch = self.fetch.ended(name);
        if page.is_none() && !is_of_fetch {
            return Ok(());
        }
        self.answered = elapsed();
        self.closed = 0;
        self.pauses.end();
        let Some(page) = page else {
            self.intake.flush().await;
            return self.send(&json!(["CLOSE", name])).await;
        };
        self.send(&json!(["CLOSE", name])).await?;
        self.page_complete(page).await
    }

    /// A subscription is closed by the peer.
    fn refused(&mut self, name: &str, reason: &str) -> Result<(), String> {
        let page = self.page.take_if(|page| page.name == name);
        let is_of_fetch = self.fetch.refused(name);
        if page.is_none() && !is_of_fetch {
            return Ok(());
        }
        self.answered = elapsed();
        let is_paused = self.pauses.take(reason, elapsed());
        self.closed += usize::from(!is_paused);
        if self.closed > CLOSED_MAX || (wants_identity(reason) && !self.peer.has_keys()) {
            return Err(format!("{} refuses to answer: {reason}", self.peer.name()));
        }
        self.next_page = page.map(Page::into_next).or(self.next_page.take());
        Ok(())
    }

    /// Takes the outcome of an upload.
    fn decided(&mut self, id: &str, accepted: Accepted, reason: &str) {
        let Some(id) = EventId::parse(id) else { return };
        let sent = match accepted {
            Accepted::Yes => self.upload.accepted(&id),
            Accepted::No if wants_identity(reason) && self.peer.has_keys() && self.repeated < REPEATED_MAX => {
                self.repeated += 1;
                if self.upload.again(&id) {
                    self.answered = elapsed();
                }
                return;
            }
            // As relays say it that answer a duplicate with false.
            Accepted::No if reason.starts_with("duplicate:") => self.upload.accepted(&id),
            Accepted::No => self.upload.refused(&id, reason, elapsed()),
        };
        if sent != Sent::Unasked {
            self.answered = elapsed();
        }
        self.tally.change(|tally| match sent {
            Sent::Accepted => tally.accepted += 1,
            Sent::Refused => tally.refused_there.add(reason),
            Sent::Later | Sent::Unasked => {}
        });
    }

    // === comparison ===

    async fn compared(&mut self, session: &str, message: &[u8]) -> Result<(), String> {
        let Some(comparing) = self.comparing.as_mut().filter(|comparing| comparing.name == session) else {
            return Ok(());
        };
        if comparing.held.is_some() {
            return Err(format!("{} sends messages of a comparison that it was not asked for", self.peer.name()));
        }
        self.method = Method::Negentropy;
        self.answered = elapsed();
        self.pauses.end();
        let step = comparing.comparison.answered(message);
        let Step { next, have, need } = step.map_err(|why| format!("{}: {why}", self.peer.name()))?;
        let is_done = next.is_none();
        comparing.held = next;
        self.missing(have, need).await?;
        if is_done {
            let Comparing { name, window, comparison, .. } = self.comparing.take().expect("it is there");
            self.attempts = 0;
            self.windows.done(window, comparison.larger_side());
            self.covered(window, comparison.own());
            return self.send(&json!(["NEG-CLOSE", name])).await;
        }
        Ok(())
    }

    fn covered(&self, window: Window, own: usize) {
        self.tally.change(|tally| {
            tally.windows += 1;
            tally.compared += own as u64;
            tally.compared_from = Some(window.since);
        });
    }

    /// Has the events transferred or listed that one side lacks.
    async fn missing(&mut self, have: Vec<EventId>, need: Vec<EventId>) -> Result<(), String> {
        self.report(&have, &need).await?;
        if self.job.purpose.is_up() {
            self.upload.add(have);
        }
        if self.job.purpose.is_down() {
            self.fetch.add(need);
        }
        Ok(())
    }

    /// Counts events that one side lacks, and lists them.
    async fn report(&self, have: &[EventId], need: &[EventId]) -> Result<(), String> {
        self.tally.change(|tally| {
            tally.only_here += have.len() as u64;
            tally.only_there += need.len() as u64;
        });
        if let (Purpose::List, Some(found)) = (self.job.purpose, &self.found) {
            let all = have.iter().map(|id| Missing::There(*id)).chain(need.iter().map(|id| Missing::Here(*id)));
            for missing in all {
                found.send(missing).await.map_err(|_| "nobody reads the list any more".to_owned())?;
            }
        }
        Ok(())
    }

    fn window_refused(&mut self, session: &str, reason: &str) -> Result<(), String> {
        if self.comparing.take_if(|comparing| comparing.name == session).is_none() {
            return Ok(());
        }
        self.answered = elapsed();
        if self.pauses.take(reason, elapsed()) {
            return Ok(());
        }
        self.attempts += 1;
        let refused = || Err(format!("{} refuses the comparison: {reason}", self.peer.name()));
        let text = reason.to_ascii_lowercase();
        if self.attempts > WINDOW_ATTEMPTS_MAX || (wants_identity(&text) && !self.peer.has_keys()) {
            return refused();
        }
        if TOO_LARGE.iter().any(|word| text.contains(word)) {
            return self.windows.halve().or_else(|OneSecond| refused());
        }
        if wants_identity(&text) || text.starts_with("closed:") {
            return Ok(());
        }
        if self.method == Method::Probing && is_unknown(&text) {
            self.ask_for_pages();
            return Ok(());
        }
        refused()
    }
}
