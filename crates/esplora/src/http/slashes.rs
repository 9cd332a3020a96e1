//! Paths with empty parts, such as `//tx/..`: a client joined a base URL that ends with a slash and a path that begins
//! with one. The public servers of this API stand behind nginx, which merges slashes (`merge_slashes`).

use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// Returns the address with single slashes in its path; `None` if it has them already.
pub(super) fn merged(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") {
        return None;
    }
    let mut merged = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty()) {
        merged.push('/');
        merged.push_str(part);
    }
    if path.ends_with('/') {
        merged.push('/');
    }
    if let Some(query) = uri.query() {
        merged.push('?');
        merged.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(merged).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn empty_parts_of_a_path_are_left_out() {
        let merged = |uri: &str| merged(&uri.parse().unwrap()).map(|uri| uri.to_string());
        for (uri, expected) in [
            ("//tx/ab", "/tx/ab"),
            ("/api//tx//ab/hex", "/api/tx/ab/hex"),
            ("/blocks//?a=//b", "/blocks/?a=//b"),
            ("//", "/"),
        ] {
            assert_eq!(merged(uri).as_deref(), Some(expected), "{uri}");
        }
        for uri in ["/tx/ab", "/", "/search?q=http://a"] {
            assert_eq!(merged(uri), None, "{uri}");
        }
    }
}
