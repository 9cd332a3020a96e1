//! The frame of every page: head, navigation, footer.

use std::hash::{DefaultHasher, Hasher as _};

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style sheet of all pages, at `/style.css`.
pub const STYLE: &str = include_str!("style.css");
/// The icon of all pages, at `/icon.svg`.
pub const ICON: &str = include_str!("icon.svg");

/// Attributes that lead somewhere.
const LINKS: [&str; 5] = ["href", "action", "formaction", "src", "data-live"];
/// Stands where a page has its notice.
const NO_NOTICE: &str = "<div id=\"notice\"></div>";

/// Makes the links of a page that begin at the root begin with `way_up`, so that proxies may serve the site below a
/// path of theirs. Markup escapes quotation marks in texts, so nothing else looks like a link.
pub fn relative(page: &str, way_up: &str) -> String {
    LINKS
        .iter()
        .fold(page.to_owned(), |page, name| page.replace(&format!(" {name}=\"/"), &format!(" {name}=\"{way_up}")))
}

/// Adds a notice to a page, above its content.
pub fn with_notice(page: &str, notice: &Markup) -> String {
    let notice = html! { div #notice.card.open role="status" { (notice) } };
    page.replacen(NO_NOTICE, &notice.into_string(), 1)
}

/// A page that stands alone: without navigation, and with its style inside, so that it needs no other request of its
/// host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone<'a> {
    /// The title.
    pub title: &'a str,
    /// URL of an icon.
    pub icon: Option<&'a str>,
    /// Search engines leave it out.
    pub is_private: bool,
    /// Seconds after which a browser loads the page again.
    pub reload_s: Option<u64>,
}

/// Parts of the frame that all pages of a site share.
#[derive(Debug)]
pub struct Site {
    /// Labels and paths of the navigation.
    pub pages: &'static [(&'static str, &'static str)],
    /// Markup behind the navigation, such as a search.
    pub tools: fn() -> Markup,
    /// Content of the footer.
    pub footer: fn() -> Markup,
    /// The path of a script that every page loads.
    script: Option<&'static str>,
    /// A hash of all assets. Their paths have it as the query, so that caches may hold them for ever.
    version: String,
}

/// The frame of one page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame<'a> {
    /// The title.
    pub title: &'a str,
    /// A mark beside the name, such as a test network.
    pub mark: Option<&'a str>,
    /// Seconds after which a browser loads the page again. With `live`, only one without scripts does.
    pub reload_s: Option<u64>,
    /// The path of the events after which the page's script, `/live.js`, reads it again.
    pub live: Option<&'a str>,
}

// === impl Site ===

impl Site {
    /// Creates a site with this script at `/live.js`.
    pub fn new(
        script: &str,
        pages: &'static [(&'static str, &'static str)],
        tools: fn() -> Markup,
        footer: fn() -> Markup,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        for asset in [STYLE, script, ICON] {
            hasher.write(asset.as_bytes());
        }
        Self { pages, tools, footer, script: None, version: format!("{:016x}", hasher.finish()) }
    }

    /// Adds a script that every page loads.
    #[must_use]
    pub fn with_script(mut self, path: &'static str, script: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.version.as_bytes());
        hasher.write(script.as_bytes());
        self.script = Some(path);
        self.version = format!("{:016x}", hasher.finish());
        self
    }
}

// === impl Alone ===

impl Alone<'_> {
    /// Puts the content of the body into the page.
    pub fn around(self, body: &Markup) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if self.is_private { meta name="robots" content="noindex"; }
                    @if let Some(seconds) = self.reload_s { meta http-equiv="refresh" content=(seconds); }
                    title { (self.title) }
                    @if let Some(icon) = self.icon { link rel="icon" href=(icon); }
                    style { (PreEscaped(STYLE)) }
                }
                body { (body) }
            }
        }
        .into_string()
    }
}

// === impl Frame ===

impl Frame<'_> {
    /// Puts a page's content into its frame.
    pub fn around(self, site: &Site, content: &Markup) -> String {
        let version = site.version.as_str();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    (self.reload())
                    title { (self.title) " · Birdhouse" }
                    link rel="icon" href={ "/icon.svg?" (version) };
                    link rel="stylesheet" href={ "/style.css?" (version) };
                    @if let Some(path) = site.script { script src={ (path) "?" (version) } defer {} }
                    @if self.live.is_some() { script src={ "/live.js?" (version) } defer {} }
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (self.header(site))
                    main #main tabindex="-1" data-live=[self.live] { (PreEscaped(NO_NOTICE)) (content) }
                    footer.site { div.bar { ((site.footer)()) } }
                }
            }
        }
        .into_string()
    }

    fn reload(self) -> Markup {
        let meta = |seconds: u64| html! { meta http-equiv="refresh" content=(seconds); };
        html! {
            @if let Some(seconds) = self.reload_s {
                @if self.live.is_some() { noscript { (meta(seconds)) } } @else { (meta(seconds)) }
            }
        }
    }

    fn header(self, site: &Site) -> Markup {
        html! {
            header.site {
                div.bar {
                    a.brand href="/" {
                        span.mark aria-hidden="true" { (PreEscaped(ICON)) }
                        "Birdhouse"
                        @if let Some(mark) = self.mark { " " span.network { (mark) } }
                    }
                    nav aria-label="Pages" {
                        @for (label, path) in site.pages { a href=(path) { (label) } }
                    }
                    ((site.tools)())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_and_texts_are_left_alone() {
        let text = "say \" href=\"/x";
        let page = html! { a href="/tx/1" title=(text) { (text) } form action="/" { button formaction="/a/b" {} } };
        let page = relative(&page.into_string(), "../");
        assert!(page.contains("<a href=\"../tx/1\"") && page.contains("action=\"../\""), "{page}");
        assert!(page.contains("formaction=\"../a/b\""), "{page}");
        assert_eq!(page.matches("say &quot; href=&quot;/x").count(), 2, "{page}");
    }
}
