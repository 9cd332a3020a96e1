//! The style sheet, the script and the icon, which are parts of the program.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::LazyLock;

use birdhouse_esplora::{Answer, Lane, Question, Reply, Route};

pub(crate) const STYLE: &str = include_str!("style.css");
pub(crate) const SCRIPT: &str = include_str!("live.js");
pub(crate) const ICON: &str = include_str!("icon.svg");

pub(crate) const ROUTES: &[Route] = &[
    Route::get("/style.css", Lane::Memory, style, "The style sheet of the pages."),
    Route::get("/live.js", Lane::Memory, script, "The script that keeps pages current."),
    Route::get("/icon.svg", Lane::Memory, icon, "The icon of the pages."),
];

/// A hash of all assets. Their paths have it as the query, so that caches may hold them for ever.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    hasher.write(STYLE.as_bytes());
    hasher.write(SCRIPT.as_bytes());
    hasher.write(ICON.as_bytes());
    format!("{:016x}", hasher.finish())
});

fn style(_: &Question<'_>) -> Answer {
    Reply::asset("text/css; charset=utf-8", STYLE)
}

fn script(_: &Question<'_>) -> Answer {
    Reply::asset("text/javascript; charset=utf-8", SCRIPT)
}

fn icon(_: &Question<'_>) -> Answer {
    Reply::asset("image/svg+xml", ICON)
}
