//! The rules of this repository that a machine can check. Each failure says what to do about it.

use std::collections::BTreeSet;
use std::path::Path;

use tidy::markdown::{self, block, code_spans, links};
use tidy::packages::{self, Lists, PACKAGES};
use tidy::source::{functions, line_of, test_lines, tests_named, whole_words};
use tidy::tree::{RustFile, TREE, TextFile};
use tidy::words;

mod tidy {
    pub(crate) mod markdown;
    pub(crate) mod packages;
    pub(crate) mod source;
    pub(crate) mod tree;
    pub(crate) mod words;
}

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARS_MAX: usize = 120;
const DRAWERS: [&str; 4] = ["common", "helpers", "misc", "utils"];

/// Fails with every violation and with what to do about them.
#[track_caller]
fn expect_none(violations: Vec<String>, what_to_do: &str) {
    let count = violations.len();
    assert!(violations.is_empty(), "\n{count} found:\n  {}\n\n{what_to_do}\n", violations.join("\n  "));
}

/// The lines of a fenced block of ARCHITECTURE.md.
fn architecture(name: &str) -> Vec<&'static str> {
    let lines = block(TREE.text("ARCHITECTURE.md"), name);
    lines.unwrap_or_else(|| panic!("ARCHITECTURE.md has no block opened by ```{name}: write one"))
}

fn architecture_lists(name: &str) -> Lists {
    markdown::lists(&architecture(name))
        .unwrap_or_else(|error| panic!("ARCHITECTURE.md, block {name}: {error}"))
}

/// The places of whole words in a view of every Rust file.
fn places_of(word: &str, view: fn(&RustFile) -> &str) -> Vec<String> {
    let in_file = |file: &'static RustFile| {
        let found: Vec<_> = whole_words(view(file), word).collect();
        found.into_iter().map(|position| format!("{}: {word}", file.place(view(file), position)))
    };
    TREE.rust.iter().flat_map(in_file).collect()
}

#[test]
fn packages_depend_on_each_other_as_architecture_says() {
    expect_none(
        packages::wrong_arrows(&PACKAGES, &architecture_lists("arrows")),
        "The block `arrows` of ARCHITECTURE.md is the law: change it first, with a reason, or drop the dependency.",
    );
}

#[test]
fn heavy_dependencies_have_one_owner() {
    let owners = architecture_lists("owners");
    let mut violations = packages::wrong_owners(&PACKAGES, &owners);
    violations.extend(packages::named_by_strangers(&PACKAGES, &owners, &TREE.rust));
    expect_none(
        violations,
        "Only its owner in the block `owners` of ARCHITECTURE.md may use a heavy dependency: call the owner instead.",
    );
}

#[test]
fn packages_inherit_the_settings_of_the_workspace() {
    let lacks = |manifest: &str, section: &str, line: &str| {
        let text = TREE.text(manifest);
        let mut lines = text.lines().skip_while(|found| found.trim() != section).skip(1);
        let found =
            lines.by_ref().take_while(|found| !found.starts_with('[')).any(|found| found.trim() == line);
        (!found).then(|| format!("{manifest}: no `{line}` under {section}"))
    };
    let mut violations = Vec::from_iter(lacks("Cargo.toml", "[workspace.package]", "publish = false"));
    for package in PACKAGES.iter() {
        let manifest = format!("{}/Cargo.toml", package.folder);
        violations.extend(lacks(&manifest, "[lints]", "workspace = true"));
        for key in ["edition", "license", "publish", "rust-version", "version"] {
            violations.extend(lacks(&manifest, "[package]", &format!("{key}.workspace = true")));
        }
    }
    expect_none(
        violations,
        "Every package takes lints, edition, licence and publish from the root Cargo.toml.",
    );
}

#[test]
fn the_lock_file_is_committed_and_no_toolchain_is_pinned() {
    assert!(TREE.contains("Cargo.lock"), "commit Cargo.lock: the build runs with --locked");
    let pinned = TREE.paths.iter().filter(|path| path.contains("rust-toolchain")).cloned().collect();
    expect_none(pinned, "Any Rust from `rust-version` of Cargo.toml on must do: delete the file.");
}

