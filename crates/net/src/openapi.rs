//! Names in the document that describes an HTTP API ([OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1)).

use hyper::Method;

/// Returns the name of an operation for programs that make a client from the document: `getTxTxidStatus`.
pub fn operation_id(method: &Method, path: &str) -> String {
    let mut id = method.as_str().to_lowercase();
    for word in path.split(|c: char| !c.is_ascii_alphanumeric()) {
        let (first, rest) = word.split_at(word.len().min(1));
        id.push_str(&first.to_uppercase());
        id.push_str(rest);
    }
    id
}

#[test]
fn an_operation_is_named_by_its_method_and_its_path() {
    assert_eq!(operation_id(&Method::GET, "/tx/{txid}/status"), "getTxTxidStatus");
    assert_eq!(operation_id(&Method::POST, "/tx"), "postTx");
}
