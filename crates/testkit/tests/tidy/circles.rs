//! Files of a crate form layers, and so do the folders below its `src`: their arrows make no circle.
//!
//! A file points to the files that define what it names by `crate::`, `super::`, `self::` or the name of a child
//! module, in a `use` line or in a path within its code. A re-export (`pub use`) is no arrow; a path that goes through
//! one points to the file behind it. A `mod` declaration is no arrow either. A folder has the arrows of all files in
//! it. Test modules and `*_tests.rs` are left out. A circle is a strongly connected component: any two of its files
//! reach each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{self, Rust};

/// Circles that stay: crate, files below `src`, and the reason. A circle that shrinks or goes must shrink or go here.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[];

/// A module's path inside its crate; the root's is empty.
type Module = Vec<String>;

/// An import: the path inside the crate, with the name at its end.
struct Use {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// One file's part of the graph.
struct File {
    path: String,
    uses: Vec<Use>,
}

/// Circles beyond the exceptions, and exceptions that are no longer needed.
pub(crate) fn problems() -> Vec<String> {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for krate in source::crates() {
        let graph = Graph::of(&krate);
        let folders = graph.folder_circles();
        problems.extend(folders.iter().map(|circle| format!("circle of folders in {krate}: {}", circle.join(", "))));
        for circle in graph.circles() {
            let exception = EXCEPTIONS
                .iter()
                .position(|(of, files, _)| *of == krate && circle.iter().all(|file| files.contains(&file.as_str())));
            match exception {
                None => problems.push(format!("new circle in {krate}: {}", circle.join(", "))),
                Some(at) if EXCEPTIONS[at].1.len() > circle.len() => {
                    problems.push(format!("a circle of {krate} shrank, write it so: {}", circle.join(", ")));
                    needed.insert(at);
                }
                Some(at) => drop(needed.insert(at)),
            }
        }
    }
    let unneeded = EXCEPTIONS.iter().enumerate().filter(|(at, _)| !needed.contains(at));
    problems
        .extend(unneeded.map(|(_, (krate, files, _))| format!("no circle any more in {krate}: {}", files.join(", "))));
    problems
}

/// Every circle of one crate, or of all for an empty name, one line each.
pub(crate) fn all(krate: &str) -> Vec<String> {
    let names = source::crates().into_iter().filter(|name| krate.is_empty() || name == krate);
    names
        .flat_map(|name| {
            let graph = Graph::of(&name);
            let of = [graph.circles(), graph.folder_circles()].concat();
            of.into_iter()
                .map(move |circle| format!("crates/{name}: circle of {}: {}", circle.len(), circle.join(", ")))
        })
        .collect()
}

/// The files of a crate that ship.
struct Graph(BTreeMap<Module, File>);

impl Graph {
    fn of(krate: &str) -> Self {
        let prefix = format!("crates/{krate}/src/");
        let in_src = source::rust().into_iter().filter(|file| file.path.starts_with(&prefix));
        Self(modules(in_src.filter_map(|file| Some((file.path.strip_prefix(&prefix)?.to_owned(), file)))))
    }

    /// The circles of files, each a sorted list of paths below `src`.
    fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.0.iter().map(|(module, file)| (module, targets(&self.0, module, file))).collect();
        let paths = |circle: Vec<&Module>| {
            let mut paths: Vec<String> = circle.iter().map(|module| self.0[*module].path.clone()).collect();
            paths.sort();
            paths
        };
        components(&arrows).into_iter().map(paths).collect()
    }

    /// The circles of folders and files that lie right below `src`, each a sorted list of names. The root of the crate
    /// is above all of them.
    fn folder_circles(&self) -> Vec<Vec<String>> {
        let mut arrows: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (module, file) in &self.0 {
            let Some(from) = module.first() else { continue };
            let to = targets(&self.0, module, file).into_iter().filter_map(|target| target.first());
            arrows.entry(from).or_default().extend(to.filter(|to| *to != from));
        }
        components(&arrows).into_iter().map(|circle| circle.into_iter().cloned().collect()).collect()
    }
}

