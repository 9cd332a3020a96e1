//! The style sheet, the script and the icon, which are parts of the program.

use birdhouse_esplora::{Answer, Lane, Question, Reply, Route};
use birdhouse_web::{ICON, STYLE};

pub(crate) const SCRIPT: &str = include_str!("live.js");
pub(crate) const PAGE_SCRIPT: &str = include_str!("page.js");

pub(crate) const ROUTES: &[Route] = &[
    Route::get("/style.css", Lane::Memory, style, "The style sheet of the pages."),
    Route::get("/live.js", Lane::Memory, script, "The script that keeps pages current."),
    Route::get("/page.js", Lane::Memory, page_script, "The script with the conveniences of pages."),
    Route::get("/icon.svg", Lane::Memory, icon, "The icon of the pages."),
];

fn style(_: &Question<'_>) -> Answer {
    Reply::asset("text/css; charset=utf-8", STYLE)
}

fn script(_: &Question<'_>) -> Answer {
    Reply::asset("text/javascript; charset=utf-8", SCRIPT)
}

fn page_script(_: &Question<'_>) -> Answer {
    Reply::asset("text/javascript; charset=utf-8", PAGE_SCRIPT)
}

fn icon(_: &Question<'_>) -> Answer {
    Reply::asset("image/svg+xml", ICON)
}
