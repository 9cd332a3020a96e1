//! Signatures that a caller cannot read: a `bool` parameter, also one that is written to, and an `Option` of an
//! `Option`. STYLE.md has the rules.
//!
//! Flags of the command line are fields, so no rule concerns them. Neither do parameters of a test, which `proptest`
//! makes.

use crate::Finding;
use crate::source;

/// Types of parameters that are refused.
const REFUSED: &[&str] = &["bool", "Option<bool>", "&mut bool"];

/// Functions with a refused parameter or type.
pub(crate) fn unreadable() -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source::rust() {
        let at = |(line, message): (usize, String)| Finding {
            krate: file.krate.clone(),
            file: file.path.clone(),
            line,
            message,
        };
        findings.extend(problems(&file.code).into_iter().map(at));
    }
    findings
}

/// Lines of signatures with a refused type, and what is refused.
fn problems(code: &str) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let opens_word = code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let Some(Signature { name, parameters, whole }) = Signature::of(&code[start + 3..]).filter(|_| !opens_word)
        else {
            continue;
        };
        let line = code[..start].matches('\n').count() + 1;
        let refused = parameters.iter().filter_map(|parameter| parameter.split_once(':'));
        let refused = refused.filter(|(_, kind)| REFUSED.contains(&kind.trim()) && !is_test(&code[..start]));
        let message = |(parameter, kind): (&str, &str)| {
            format!("`{name}` has a parameter `{}: {}`; use an enum or two functions", parameter.trim(), kind.trim())
        };
        problems.extend(refused.map(message).map(|message| (line, message)));
        if whole.contains("Option<Option<") {
            problems.push((line, format!("`{name}` has an `Option<Option<..>>`; use an enum")));
        }
    }
    problems
}

/// A function's head.
struct Signature<'a> {
    name: &'a str,
    parameters: Vec<&'a str>,
    /// From the name to the body.
    whole: &'a str,
}

impl<'a> Signature<'a> {
    /// Reads what follows `fn`; `None` for the type of a function.
    fn of(code: &'a str) -> Option<Self> {
        let name_end = code.find(|char: char| !char.is_alphanumeric() && char != '_')?;
        let name = &code[..name_end];
        let opening = name_end + before(&code[name_end..], '(').len();
        let inside = before(code.get(opening + 1..)?, ')');
        let mut parameters: Vec<&str> = Vec::new();
        let mut rest = inside;
        while !rest.is_empty() {
            let parameter = before(rest, ',');
            parameters.push(parameter);
            rest = rest.get(parameter.len() + 1..).unwrap_or_default();
        }
        let body = code[opening..].find(['{', ';']).map_or(code.len(), |at| opening + at);
        (!name.is_empty()).then_some(Self { name, parameters, whole: &code[..body] })
    }
}

/// The text before a character that stands outside brackets; all of it without one.
fn before(code: &str, end: char) -> &str {
    let (mut depth, mut last) = (0_usize, ' ');
    let found = code.char_indices().find_map(|(at, char)| {
        if depth == 0 && char == end {
            return Some(at);
        }
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if last != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        last = char;
        None
    });
    &code[..found.unwrap_or(code.len())]
}

/// True if the item that begins here has the attribute `test`.
fn is_test(before: &str) -> bool {
    let attributes = before.rsplit(['}', ';', '{']).next().unwrap_or_default();
    attributes.contains("#[test]")
}

#[test]
fn bool_parameters_and_options_of_options_are_found() {
    let found = |code: &str| problems(code).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(found("fn a(x: u32, is_new: bool) {}"), [1]);
    assert_eq!(found("\npub(crate) async fn a<F: Fn(u8) -> bool>(\n    f: F,\n    is_new: bool,\n) -> bool {}"), [2]);
    assert_eq!(found("fn a(&mut self, flag: Option<bool>);"), [1]);
    assert_eq!(found("fn a(x: u8) -> Option<Option<u8>> {}"), [1]);
    assert_eq!(found("fn a(x: u8,\n    out: &mut bool) {}"), [1]);
    assert!(found("fn a(is: impl Fn(u8) -> bool, map: HashMap<u8, bool>) -> bool {}").is_empty());
    assert!(found("#[test]\nfn holds(is_long: bool) {}").is_empty());
    assert!(found("struct A { is_new: bool, call: fn(bool) -> bool }").is_empty());
    assert_eq!(found("#[test]\nfn holds() {}\nfn a(is_new: bool) {}"), [3]);
}
