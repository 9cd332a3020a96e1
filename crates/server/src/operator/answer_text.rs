//! Answers of the control socket as text: lines of names and values, and tables.

use serde_json::{Map, Value};

/// Fields that are printed first.
const FIRST: [&str; 12] = [
    "name", "verdict", "type", "value", "id", "protocol", "listener", "client", "age_s", "version", "network", "health",
];

/// Formats an object as lines of names and values, and a list of objects as a table. Lists in an object follow it.
pub(crate) fn text(answer: &Value) -> String {
    match answer {
        Value::Object(fields) => {
            let mut rows = Vec::new();
            add_rows("", fields, &mut rows);
            let lists = names(fields).into_iter().filter_map(|name| Some((name, objects(&fields[name])?)));
            let lists = lists.map(|(name, objects)| format!("\n{}\n{}", title(name), list(&objects)));
            lists.fold(table(&rows), |text, list| text + &list)
        }
        Value::Array(_) => objects(answer).map_or_else(|| "none\n".into(), |objects| list(&objects)),
        other => format!("{}\n", cell(other)),
    }
}

/// Adds a row for each value of an object, and of the objects in it.
fn add_rows(prefix: &str, fields: &Map<String, Value>, rows: &mut Vec<Vec<String>>) {
    for name in names(fields) {
        let name_of_row = format!("{prefix}{}", title(name));
        match &fields[name] {
            Value::Object(inner) => add_rows(&format!("{name_of_row} "), inner, rows),
            Value::Array(items) if items.is_empty() || items.iter().any(Value::is_object) => {}
            value => rows.push(vec![name_of_row, cell(value)]),
        }
    }
}

/// Returns the objects of a list; `None` if it has none.
fn objects(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    let objects: Vec<_> = value.as_array()?.iter().filter_map(Value::as_object).collect();
    (!objects.is_empty()).then_some(objects)
}

/// Formats objects as a table. A field that only some of them have is a column, too.
fn list(objects: &[&Map<String, Value>]) -> String {
    let all: Map<String, Value> = objects.iter().flat_map(|object| (*object).clone()).collect();
    let names = names(&all);
    let titles = names.iter().map(|name| title(name)).collect();
    let row = |object: &&Map<String, Value>| {
        names.iter().map(|name| cell(object.get(*name).unwrap_or(&Value::Null))).collect()
    };
    let rows = objects.iter().map(row);
    table(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
}

/// Returns the names of an object's fields in the order of printing.
fn names(object: &Map<String, Value>) -> Vec<&str> {
    let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
    names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    names
}

fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn title(name: &str) -> String {
    name.replace('_', " ")
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Null => "-".into(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// Returns a text that stays in its cell: with names of the characters that end lines, steer a terminal, or change the
/// direction of writing.
fn printable(text: &str) -> String {
    let is_plain = |one: char| {
        !one.is_control()
            && !matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut printable = String::with_capacity(text.len());
    for one in text.chars() {
        if is_plain(one) { printable.push(one) } else { printable.extend(one.escape_default()) }
    }
    printable
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_printed_in_columns() {
        assert_eq!(text(&json!({ "network": "regtest", "tip_height": null })), "network     regtest\ntip height  -\n");
        let connections =
            json!([{ "id": 7, "bytes_in": 10, "listener": "tcp" }, { "id": 123, "bytes_in": 9, "listener": "wss" }]);
        assert_eq!(text(&connections), "id   listener  bytes in\n7    tcp       10\n123  wss       9\n");
        let some = json!([{ "name": "a", "fault": "none yet" }, { "name": "b" }, { "balance": 7, "name": "c" }]);
        assert_eq!(text(&some), "name  balance  fault\na     -        none yet\nb     -        -\nc     7        -\n");
        assert_eq!(text(&json!([])), "none\n");
        let status = json!({ "a": 1.5, "b": { "c_d": 2 }, "e": [], "f": ["x", "y"], "g": [{ "h": 3 }] });
        assert_eq!(text(&status), "a      1.50\nb c d  2\nf      x, y\n\ng\nh\n3\n");
    }

    #[test]
    fn no_text_ends_its_line_steers_the_terminal_or_turns_the_writing() {
        let rows = json!([{ "id": 1, "reason": "a\nb\t\u{1b}[2J\u{9b}\u{202e}c\u{2069} ünï" }]);
        assert_eq!(text(&rows), "id  reason\n1   a\\nb\\t\\u{1b}[2J\\u{9b}\\u{202e}c\\u{2069} ünï\n");
    }
}