#[test]
fn files_are_short() {
    let lengths = TREE.rust.iter().map(|file| (&file.path, file.text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    expect_none(
        long.map(|(path, lines)| format!("{path}: {lines} lines")).collect(),
        &format!("A file holds one concept, in {FILE_LINES_MAX} lines at most: split it by concept."),
    );
}

#[test]
fn functions_are_short() {
    let long_in = |file: &'static RustFile| {
        let found = functions(&file.code).into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
        found.map(|it| format!("{}:{}: {} has {} lines", file.path, it.first_line, it.name, it.lines))
    };
    expect_none(
        TREE.rust.iter().filter(|file| !file.is_test).flat_map(long_in).collect(),
        &format!("A function decides or works, in {FUNCTION_LINES_MAX} lines at most: ifs up, fors down."),
    );
}

#[test]
fn lines_are_short() {
    let checked = |file: &&TextFile| file.has_extension("rs") || file.has_extension("sh");
    let long_in = |file: &'static TextFile| {
        // A test's table reads best with a case a line.
        let is_test = file.path.contains("/tests/");
        let long =
            move |line: &str| line.chars().count() > LINE_CHARS_MAX && !line.contains("://") && !is_test;
        let lines = file.text.lines().enumerate().filter(move |(_, line)| long(line));
        lines.map(|(index, _)| format!("{}:{}", file.path, index + 1))
    };
    expect_none(
        TREE.texts.iter().filter(checked).flat_map(long_in).collect(),
        &format!(
            "Lines have {LINE_CHARS_MAX} characters at most; rustfmt does not wrap strings and comments."
        ),
    );
}

#[test]
fn no_file_is_a_drawer() {
    let is_drawer = |file: &&RustFile| {
        let path = file.path.trim_end_matches(".rs");
        let module = if file.is_test { path } else { path.trim_end_matches("/mod") };
        module.rsplit('/').next().is_some_and(|name| DRAWERS.contains(&name))
    };
    expect_none(
        TREE.rust.iter().filter(is_drawer).map(|file| file.path.clone()).collect(),
        "Name the file after the concept it holds; what belongs to nobody belongs to its only caller.",
    );
}

#[test]
fn nothing_is_left_unfinished() {
    let mut violations = Vec::new();
    for word in ["TODO", "FIXME", "XXX"] {
        violations.extend(places_of(word, |file| &file.code_and_comments));
    }
    for name in ["todo", "unimplemented", "dbg"] {
        let calls = |file: &'static RustFile| {
            let found =
                whole_words(&file.code, name).filter(|end| file.code[end + name.len()..].starts_with("!("));
            found.map(move |position| format!("{}: {name}!", file.place(&file.code, position)))
        };
        violations.extend(TREE.rust.iter().flat_map(calls));
    }
    expect_none(violations, "Finish it or leave it out; what is planned goes to the issue tracker.");
}

#[test]
fn shipped_code_never_unwraps() {
    let unwraps = |file: &'static RustFile| {
        let tests = test_lines(&file.code);
        let lines = file.code.match_indices(".unwrap()").map(|(position, _)| line_of(&file.code, position));
        let shipped = lines.filter(move |line| !tests.iter().any(|test| test.contains(line)));
        shipped.map(|line| format!("{}:{line}", file.path))
    };
    expect_none(
        TREE.rust.iter().filter(|file| !file.is_test).flat_map(unwraps).collect(),
        "Return an error, or use `expect` with the reason why it cannot happen.",
    );
}

#[test]
fn no_test_is_ignored() {
    let ignored = |file: &'static RustFile| {
        file.code.match_indices("#[ignore").map(|(position, _)| file.place(&file.code, position))
    };
    expect_none(
        TREE.rust.iter().flat_map(ignored).collect(),
        "A test runs or does not exist: make it fast, or turn it into a bench.",
    );
}

