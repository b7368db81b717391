//! Aliases: other names of collections, in one file of the data directory.
//!
//! The file is replaced as a whole, so a crash leaves the aliases as they were before a change or after it. An alias
//! hides no collection: where a name is both, which only a crash or a stranger can bring about, it is the collection.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Blame, Catalogue, CatalogueError, Name, beside};

/// The file.
const FILE: &str = "aliases.json";

/// The same while it is written. What a crash leaves of it is overwritten.
const NEW_FILE: &str = "aliases.json.new";

/// The layout of the file that this version writes.
const FORMAT: u32 = 1;

/// All aliases are written with each change, so there are not as many as one likes.
pub const ALIASES_MAX: usize = 10_000;

/// The collection of each alias.
type Map = BTreeMap<Name, Name>;

/// What is in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    aliases: Map,
}

/// A change of the aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AliasChange {
    /// Lets `alias` be a name of `collection`, whatever it was a name of before.
    Set {
        /// The other name.
        alias: Name,
        /// The collection.
        collection: Name,
    },
    /// Removes an alias, if it is there.
    Remove {
        /// The other name.
        alias: Name,
    },
    /// Gives an alias another name, in the place of whatever alias had that.
    Rename {
        /// Its name.
        from: Name,
        /// Its name after that.
        to: Name,
    },
}

/// Why no alias was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// The collection that is to get an alias is not there.
    #[error("change {place}: {source}")]
    Collection {
        /// Which change, from 0.
        place: usize,
        /// Why.
        source: CatalogueError,
    },
    /// An alias would have the name of a collection.
    #[error("change {place}: there is a collection `{alias}`, so it cannot be an alias")]
    Taken {
        /// Which change, from 0.
        place: usize,
        /// The name.
        alias: Name,
    },
    /// There is no alias of this name.
    #[error("change {place}: there is no alias `{alias}`; there are: {found}")]
    Unknown {
        /// Which change, from 0.
        place: usize,
        /// The name.
        alias: Name,
        /// The aliases there are.
        found: String,
    },
    /// There would be more than [`ALIASES_MAX`].
    #[error("there would be {found} aliases, wanted at most {ALIASES_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// The data directory cannot be had, or the file cannot be read or written.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl AliasError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            AliasError::Collection { source, .. } | AliasError::Catalogue(source) => source.blame(),
            AliasError::Taken { .. } | AliasError::Unknown { .. } | AliasError::TooMany { .. } => {
                Blame::Caller
            }
        }
    }
}

/// The aliases as far as this process knows them.
#[derive(Default)]
pub(crate) struct Aliases {
    /// Held by whoever changes them, and by whoever gives a collection a name that must be none of theirs.
    turn: Mutex<()>,
    /// What was read or written last. Locked for moments.
    known: Mutex<Option<Arc<Map>>>,
}

