//! `/events`: changes as they happen.

use super::{Media, Route};
use crate::wire::{Answer, Cache, Content, Reply, Watch};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/events",
    Lane::Memory,
    events,
    "Server-Sent Events about `?blocks`, each `?address=`, `?scripthash=` and `?tx=`.",
)
.with(Media::Events)];

fn events(question: &Question<'_>) -> Answer {
    let watch = Watch::of(question.params, question.network())?;
    Ok(Reply::new(Content::Events(Box::new(watch)), Cache::NoStore))
}
