//! The page of a report: a section for each record, with its plots and tables. It refers to no other file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Palette};
use super::table;
use crate::report::record::{Machine, Record, Table};

const TITLE: &str = "Benchmark report";

/// Returns the whole page.
pub(crate) fn html(records: &[Record]) -> String {
    let palette = Palette::of(records.iter().map(|record| record.servers.iter().map(|server| &*server.name).collect()));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (TITLE) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    h1 { (TITLE) }
                    (machines(records))
                }
                (failures(records))
                nav {
                    ul {
                        @for (number, record) in records.iter().enumerate() {
                            li { a href={ "#r" (number) } { (record.title) } }
                        }
                    }
                }
                main {
                    @for (number, record) in records.iter().enumerate() {
                        (section(number, record, &palette))
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Lists each machine once.
fn machines(records: &[Record]) -> Markup {
    let mut machines: Vec<&Machine> = Vec::new();
    for record in records {
        if !machines.contains(&&record.machine) {
            machines.push(&record.machine);
        }
    }
    html! { @for machine in machines { p { (machine.in_words()) } } }
}

/// Lists the failures, before everything else.
fn failures(records: &[Record]) -> Markup {
    let failures: Vec<(&str, String)> = records
        .iter()
        .flat_map(|record| record.failures().into_iter().map(|failure| (&*record.title, failure)))
        .collect();
    html! {
        @if !failures.is_empty() {
            div.failures {
                p { "Some runs failed:" }
                ul { @for (title, failure) in failures { li { b { (title) } ": " (failure) } } }
            }
        }
    }
}

fn section(number: usize, record: &Record, palette: &Palette) -> Markup {
    html! {
        section id={ "r" (number) } {
            h2 { (record.title) }
            pre { code { (record.command) } }
            p.when { "Begun " time { (record.began) } }
            @for table in &record.tables { (figure(table, palette)) }
            @if !record.notes.is_empty() {
                ul.notes { @for note in &record.notes { li { (note) } } }
            }
            (servers(record, palette))
        }
    }
}

fn figure(table: &Table, palette: &Palette) -> Markup {
    html! {
        article {
            h3 { (table::inline(&table.title)) }
            p { (table.caption()) }
            (plot::figure(table, palette))
            (table::html(table))
            @if let Some(times) = table.times_the_first() {
                details { summary { (times.title) } (table::html(&times)) }
            }
        }
    }
}

fn servers(record: &Record, palette: &Palette) -> Markup {
    html! {
        @if !record.servers.is_empty() {
            details {
                summary { "Versions and settings" }
                dl {
                    @for server in &record.servers {
                        dt { (plot::swatch(palette.index(&server.name))) (server.name) }
                        dd {
                            @if let Some(version) = &server.version { (version) "; " }
                            @if server.settings.is_empty() { "defaults" } @else { code { (server.settings) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = html(&sample::records());
        for outside in ["=\"http", "=\"//", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(outside), "{outside} in the page");
        }
        assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count());
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let mut records = sample::records();
        let nasty = "<script>\"a\" & 'b'</script>";
        records[0].title = nasty.into();
        records[0].servers[0].name = nasty.into();
        records[0].tables[0].title = nasty.into();
        records[0].tables[0].meaning = nasty.into();
        records[0].tables[0].columns[0].title = nasty.into();
        records[0].tables[0].rows[0].title = nasty.into();
        records[0].notes.push(nasty.into());
        let page = html(&records);
        assert!(!page.contains("<script") && !page.contains("& '"), "markup from outside");
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn failures_come_first() {
        let page = html(&sample::records());
        let (failure, section) =
            (page.find("Some runs failed").expect("the failures are listed"), page.find("<section").expect("there"));
        assert!(failure < section && page[failure..section].contains("ran out of memory"));
    }
}
