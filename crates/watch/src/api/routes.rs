//! The routes as data, and the search for the one of a request.

use hyper::Method;

use crate::api::params::decoded;
use crate::api::reply::Answer;
use crate::api::service::{Lane, Question};

/// Those who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Clients with the token.
    Token,
    /// Everybody who knows the path.
    Open,
}

/// Those whose orders are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// Programs. A browser adds the password to what any page sends, so no page is one.
    Program,
    /// Programs, and pages of this server.
    OwnPage,
}

/// One endpoint.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// Its path, with the names of parts in braces.
    pub(super) path: &'static str,
    pub(super) lane: Lane,
    pub(super) access: Access,
    pub(super) sender: Sender,
    pub(super) endpoint: fn(&Question<'_>) -> Answer,
    /// Media type of its answer.
    pub(super) media: &'static str,
    /// Its answer in a sentence.
    pub(super) summary: &'static str,
}

impl Route {
    pub(super) const fn get(path: &'static str, endpoint: fn(&Question<'_>) -> Answer, summary: &'static str) -> Self {
        Self::of(Method::GET, path, endpoint, summary)
    }

    const fn of(
        method: Method,
        path: &'static str,
        endpoint: fn(&Question<'_>) -> Answer,
        summary: &'static str,
    ) -> Self {
        let media = super::reply::JSON;
        let (lane, access, sender) = (Lane::Index, Access::Token, Sender::Program);
        Self { method, path, lane, access, sender, endpoint, media, summary }
    }

    pub(super) const fn post(path: &'static str, endpoint: fn(&Question<'_>) -> Answer, summary: &'static str) -> Self {
        Self::of(Method::POST, path, endpoint, summary)
    }

    /// Makes it wait for the node.
    pub(super) const fn by_node(mut self) -> Self {
        self.lane = Lane::Node;
        self
    }

    /// Sets the media type of its answer.
    pub(super) const fn with(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }

    /// Takes it from pages of this server, too.
    pub(super) const fn of_own_page(mut self) -> Self {
        self.sender = Sender::OwnPage;
        self
    }

    /// Serves it without the token.
    pub(super) const fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// Returns the parts of a path; `None` if it is not this route's.
    fn parts(&self, path: &str) -> Option<Vec<(&'static str, String)>> {
        let (mut pattern, mut given) = (self.path.split('/'), path.split('/'));
        let mut parts = Vec::new();
        loop {
            match (pattern.next(), given.next()) {
                (None, None) => return Some(parts),
                (Some(expected), Some(found)) => match expected.strip_prefix('{') {
                    Some(name) if !found.is_empty() => parts.push((name.trim_end_matches('}'), decoded(found))),
                    None if expected == found => {}
                    _ => return None,
                },
                _ => return None,
            }
        }
    }
}

/// A route with the parts of a request's path.
pub(super) struct Found {
    pub(super) route: &'static Route,
    pub(super) parts: Vec<(&'static str, String)>,
}

/// The reason for which a request has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotFound {
    /// Nothing is at its path.
    Path,
    /// Something is, for another method.
    Method,
}

/// Returns the route of a request. Of several the one with the fewest parts that vary is meant.
pub(super) fn find(routes: &[&'static Route], method: &Method, path: &str) -> Result<Found, NotFound> {
    let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let found = routes.iter().filter_map(|route| Some(Found { route, parts: route.parts(path)? }));
    let mut found: Vec<Found> = found.collect();
    if found.is_empty() {
        return Err(NotFound::Path);
    }
    found.retain(|found| found.route.method == *method);
    found.into_iter().min_by_key(|found| found.parts.len()).ok_or(NotFound::Method)
}
