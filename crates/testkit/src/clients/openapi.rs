//! An [OpenAPI](https://spec.openapis.org/oas/v3.1.1) document that answers are compared with: the part of
//! [JSON Schema](https://json-schema.org/draft/2020-12/json-schema-validation) that the document uses, read strictly.
//! A member that a form does not name is a fault, and so is a form that says nothing.

use serde_json::Value;

/// A document with the forms of answers.
#[derive(Debug, Clone)]
pub struct OpenApi(Value);

impl OpenApi {
    /// Returns the document of this JSON.
    pub fn new(document: Value) -> Self {
        Self(document)
    }

    /// Compares the answer of an endpoint, such as `GET` and `/tx/{txid}`, with its form.
    ///
    /// # Errors
    /// The place in the answer where it differs, and the difference.
    pub fn check(&self, verb: &str, path: &str, answer: &Value) -> Result<(), String> {
        let operation = &self.0["paths"][path][verb.to_lowercase()];
        let form = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        self.compare(form, answer, "$")
    }

    fn compare(&self, form: &Value, value: &Value, at: &str) -> Result<(), String> {
        let expect = |is_right: bool, what: &str| {
            if is_right { Ok(()) } else { Err(format!("{at}: {value} is not {what}: {form}")) }
        };
        if let Some(name) = form["$ref"].as_str() {
            let name = name.trim_start_matches("#/components/schemas/");
            return self.compare(&self.0["components"]["schemas"][name], value, at);
        }
        if let Some(forms) = form["oneOf"].as_array() {
            let right = forms.iter().filter(|form| self.compare(form, value, at).is_ok()).count();
            return expect(right == 1, "of one of the forms");
        }
        match form["type"].as_str() {
            Some("null") => expect(value.is_null(), "null"),
            Some("boolean") => expect(value.is_boolean(), "a boolean"),
            Some("string") => {
                expect(value.is_string(), "a string")?;
                let Some(pattern) = form["pattern"].as_str() else { return Ok(()) };
                let text = value.as_str().unwrap_or_default();
                let digits =
                    pattern.strip_prefix("^[0-9a-f]{").and_then(|rest| rest.strip_suffix("}$")?.parse::<usize>().ok());
                let has_length = match digits {
                    Some(digits) => text.len() == digits,
                    None if pattern == "^([0-9a-f]{2})*$" => text.len().is_multiple_of(2),
                    None => return Err(format!("{at}: the pattern {pattern} is not known here")),
                };
                expect(has_length && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "hexadecimal")
            }
            Some("integer") => {
                expect(value.is_i64() || value.is_u64(), "an integer")?;
                expect(form["minimum"].as_f64() <= value.as_f64(), "large enough")
            }
            Some("number") => {
                expect(value.is_number(), "a number")?;
                expect(form["minimum"].as_f64() <= value.as_f64(), "large enough")
            }
            Some("array") => {
                let items = value.as_array().ok_or_else(|| format!("{at}: {value} is no list"))?;
                let [least, most] = ["minItems", "maxItems"].map(|bound| form[bound].as_u64());
                let count = items.len() as u64;
                expect(least.unwrap_or(0) <= count && count <= most.unwrap_or(u64::MAX), "of the right length")?;
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.compare(&form["items"], item, &format!("{at}[{index}]")))
            }
            Some("object") => self.compare_members(form, value, at),
            _ => Err(format!("{at}: the form {form} says nothing")),
        }
    }

    fn compare_members(&self, form: &Value, value: &Value, at: &str) -> Result<(), String> {
        let members = value.as_object().ok_or_else(|| format!("{at}: {value} is no object"))?;
        let required = form["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|name| !members.contains_key(*name)) {
            return Err(format!("{at}: {missing} is missing"));
        }
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match form["properties"].get(name).unwrap_or(&form["additionalProperties"]) {
                Value::Bool(true) => {}
                Value::Null | Value::Bool(false) => return Err(format!("{at}: the form does not name it")),
                form => self.compare(form, member, &at)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_compared_with_their_forms() {
        let form = json!({
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": { "$ref": "#/components/schemas/Hash" },
                "sizes": { "type": "array", "maxItems": 2, "items": { "type": "integer", "minimum": 1 } },
                "next": { "oneOf": [{ "$ref": "#/components/schemas/Hash" }, { "type": "null" }] },
                "any": {},
            },
        });
        let document = OpenApi::new(json!({
            "paths": { "/a": { "get": { "responses": { "200": { "content": { "application/json": { "schema": form } } } } } } },
            "components": { "schemas": { "Hash": { "type": "string", "pattern": "^[0-9a-f]{64}$" } } },
        }));
        let id = "ab".repeat(32);
        for right in
            [json!({ "id": id }), json!({ "id": id, "sizes": [1, 2], "next": null }), json!({ "id": id, "next": id })]
        {
            assert_eq!(document.check("GET", "/a", &right), Ok(()));
        }
        for (wrong, why) in [
            (json!([]), "is no object"),
            (json!({}), "id is missing"),
            (json!({ "id": "AB".repeat(32) }), "hexadecimal"),
            (json!({ "id": id, "sizes": [0] }), "$.sizes[0]: 0 is not large enough"),
            (json!({ "id": id, "sizes": [1.5] }), "an integer"),
            (json!({ "id": id, "sizes": [1, 1, 1] }), "length"),
            (json!({ "id": id, "next": 1 }), "one of the forms"),
            (json!({ "id": id, "more": 1 }), "$.more: the form does not name it"),
            (json!({ "id": id, "any": 1 }), "says nothing"),
        ] {
            let found = document.check("GET", "/a", &wrong);
            assert!(found.as_ref().is_err_and(|found| found.contains(why)), "{wrong}: {found:?}");
        }
    }
}