#[test]
fn names_of_tests_are_sentences() {
    let badly_named = |file: &'static RustFile| {
        let found = tests_named(&file.code, "test_").into_iter();
        found.map(|(line, name)| format!("{}:{line}: {name}", file.path))
    };
    expect_none(
        TREE.rust.iter().flat_map(badly_named).collect(),
        "A test's name is the sentence it proves, such as `closed_gate_returns_raw_order`: drop `test_`.",
    );
}

#[test]
fn no_reexport_uses_a_glob() {
    let globs = |file: &'static RustFile| {
        let uses = whole_words(&file.code, "use").filter(|&position| {
            let line = file.code[..position].rsplit(['\n', ';', '}']).next().unwrap_or_default();
            let path = file.code[position..].split(';').next().unwrap_or_default();
            line.trim_start().starts_with("pub") && path.contains('*')
        });
        uses.map(|position| file.place(&file.code, position))
    };
    expect_none(
        TREE.rust.iter().flat_map(globs).collect(),
        "List the names that are re-exported: the list is the interface.",
    );
}

#[test]
fn unsafe_code_is_where_architecture_says_and_states_why_it_is_sound() {
    let lines = block(TREE.text("ARCHITECTURE.md"), "unsafe").unwrap_or_default();
    let listed: BTreeSet<_> = lines.into_iter().filter(|&line| line != "–" && line != "-").collect();
    let mut violations = Vec::new();
    let mut used = BTreeSet::new();
    for file in &TREE.rust {
        for position in whole_words(&file.code, "unsafe") {
            used.insert(file.path.as_str());
            if !listed.contains(file.path.as_str()) {
                violations.push(format!(
                    "{}: unsafe in a file that is not listed",
                    file.place(&file.code, position)
                ));
            } else if needs_reason(&file.code[position..]) && !has_reason(file, position) {
                violations.push(format!("{}: no // SAFETY: comment above", file.place(&file.code, position)));
            }
        }
    }
    violations.extend(listed.difference(&used).map(|path| format!("{path}: listed, and has no unsafe code")));
    expect_none(
        violations,
        "Do without; or list the file in the block `unsafe` of ARCHITECTURE.md and say why each block is sound.",
    );
}

/// Blocks and impls promise something; an `unsafe fn` asks its caller to.
fn needs_reason(from_keyword: &str) -> bool {
    let next = from_keyword["unsafe".len()..].trim_start();
    next.starts_with('{') || next.starts_with("impl")
}

/// True when the comment lines right above hold `SAFETY:`; attributes may stand between.
fn has_reason(file: &RustFile, position: usize) -> bool {
    let line = line_of(&file.code, position);
    let above: Vec<_> = file.text.lines().take(line - 1).map(str::trim_start).collect();
    let attached = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    above.iter().rev().take_while(attached).any(|line| line.contains("SAFETY:"))
}

#[test]
fn there_is_one_word_per_thing() {
    let rules = words::rules(&architecture("words"));
    let mut violations = Vec::new();
    for rule in rules.unwrap_or_else(|error| panic!("ARCHITECTURE.md, block words: {error}")) {
        for file in &TREE.rust {
            let lines = words::found(&rule, &file.path, &file.text);
            let report = |line| format!("{}:{line}: {} -> {}", file.path, rule.banned, rule.wanted);
            violations.extend(lines.into_iter().map(report));
        }
    }
    expect_none(
        violations,
        "Use the word that ARCHITECTURE.md gives the thing, in code, comments and messages.",
    );
}

#[test]
fn paths_in_markdown_exist() {
    let pages = TREE.texts.iter().filter(|file| file.has_extension("md"));
    let missing_in = |file: &'static TextFile| {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        let linked = links(&file.text)
            .into_iter()
            .filter_map(move |(line, target)| Some((line, joined(folder, linked_path(target)?))));
        let spoken =
            code_spans(&file.text).into_iter().filter_map(|(line, span)| Some((line, spoken_path(span)?)));
        let missing = linked.chain(spoken).filter(|(_, path)| !TREE.contains(path));
        missing.map(|(line, path)| format!("{}:{line}: {path}", file.path))
    };
    expect_none(
        pages.flat_map(missing_in).collect(),
        "The path has moved or was never there: correct the page.",
    );
}

