//! The packages of the workspace and who may depend on whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::source::whole_words;
use super::tree::{RustFile, root};

const OUR_PREFIX: &str = "dehub-";

/// Lists of words by name, as the fenced blocks of ARCHITECTURE.md hold them.
pub(crate) type Lists = BTreeMap<String, BTreeSet<String>>;

pub(crate) static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(read);

/// A package of the workspace. Its name, and those of ours it depends on, are without the prefix.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// From the root, without a slash at the end.
    pub(crate) folder: String,
    /// Dependencies of the shipped code, build scripts included.
    pub(crate) shipped: BTreeSet<String>,
    /// Dependencies of tests and benches.
    pub(crate) dev: BTreeSet<String>,
}

fn read() -> Vec<Package> {
    let manifest = root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec();
    metadata.expect("cargo metadata reads the workspace").packages.into_iter().map(package).collect()
}

fn package(read: cargo_metadata::Package) -> Package {
    let folder = read.manifest_path.parent().expect("a manifest is in a folder");
    let folder = folder.as_std_path().strip_prefix(root()).expect("a member is inside the workspace");
    let (dev, shipped): (Vec<_>, Vec<_>) =
        read.dependencies.iter().partition(|dependency| dependency.kind == DependencyKind::Development);
    let names =
        |list: Vec<&cargo_metadata::Dependency>| list.iter().map(|found| short(&found.name)).collect();
    Package {
        name: short(&read.name),
        folder: folder.to_string_lossy().into_owned(),
        shipped: names(shipped),
        dev: names(dev),
    }
}

fn short(name: &str) -> String {
    name.trim_start_matches(OUR_PREFIX).to_owned()
}

/// Where the arrows between our packages differ from the listed ones.
pub(crate) fn wrong_arrows(packages: &[Package], listed: &Lists) -> Vec<String> {
    let ours: BTreeSet<_> = packages.iter().map(|package| &package.name).collect();
    let unknown = listed.keys().filter(|name| !ours.contains(name));
    let mut wrong: Vec<_> = unknown.map(|name| format!("`{name}` is listed and is no package")).collect();
    for package in packages {
        let name = &package.name;
        let found: BTreeSet<_> = package.shipped.iter().filter(|other| ours.contains(other)).collect();
        let Some(listed) = listed.get(name) else {
            wrong.push(format!("`{name}` is a package and is not listed"));
            continue;
        };
        let listed: BTreeSet<_> = listed.iter().collect();
        wrong.extend(found.difference(&listed).map(|other| format!("{name} depends on {other}, not listed")));
        wrong.extend(
            listed.difference(&found).map(|other| format!("{name}: {other} is listed, not a dependency")),
        );
    }
    wrong
}

/// Where a heavy dependency is not a dependency of its owner, and of its owner alone.
pub(crate) fn wrong_owners(packages: &[Package], listed: &Lists) -> Vec<String> {
    let mut wrong = Vec::new();
    for (dependency, owners) in listed {
        let stale = |owner: &&String| {
            let of_owner = |package: &Package| &package.name == *owner;
            !packages.iter().any(|package| of_owner(package) && package.depends_on(dependency))
        };
        let strangers = packages.iter().filter(|package| !owners.contains(&package.name));
        let users = strangers.filter(|package| package.shipped.contains(dependency));
        wrong.extend(
            users.map(|package| format!("{} depends on {dependency}, owned by {owners:?}", package.name)),
        );
        wrong.extend(
            owners.iter().filter(stale).map(|owner| format!("{owner} does not depend on {dependency}")),
        );
        if owners.len() != 1 {
            wrong.push(format!("{dependency} must have one owner, found {owners:?}"));
        }
    }
    wrong
}

impl Package {
    fn depends_on(&self, dependency: &str) -> bool {
        self.shipped.contains(dependency) || self.dev.contains(dependency)
    }
}