/// The strongly connected components of more than one node.
fn components<'a, N: Ord>(arrows: &BTreeMap<&'a N, BTreeSet<&'a N>>) -> Vec<Vec<&'a N>> {
    let reach: BTreeMap<&N, BTreeSet<&N>> = arrows.keys().map(|&from| (from, reachable(arrows, from))).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for &node in arrows.keys() {
        let circle: Vec<&N> = reach[node].iter().copied().filter(|other| reach[*other].contains(node)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle);
        }
    }
    circles
}

/// The modules that ship, with their imports.
fn modules(sources: impl Iterator<Item = (String, Rust)>) -> BTreeMap<Module, File> {
    let mut files = BTreeMap::new();
    let mut tests: Vec<Module> = Vec::new();
    for (path, source) in sources.filter(|(path, _)| !path.starts_with("bin/") && !path.ends_with("_tests.rs")) {
        let module = module_of(&path);
        let (code, test_modules) = without_tests(&source.code);
        tests.extend(test_modules.into_iter().map(|name| [module.as_slice(), &[name]].concat()));
        let uses = uses(&module, &code);
        files.insert(module, File { path, uses });
    }
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    files
}

/// The module that a path below `src` holds.
fn module_of(path: &str) -> Module {
    let stem = path.strip_suffix(".rs").expect("only Rust files are listed");
    let mut parts: Module = stem.split('/').map(str::to_owned).collect();
    let is_root = parts.len() == 1 && (parts[0] == "lib" || parts[0] == "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The code without inline test modules and test imports, and the names of test modules in files of their own.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut kept = String::new();
    let mut names = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let after = &rest[at..];
        let end = after.find([';', '{']).unwrap_or(after.len() - 1);
        let item = &after[..end];
        if after[end..].starts_with(';') {
            names.extend(item.split_once("mod ").map(|(_, name)| name.trim().to_owned()));
            rest = &after[end + 1..];
        } else {
            rest = &after[end + block(&after[end..])..];
        }
    }
    kept.push_str(rest);
    (kept, names)
}

/// The length of a block from its opening brace to behind its closing one.
fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The imports of a file that stay inside its crate. Paths without `crate`, `super` or `self` are taken as the file's
/// own children, and fall away later where there is none.
fn uses(module: &Module, code: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap_or("").trim();
        let is_item = before.is_empty() || before.starts_with("pub") && !before.contains(' ');
        let after = &rest[at + 4..];
        let end = after.find(';').unwrap_or(after.len());
        if !is_item {
            uses.extend(inline_paths(&rest[..at]).filter_map(|path| import(module, path)));
            rest = after;
            continue;
        }
        uses.extend(inline_paths(&rest[..at]).filter_map(|path| import(module, path)));
        let mut paths = Vec::new();
        expand(&after[..end].split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
        let is_public = !before.is_empty();
        uses.extend(paths.iter().filter_map(|path| Some(Use { is_public, ..import(module, path)? })));
        rest = &after[end..];
    }
    uses.extend(inline_paths(rest).filter_map(|path| import(module, path)));
    uses
}

/// The paths within code that begin with `crate::` or `super::`.
fn inline_paths(code: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let words = code.split(move |char: char| !is_of_path(char));
    let paths = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths.map(|path| path.trim_end_matches(':'))
}