/// The path of a link into the repository.
fn linked_path(target: &str) -> Option<&str> {
    let outside = target.contains("://") || target.starts_with('#') || target.starts_with("mailto:");
    (!outside).then(|| target.split('#').next().unwrap_or(target))
}

/// The path that a code span names, when it looks like one of this repository.
fn spoken_path(span: &str) -> Option<String> {
    let path = span.split(':').next()?.trim_end_matches('/');
    let (top, _) = path.split_once('/')?;
    let is_pattern = span.contains(|letter: char| letter.is_whitespace() || "*<>${}…".contains(letter));
    let known = TREE.paths.iter().any(|file| file.split('/').next() == Some(top));
    (known && !is_pattern).then(|| path.to_owned())
}

/// The path from the root of a link in a page of `folder`.
fn joined(folder: &Path, target: &str) -> String {
    let mut parts: Vec<_> = folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part.to_owned()),
        }
    }
    parts.join("/")
}

#[test]
fn no_text_names_a_folder_of_one_machine() {
    let names_machine = |line: &str| {
        let mut folders = ["root", "home", "work"].into_iter().map(|name| format!("/{name}/"));
        folders.any(|folder| line.match_indices(&folder).any(|(at, _)| starts_path(&line[..at])))
    };
    let named_in = |file: &'static TextFile| {
        let lines = file.text.lines().enumerate().filter(move |(_, line)| names_machine(line));
        lines.map(|(index, _)| format!("{}:{}", file.path, index + 1))
    };
    expect_none(
        TREE.texts.iter().flat_map(named_in).collect(),
        "Write paths from the root of the repository, or with $HOME.",
    );
}

/// True when a `/` after `before` begins a path, rather than going on with one.
fn starts_path(before: &str) -> bool {
    !before.ends_with(|letter: char| letter.is_alphanumeric() || "_-.~}".contains(letter))
}

#[test]
fn texts_end_in_a_newline_and_lines_without_spaces() {
    let trailing = |file: &'static TextFile| {
        let lines = file.text.split('\n').enumerate().filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
        lines.map(|(index, _)| format!("{}:{}: white space at the end", file.path, index + 1))
    };
    let unfinished = TREE.texts.iter().filter(|file| !file.text.is_empty() && !file.text.ends_with('\n'));
    let unfinished = unfinished.map(|file| format!("{}: no newline at the end", file.path));
    expect_none(
        TREE.texts.iter().flat_map(trailing).chain(unfinished).collect(),
        "Remove the white space; end the file in a newline.",
    );
}

#[test]
fn links_and_spoken_paths_are_read_as_meant() {
    assert_eq!(joined(Path::new("testdata/wordnet"), "../../deny.toml"), "deny.toml");
    assert_eq!(linked_path("https://example.org/a"), None);
    assert_eq!(linked_path("a.md#part"), Some("a.md"));
    assert_eq!(spoken_path("tools/tests/tidy.rs:12"), Some("tools/tests/tidy.rs".to_owned()));
    assert_eq!(spoken_path("tools/*/src"), None);
    assert_eq!(spoken_path("no-such-top/src"), None);
}

#[test]
fn a_reason_stands_right_above_its_block() {
    let file = |text: &str| RustFile {
        path: String::new(),
        text: text.to_owned(),
        code: text.to_owned(),
        code_and_comments: String::new(),
        is_test: false,
    };
    let judged = |text: &str| {
        let position = text.find("unsafe").expect("the text has the keyword");
        needs_reason(&text[position..]) && has_reason(&file(text), position)
    };
    assert!(judged("// SAFETY: checked above,\n// twice.\n#[x]\nunsafe { f() }"));
    assert!(!judged("// SAFETY: for another\ng();\nunsafe { f() }"));
    assert!(!judged("// SAFETY: no block\nunsafe fn f() {}"));
}

#[test]
fn only_paths_from_the_root_of_a_machine_are_machine_paths() {
    assert!(starts_path("see "));
    assert!(starts_path("file://"));
    assert!(!starts_path("benches"));
    assert!(!starts_path("~"));
}
