//! The files of the repository, read once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use super::source::{self, Source};

/// Every file that is tracked or could be: what git ignores is not here.
pub(crate) static TREE: LazyLock<Tree> = LazyLock::new(|| Tree::read(&root()));

pub(crate) struct Tree {
    pub(crate) paths: BTreeSet<String>,
    pub(crate) texts: Vec<TextFile>,
    pub(crate) rust: Vec<RustFile>,
}

/// A file of valid UTF-8, with its path from the root.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A Rust file and its views.
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    /// Without strings, chars and comments.
    pub(crate) code: String,
    /// Without strings and chars.
    pub(crate) code_and_comments: String,
    /// Compiled for tests only, as a whole.
    pub(crate) is_test: bool,
}

/// The root of the workspace: this package is one folder below it.
pub(crate) fn root() -> PathBuf {
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo sets the folder of the package for its tests");
    Path::new(&package).parent().expect("the package is not the root of the file system").to_owned()
}

impl Tree {
    fn read(root: &Path) -> Self {
        let paths: BTreeSet<String> =
            listed(root).into_iter().filter(|path| root.join(path).is_file()).collect();
        let texts: Vec<_> = paths.iter().filter_map(|path| TextFile::read(root, path)).collect();
        let mut rust: Vec<_> =
            texts.iter().filter(|file| file.has_extension("rs")).map(RustFile::new).collect();
        let test_modules: Vec<_> = rust.iter().flat_map(RustFile::test_modules).collect();
        for file in &mut rust {
            file.is_test |= test_modules.iter().any(|module| is_or_is_in(&file.path, module));
        }
        Self { paths, texts, rust }
    }

    /// The text of one file, or a failure that names it.
    pub(crate) fn text(&self, path: &str) -> &str {
        let file = self.texts.iter().find(|file| file.path == path);
        &file.unwrap_or_else(|| panic!("{path} is missing from the repository")).text
    }

    /// True for a file and for a folder that holds one.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.iter().any(|file| file.starts_with(&folder))
    }
}

/// What a version of dehub wrote, which stays byte for byte.
fn is_stored_data(path: &str) -> bool {
    let mut parts = path.split('/').skip_while(|part| !part.starts_with("format-")).skip(1);
    path.starts_with("testdata/compat/") && matches!(parts.next(), Some("data" | "backup"))
}

impl TextFile {
    fn read(root: &Path, path: &str) -> Option<Self> {
        if is_stored_data(path) {
            return None;
        }
        let bytes = fs::read(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        Some(Self { path: path.to_owned(), text })
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

impl RustFile {
    fn new(file: &TextFile) -> Self {
        let source = Source::new(&file.text);
        let code = source.code();
        let in_tests = file.path.split('/').any(|part| part == "tests" || part == "tests.rs");
        Self {
            path: file.path.clone(),
            text: file.text.clone(),
            code_and_comments: source.code_and_comments(),
            is_test: in_tests || source::is_test_only(&code),
            code,
        }
    }

    /// Where the modules are that this file declares for tests only, without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let names = source::test_modules(&self.code);
        let folder = module_folder(&self.path);
        names.into_iter().map(|name| format!("{folder}{name}")).collect()
    }

    /// `path:line`, for a byte position in any view.
    pub(crate) fn place(&self, view: &str, position: usize) -> String {
        format!("{}:{}", self.path, source::line_of(view, position))
    }
}

/// The folder, with its slash, where the child modules of a file are.
fn module_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let parent = stem.rsplit_once('/').map_or("", |(parent, _)| parent);
    match stem.rsplit('/').next() {
        Some("lib" | "main" | "mod") => format!("{parent}/"),
        _ => format!("{stem}/"),
    }
}

fn is_or_is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// What git lists; without git, or outside a clone, what a walk finds.
fn listed(root: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    match git.output() {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(str::to_owned).collect()
        }
        _ => walked(root, "", &ignored(root)),
    }
}

/// Names at the root that hold no source: build output and what .gitignore lists there.
fn ignored(root: &Path) -> Vec<String> {
    let listed = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let fixed = [".git", "target"].into_iter();
    fixed.chain(listed.lines().map(|line| line.trim_matches('/'))).map(str::to_owned).collect()
}

fn walked(root: &Path, folder: &str, ignored: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for entry in entries {
        let entry = entry.expect("the folder can be read to its end");
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        let is_folder = entry.file_type().expect("the kind of an entry can be read").is_dir();
        match is_folder {
            _ if ignored.contains(&path) => {}
            true => found.extend(walked(root, &format!("{path}/"), ignored)),
            false => found.push(path),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_modules_are_looked_for_where_rust_does() {
        assert_eq!(module_folder("index/src/lib.rs"), "index/src/");
        assert_eq!(module_folder("index/src/graph.rs"), "index/src/graph/");
        assert!(is_or_is_in("index/src/oracle/rows.rs", "index/src/oracle"));
        assert!(!is_or_is_in("index/src/oracles.rs", "index/src/oracle"));
    }

    #[test]
    fn git_and_the_walk_agree_on_the_sources() {
        let walk: BTreeSet<_> = walked(&root(), "", &ignored(&root())).into_iter().collect();
        let missing: Vec<_> = TREE.paths.iter().filter(|path| !walk.contains(*path)).collect();
        assert!(missing.is_empty(), "listed by git, not found by the walk: {missing:?}");
    }
}
