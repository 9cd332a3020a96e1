//! `/stream`: changes of all wallets as they happen.

use crate::api::feed;
use crate::api::history;
use crate::api::reply::{Answer, EVENTS, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::api::wish::{Feed, Synced, Wish};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/stream",
    stream,
    "Changes of all wallets, as server-sent events: of category, scripthash, outpoint; from synced-tip on.",
)
.with(EVENTS)];

fn stream(question: &Question<'_>) -> Answer {
    of_wish(question, Wish::of(question.params)?)
}

/// Returns the stream of some changes.
pub(super) fn of_wish(question: &Question<'_>, wish: Wish) -> Answer {
    let synced = Synced::of(question.params)?;
    if let Some(synced) = &synced {
        feed::check(question.at, synced)?;
        // The stream begins with these. Where they are too many, a stream that has begun could not say so.
        history::entries(question.at, &question.book().scripthashes(), synced.next_height())?;
    }
    Reply::events(Feed::Changes(wish, synced))
}