impl Aliases {
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Map>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catalogue {
    /// The collection that a name means: that of the alias, if it is one, and else the one of this name, whether
    /// there is one or not.
    pub fn resolve(&self, name: Name) -> Result<Name, CatalogueError> {
        match self.known_aliases() {
            Ok(aliases) => match aliases.get(&name) {
                Some(collection) if !self.path(&name).is_dir() => Ok(collection.clone()),
                Some(_) | None => Ok(name),
            },
            // Collections do not depend on the file.
            Err(_) if self.path(&name).is_dir() => Ok(name),
            Err(error) => Err(error),
        }
    }

    /// Every alias with its collection, in order.
    pub fn aliases(&self) -> Result<BTreeMap<Name, Name>, CatalogueError> {
        Ok(self.whole((*self.known_aliases()?).clone()))
    }

    /// Makes all of the changes, one after the other, or none of them. They are on disk when this returns.
    pub fn change_aliases(&self, changes: &[AliasChange]) -> Result<(), AliasError> {
        let _turn = self.aliases.turn();
        self.share()?;
        let _lock = self.lock_against_others()?;
        let mut next = self.whole(read(self.folder())?);
        for (place, change) in changes.iter().enumerate() {
            self.apply(&mut next, place, change)?;
        }
        if next.len() > ALIASES_MAX {
            return Err(AliasError::TooMany { found: next.len() });
        }
        Ok(self.install(next)?)
    }

    /// Refuses a name that is an alias: a collection must not get it.
    pub(crate) fn refuse_alias(&self, name: &Name) -> Result<(), CatalogueError> {
        match self.known_aliases()?.get(name) {
            Some(collection) => {
                Err(CatalogueError::IsAlias { name: name.clone(), collection: collection.clone() })
            }
            None => Ok(()),
        }
    }

    /// Removes the aliases of a collection that is gone; the caller has the turn.
    pub(crate) fn forget_aliases(&self, collection: &Name) -> Result<(), CatalogueError> {
        if !self.known_aliases()?.values().any(|found| found == collection) {
            return Ok(());
        }
        let _lock = self.lock_against_others()?;
        let mut next = read(self.folder())?;
        next.retain(|_, found| found != collection);
        self.install(next)
    }

    fn apply(&self, aliases: &mut Map, place: usize, change: &AliasChange) -> Result<(), AliasError> {
        let free = |alias: &Name| {
            let is_taken = self.path(alias).is_dir();
            if is_taken { Err(AliasError::Taken { place, alias: alias.clone() }) } else { Ok(()) }
        };
        match change {
            AliasChange::Set { alias, collection } => {
                self.known(collection).map_err(|source| AliasError::Collection { place, source })?;
                free(alias)?;
                aliases.insert(alias.clone(), collection.clone());
            }
            AliasChange::Remove { alias } => drop(aliases.remove(alias)),
            AliasChange::Rename { from, to } => {
                free(to)?;
                let Some(collection) = aliases.remove(from) else {
                    let names: Vec<&str> = aliases.keys().map(Name::as_str).collect();
                    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(AliasError::Unknown { place, alias: from.clone(), found });
                };
                aliases.insert(to.clone(), collection);
            }
        }
        Ok(())
    }

    fn known_aliases(&self) -> Result<Arc<Map>, CatalogueError> {
        let mut known = self.aliases.known();
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(read(self.folder())?);
        *known = Some(Arc::clone(&read));
        Ok(read)
    }

    /// Without the aliases of collections that are gone, which a crash in the midst of a deletion leaves.
    fn whole(&self, mut aliases: Map) -> Map {
        aliases.retain(|_, collection| self.path(collection).is_dir());
        aliases
    }

    fn install(&self, next: Map) -> Result<(), CatalogueError> {
        if read(self.folder())? != next {
            let path = self.folder().join(FILE);
            write(self.folder(), &next).map_err(|source| CatalogueError::Folder { path, source })?;
        }
        *self.aliases.known() = Some(Arc::new(next));
        Ok(())
    }

    /// Keeps other processes, which may share the data directory, from changing aliases at the same time.
    fn lock_against_others(&self) -> Result<Option<File>, CatalogueError> {
        let lock = || {
            let folder = match File::open(self.folder()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            match folder.lock() {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                locked => locked?,
            }
            Ok(Some(folder))
        };
        lock().map_err(|source| CatalogueError::Folder { path: self.folder().to_owned(), source })
    }
}

/// The aliases in the file; none if there is no file.
fn read(folder: &Path) -> Result<Map, CatalogueError> {
    let path = folder.join(FILE);
    let fault = |source| CatalogueError::Folder { path: path.clone(), source };
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        bytes => bytes.map_err(fault)?,
    };
    let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| fault(damaged(&error)))?;
    if stored.format != FORMAT {
        let found = stored.format;
        return Err(fault(damaged(&format_args!("it has format {found}, wanted {FORMAT}"))));
    }
    Ok(stored.aliases)
}

fn damaged(reason: &dyn std::fmt::Display) -> io::Error {
    let remedy = "remove the file to go on without aliases";
    io::Error::new(io::ErrorKind::InvalidData, format!("the aliases cannot be read: {reason}; {remedy}"))
}

/// Puts a new file in the place of the old one, so that it is there after a power cut.
fn write(folder: &Path, aliases: &Map) -> io::Result<()> {
    let beside: PathBuf = folder.join(NEW_FILE);
    let stored = Stored { format: FORMAT, aliases: aliases.clone() };
    let mut file = File::create(&beside)?;
    file.write_all(&serde_json::to_vec_pretty(&stored)?)?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(FILE))?;
    beside::sync(folder)
}

#[cfg(test)]
mod tests {
    use dehub_vector::Metric;

    use super::*;
    use crate::{CollectionConfig, GraphConfig};

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn set(alias: &str, collection: &str) -> AliasChange {
        AliasChange::Set { alias: name(alias), collection: name(collection) }
    }

    fn rename(from: &str, to: &str) -> AliasChange {
        AliasChange::Rename { from: name(from), to: name(to) }
    }

    fn with(collections: &[&str]) -> (tempfile::TempDir, Catalogue) {
        let folder = tempfile::tempdir().expect("a folder");
        let catalogue = Catalogue::new(folder.path());
        for collection in collections {
            make(&catalogue, collection).expect("made");
        }
        (folder, catalogue)
    }

