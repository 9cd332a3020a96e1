//! `/openapi.json`: the list of endpoints for programs ([OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1)).

use birdhouse_net::operation_id;
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::api::reply::{Answer, EVENTS, JSON, Reply};
use crate::api::routes::{Access, Route};
use crate::api::service::Question;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/openapi.json", document, "This list of endpoints, as an OpenAPI document.")];

fn document(_: &Question<'_>) -> Answer {
    Reply::json(&of_routes(&super::all()))
}

fn of_routes(routes: &[&Route]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Birdhouse, watched wallets", "version": env!("CARGO_PKG_VERSION") },
        "servers": [{ "url": "." }],
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "security": [{ "token": [] }],
    })
}

fn operation(route: &Route) -> Value {
    let parameter =
        |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let names = route.path.split(['{', '}']).skip(1).step_by(2);
    let media = route.media.split(';').next().unwrap_or_default();
    let schema = if media == JSON || media == EVENTS { json!({}) } else { json!({ "type": "string" }) };
    let mut operation = json!({
        "operationId": operation_id(&route.method, route.path),
        "summary": route.summary,
        "parameters": names.map(parameter).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": route.summary, "content": { media: { "schema": schema } } },
            "default": { "description": "The reason why there is no answer.", "content": { "text/plain": {} } },
        },
    });
    if route.method == Method::POST {
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": {} } });
    }
    if media == EVENTS {
        let description = "The same as messages of a WebSocket, for a request that asks for one.";
        operation["responses"]["101"] = json!({ "description": description });
    }
    if route.access == Access::Open {
        operation["security"] = json!([]);
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_has_every_route_with_its_parts_and_an_id_of_its_own() {
        let routes = super::super::all();
        let (document, mut ids) = (of_routes(&routes), HashSet::new());
        for route in &routes {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["summary"], route.summary, "{}", route.path);
            assert_eq!(operation["parameters"].as_array().map_or(0, Vec::len), route.path.matches('{').count());
            assert!(ids.insert(operation["operationId"].to_string()), "{}", route.path);
            assert!(!route.media.is_empty() && !route.summary.contains('\n'), "{}", route.path);
        }
        assert!(document["paths"]["/stream"]["get"]["responses"]["101"]["description"].is_string());
        assert!(document["paths"]["/wallets"]["get"]["responses"].get("101").is_none());
        assert_eq!(document["paths"]["/pay/{id}"]["get"]["security"], json!([]));
        assert!(document["paths"]["/invoices"]["get"].get("security").is_none());
    }
}
