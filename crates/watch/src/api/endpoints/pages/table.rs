//! The transactions of a watch as comma-separated values ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)).

use std::fmt::Write as _;

use birdhouse_chain::Height;

use super::line::{Line, line, scripts_of, written};
use crate::api::history;
use crate::api::portions::{Frame, Portions};
use crate::api::reply::{Answer, CSV, Reply};
use crate::api::service::Question;
use crate::limits::API_PORTION;

pub(super) fn csv(question: &Question<'_>) -> Answer {
    let book = question.book();
    let scripts = scripts_of(&book, question.params.part("name"))?;
    let entries = history::entries(question.at, &scripts, Height(0))?;
    let state = question.service.state.clone();
    let table = Frame { head: "time,height,txid,received_sat,spent_sat,label\r\n", separator: "", tail: "" };
    Reply::portions(CSV, Portions::new(entries, table, API_PORTION), move |at, entry, text| {
        let Line { txid, height, time, received, spent, label } = line(at, &state, &scripts, entry)?;
        let time = time.map(written).unwrap_or_default();
        let height = height.map(|height| height.to_string()).unwrap_or_default();
        let label = quoted(label.as_deref().unwrap_or_default());
        let _ = write!(text, "{time},{height},{txid},{received},{spent},{label}\r\n");
        Ok(())
    })
}

/// Returns a field. One that a spreadsheet would take for a formula begins with an apostrophe.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_table_is_never_a_formula() {
        assert_eq!(quoted(""), "");
        assert_eq!(quoted("rent, \"May\""), "\"rent, \"\"May\"\"\"");
        assert_eq!(quoted("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