/// Where sources outside the owner's folder name a heavy dependency. Benches may name what they measure.
pub(crate) fn named_by_strangers(packages: &[Package], listed: &Lists, files: &[RustFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let Some(package) = owner_of(packages, &file.path) else { continue };
        for (dependency, owners) in listed {
            let measured = package.name == "benches" && package.dev.contains(dependency);
            if measured || owners.contains(&package.name) {
                continue;
            }
            let identifier = dependency.replace('-', "_");
            let places = named(&file.code, &identifier);
            wrong.extend(
                places.map(|position| format!("{}: names {dependency}", file.place(&file.code, position))),
            );
        }
    }
    wrong
}

/// The package in whose folder a file is: the deepest one, because packages nest.
fn owner_of<'a>(packages: &'a [Package], path: &str) -> Option<&'a Package> {
    let holds =
        |package: &&Package| path.strip_prefix(&package.folder).is_some_and(|rest| rest.starts_with('/'));
    packages.iter().filter(holds).max_by_key(|package| package.folder.len())
}

/// Where a path starts with `dependency`: `x::`, `::x::`, `use x;` and `extern crate x`.
fn named<'a>(code: &'a str, dependency: &'a str) -> impl Iterator<Item = usize> + 'a {
    whole_words(code, dependency).filter(move |&position| {
        let before = code[..position].trim_end();
        let after = code[position + dependency.len()..].trim_start();
        let imported = before.ends_with("use") || before.ends_with("extern crate");
        is_root(before) && (imported || after.starts_with("::"))
    })
}

/// True when what follows `before` is the first segment of a path.
fn is_root(before: &str) -> bool {
    let Some(parent) = before.strip_suffix("::") else { return true };
    !parent.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::markdown::lists;

    fn package(name: &str, folder: &str, shipped: &[&str]) -> Package {
        let shipped = shipped.iter().map(|&name| name.to_owned()).collect();
        Package { name: name.to_owned(), folder: folder.to_owned(), shipped, dev: BTreeSet::new() }
    }

    fn workspace() -> [Package; 2] {
        [package("index", "index", &["store", "serde"]), package("store", "index/store", &["rocksdb"])]
    }

    fn listed(lines: &[&str]) -> Lists {
        lists(lines).expect("the lines have the form")
    }

    #[test]
    fn arrows_differ_in_both_directions() {
        assert!(wrong_arrows(&workspace(), &listed(&["index: store", "store: –"])).is_empty());
        let wrong = wrong_arrows(&workspace(), &listed(&["index: –", "store: index", "query: –"]));
        let expected = [
            "`query` is listed and is no package",
            "index depends on store, not listed",
            "store: index is listed, not a dependency",
        ];
        assert_eq!(wrong, expected);
        assert_eq!(
            wrong_arrows(&workspace(), &listed(&["index: store"])),
            ["`store` is a package and is not listed"]
        );
    }

    #[test]
    fn a_heavy_dependency_belongs_to_its_owner_alone() {
        assert!(wrong_owners(&workspace(), &listed(&["rocksdb: store"])).is_empty());
        assert_eq!(wrong_owners(&workspace(), &listed(&["rocksdb: index"])).len(), 2);
        assert_eq!(
            wrong_owners(&workspace(), &listed(&["hnsw_rs: index"])),
            ["index does not depend on hnsw_rs"]
        );
        assert_eq!(
            wrong_owners(&workspace(), &listed(&["tantivy: –"])),
            ["tantivy must have one owner, found {}"]
        );
    }

    #[test]
    fn a_file_belongs_to_the_deepest_package() {
        let packages = workspace();
        let owner = |path| owner_of(&packages, path).map(|package| package.name.as_str());
        assert_eq!(owner("index/store/src/lib.rs"), Some("store"));
        assert_eq!(owner("index/src/store/lib.rs"), Some("index"));
        assert_eq!(owner("indexes/src/lib.rs"), None);
    }

    #[test]
    fn a_crate_is_named_at_the_start_of_a_path_only() {
        let count = |code| named(code, "config").count();
        assert_eq!(count("use config; config::File ::config::File extern crate config;"), 4);
        assert_eq!(count("crate::config::File config.file my_config::File let config = 1;"), 0);
    }
}
