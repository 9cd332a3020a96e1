//! `/openapi.json`: the list of endpoints for programs ([OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1)).

use axum::http::Method;
use birdhouse_net::operation_id;
use serde_json::{Map, Value, json};

use super::{Media, Route, schemas};
use crate::wire::{Answer, Cache, Reply};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] =
    &[Route::get("/openapi.json", Lane::Memory, document, "This list of endpoints, as an OpenAPI document.")];

fn document(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &of_routes(listed()), Cache::SHORT)
}

/// Endpoints of the list.
fn listed() -> impl Iterator<Item = &'static Route> {
    super::all().chain(super::internal()).chain(super::of_silent_payments())
}

/// The document of these routes. They are served bare, too; those under `/internal` by private listeners alone. Those
/// with a server of their own are served bare alone, and not by private listeners.
fn of_routes(routes: impl Iterator<Item = &'static Route>) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Birdhouse, Esplora's REST API", "version": env!("CARGO_PKG_VERSION") },
        // Relative to the document's own URL, whatever path a proxy puts before it.
        "servers": [{ "url": "." }],
        "paths": paths,
        "components": { "schemas": schemas::named() },
    })
}

fn operation(route: &Route) -> Value {
    let names = route.path.split(['{', '}']).skip(1).step_by(2);
    let parameter =
        |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": schemas::of_part(name) });
    let content = match route.media {
        Media::Json => "application/json",
        Media::Text => "text/plain",
        Media::Bytes => "application/octet-stream",
        Media::Events | Media::WebSocket => "text/event-stream",
    };
    if route.media == Media::WebSocket {
        return json!({
            "operationId": operation_id(&route.method, route.path),
            "summary": route.summary,
            "parameters": [],
            "responses": {
                "101": { "description": "Messages are JSON objects, as docs/rest.md describes them." },
                "default": { "description": "The request asks for no WebSocket.", "content": { "text/plain": {} } },
            },
        });
    }
    let mut operation = json!({
        "operationId": operation_id(&route.method, route.path),
        "summary": route.summary,
        "parameters": names.map(parameter).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": route.summary, "content": { content: { "schema": schemas::of_answer(route) } } },
            "default": { "description": "The reason why there is no answer.", "content": { "text/plain": {} } },
        },
    });
    if route.method == Method::POST {
        operation["requestBody"] = json!({ "required": true, "content": { "*/*": {} } });
    }
    if super::of_silent_payments().any(|bare| bare.path == route.path) {
        operation["servers"] = json!([{ "url": "/" }]);
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_has_every_route_with_its_parts() {
        let document = of_routes(listed());
        for route in listed() {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["summary"], route.summary, "{}", route.path);
            let parts = operation["parameters"].as_array().map_or(0, Vec::len);
            assert_eq!(parts, route.path.matches('{').count(), "{}", route.path);
        }
        let operations: usize = document["paths"]
            .as_object()
            .into_iter()
            .flat_map(Map::values)
            .map(|path| path.as_object().map_or(0, Map::len))
            .sum();
        assert_eq!(operations, listed().count());
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_every_answer_a_form_that_is_there() {
        let document = of_routes(listed());
        let mut ids = HashSet::new();
        for route in listed() {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
            assert!(id.len() > 3 && ids.insert(id.clone()), "{id}: {}", route.path);
            if route.media != Media::WebSocket {
                let content = operation["responses"]["200"]["content"].as_object();
                let forms: Vec<&Value> = content.into_iter().flat_map(Map::values).map(|of| &of["schema"]).collect();
                assert!(forms.len() == 1 && forms[0].is_object(), "{}", route.path);
            }
        }
        assert!(ids.contains("getTxTxidStatus") && ids.contains("postTxsPackage"), "{ids:?}");
        let text = document.to_string();
        let names: HashSet<&str> =
            text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let named = schemas::named();
        let named: HashSet<&str> = named.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        assert_eq!(names, named, "each form is used, and each that is used is there");
    }
}