    fn make(catalogue: &Catalogue, collection: &str) -> Result<(), CatalogueError> {
        let config = CollectionConfig::new(2, Metric::Dot, GraphConfig::default()).expect("a configuration");
        catalogue.create(&name(collection), config).map(drop)
    }

    fn shown(catalogue: &Catalogue) -> String {
        let aliases = catalogue.aliases().expect("read");
        aliases.iter().map(|(alias, to)| format!("{alias}>{to}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changes_are_made_in_their_order_and_last() {
        let (folder, catalogue) = with(&["x", "y"]);
        catalogue.change_aliases(&[set("a", "x"), set("b", "x"), set("a", "y")]).expect("changed");
        let remove = AliasChange::Remove { alias: name("nobody") };
        catalogue.change_aliases(&[rename("b", "c"), remove]).expect("changed");
        assert_eq!(shown(&catalogue), "a>y c>x");
        assert_eq!(catalogue.resolve(name("a")).expect("read"), name("y"));
        assert_eq!(catalogue.resolve(name("b")).expect("read"), name("b"));
        drop(catalogue);
        assert_eq!(shown(&Catalogue::new(folder.path())), "a>y c>x");
    }

    #[test]
    fn one_bad_change_keeps_all_from_being_made() {
        let (_folder, catalogue) = with(&["x", "y"]);
        catalogue.change_aliases(&[set("a", "x")]).expect("changed");
        for (bad, message) in [
            (set("b", "z"), "there is no collection `z`"),
            (set("b", "a"), "there is no collection `a`"),
            (set("y", "x"), "there is a collection `y`"),
            (rename("b", "c"), "there is no alias `b`"),
            (rename("a", "y"), "there is a collection `y`"),
        ] {
            let error = catalogue.change_aliases(&[set("n", "x"), bad.clone()]).expect_err("refused");
            assert!(error.to_string().starts_with("change 1: "), "{error}");
            assert!(error.to_string().contains(message), "{bad:?}: {error}");
            assert_eq!(error.blame(), Blame::Caller);
            assert_eq!(shown(&catalogue), "a>x", "{bad:?}");
        }
    }

    #[test]
    fn a_collection_takes_its_aliases_with_it_and_gets_no_name_of_one() {
        let (_folder, catalogue) = with(&["x", "y"]);
        catalogue.change_aliases(&[set("a", "x"), set("b", "y")]).expect("changed");
        let error = make(&catalogue, "a").expect_err("an alias");
        assert!(matches!(error, CatalogueError::IsAlias { .. }), "{error}");
        assert!(catalogue.receive(&name("a"), true).is_err(), "an alias");
        catalogue.delete(&name("x")).expect("deleted");
        assert_eq!(shown(&catalogue), "b>y");
        make(&catalogue, "a").expect("free again");
        make(&catalogue, "x").expect("made again");
        assert_eq!(shown(&catalogue), "b>y");
    }

    #[test]
    fn what_a_crash_leaves_of_a_deletion_or_a_change_does_no_harm() {
        let (folder, catalogue) = with(&["x", "y"]);
        catalogue.change_aliases(&[set("a", "x"), set("b", "y")]).expect("changed");
        drop(catalogue);
        // The folder is gone and the aliases are not; another change is half written.
        fs::remove_dir_all(folder.path().join("collections/x")).expect("removed");
        fs::write(folder.path().join(NEW_FILE), "{\"form").expect("written");
        let catalogue = Catalogue::new(folder.path());
        assert_eq!(shown(&catalogue), "b>y");
        make(&catalogue, "x").expect("made again");
        assert_eq!(shown(&catalogue), "b>y", "the new one is not the old one");
    }

    #[test]
    fn a_damaged_file_keeps_no_collection_from_being_found_and_is_not_overwritten() {
        for damage in
            ["", "{}", r#"{"format": 2, "aliases": {}}"#, r#"{"format": 1, "aliases": {"a/b": "x"}}"#]
        {
            let (folder, catalogue) = with(&["x"]);
            catalogue.change_aliases(&[set("a", "x")]).expect("changed");
            drop(catalogue);
            fs::write(folder.path().join(FILE), damage).expect("written");
            let catalogue = Catalogue::new(folder.path());
            assert_eq!(catalogue.resolve(name("x")).expect("a collection"), name("x"));
            assert!(catalogue.resolve(name("a")).is_err(), "{damage}");
            let error = catalogue.change_aliases(&[set("b", "x")]).expect_err("refused");
            assert!(error.to_string().contains(FILE), "{error}");
            assert_eq!(error.blame(), Blame::Environment);
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).expect("there"), damage);
        }
    }
}