/// Splits `a::{b, c::{d, e}}` into its paths.
fn expand(tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((prefix, body)) = tree.split_once('{') else {
        if !tree.is_empty() {
            paths.push(tree.to_owned());
        }
        return;
    };
    let body = body.strip_suffix('}').unwrap_or(body);
    let mut depth = 0;
    let mut start = 0;
    for (at, char) in body.char_indices().chain([(body.len(), ',')]) {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = body[start..at].trim();
                if !item.is_empty() {
                    expand(&format!("{}{item}", prefix.trim_start()), paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// One path of a private `use` line as a path inside the crate.
fn import(module: &Module, path: &str) -> Option<Use> {
    let (path, alias) = path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    if parts.len() > 1 && parts.last() == Some(&"self") {
        parts.pop();
    }
    let mut base = module.clone();
    match parts[0] {
        "crate" => {
            base.clear();
            parts.remove(0);
        }
        "self" => drop(parts.remove(0)),
        _ => {
            while parts.first() == Some(&"super") {
                base.pop()?;
                parts.remove(0);
            }
        }
    }
    let name = alias.or(parts.last().copied()).unwrap_or_default().to_owned();
    base.extend(parts.into_iter().map(str::to_owned));
    Some(Use { path: base, name, is_public: false })
}

/// The files that a file's imports point to.
fn targets<'a>(files: &'a BTreeMap<Module, File>, module: &Module, file: &File) -> BTreeSet<&'a Module> {
    let imports = file.uses.iter().filter(|import| !import.is_public);
    imports.filter_map(|import| home(files, &import.path, 0)).filter(|target| *target != module).collect()
}

/// The file that defines what a path names, behind re-exports.
fn home<'a>(files: &'a BTreeMap<Module, File>, path: &[String], depth: usize) -> Option<&'a Module> {
    let len = (0..=path.len()).rev().find(|&len| files.contains_key(&path[..len]))?;
    let (module, file) = files.get_key_value(&path[..len])?;
    let exported = path.get(len).and_then(|name| {
        file.uses.iter().find(|import| import.is_public && import.name == *name && import.path != path[..=len])
    });
    match exported {
        Some(import) if depth < 8 => home(files, &[import.path.as_slice(), &path[len + 1..]].concat(), depth + 1),
        _ => Some(module),
    }
}

/// All nodes that a node reaches by arrows.
fn reachable<'a, N: Ord>(arrows: &BTreeMap<&'a N, BTreeSet<&'a N>>, from: &'a N) -> BTreeSet<&'a N> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        open.extend(arrows[node].iter().copied().filter(|&next| reached.insert(next)));
    }
    reached
}

#[test]
fn a_tree_of_imports_is_split_into_paths() {
    let mut paths = Vec::new();
    expand("crate::{a, b::{self, C as D}, e::*}", &mut paths);
    assert_eq!(paths, ["crate::a", "crate::b::self", "crate::b::C as D", "crate::e::*"]);
}

#[test]
fn paths_within_code_are_arrows_and_folders_have_those_of_their_files() {
    let sources = [
        ("low/mod.rs", "pub struct Low;\n"),
        ("low/upward.rs", "fn up() -> Vec<crate::high::High> { Vec::new() }\n"),
        ("high/mod.rs", "use crate::low::Low;\npub struct High(Low);\n"),
    ];
    let files = modules(sources.into_iter().map(|(path, text)| {
        let file = Rust { krate: "x".into(), path: path.into(), text: text.into(), code: text.into() };
        (path.to_owned(), file)
    }));
    let graph = Graph(files);
    assert!(graph.circles().is_empty(), "no two files import each other");
    assert_eq!(graph.folder_circles(), [["high", "low"]]);
}

#[test]
fn imports_through_a_re_export_point_to_the_file_behind_it() {
    let sources = [
        ("lib.rs", "mod a;\nmod b;\npub use a::Thing;\n"),
        ("a.rs", "pub struct Thing;\nuse crate::b::Other;\n#[cfg(test)]\nmod tests { use crate::c::Never; }\n"),
        ("b.rs", "use crate::Thing;\nuse std::fmt;\n"),
        ("c.rs", "use super::a;\n"),
    ];
    let files = modules(sources.into_iter().map(|(path, text)| {
        let file = Rust { krate: "x".into(), path: path.into(), text: text.into(), code: text.into() };
        (path.to_owned(), file)
    }));
    let arrows = |name: &str| {
        let module = module_of(name);
        targets(&files, &module, &files[&module]).into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(arrows("a.rs"), [vec!["b".to_owned()]]);
    assert_eq!(arrows("b.rs"), [vec!["a".to_owned()]]);
    assert_eq!(arrows("c.rs"), [vec!["a".to_owned()]]);
    assert!(arrows("lib.rs").is_empty());
}
