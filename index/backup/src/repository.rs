//! A repository: backups stored, listed, fetched, checked.

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use object_store::ObjectStoreScheme;

use crate::directory::{Directory, sync, try_folder};
use crate::error::file;
use crate::hash::{self, Content, Meter};
use crate::id::BackupId;
use crate::manifest::{About, FORMAT, FileEntry, MANIFEST_BYTES_MAX, Manifest, Refusal, is_inside};
use crate::objects::Objects;
use crate::place::{Moved, Place};
use crate::{BackupError, claim::Purpose};

/// Backups that an error about a missing one lists.
const LISTED_MAX: usize = 8;

/// How the name of a manifest ends.
const MANIFEST: &str = ".json";

/// Where backups are kept. Any number of processes may use one at a time.
pub struct Repository {
    pub(crate) place: Box<dyn Place>,
    location: String,
    directory: Option<PathBuf>,
}

/// How a folder is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// Files may be shared with the folder by hard links where the repository is on the same file system. It
    /// takes no time and no space, but damage to the one is damage to the other.
    pub link: bool,
}

/// A step of a backup or a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bytes were read, sent or received.
    Moved,
    /// An object is stored that was not there before.
    ObjectStored,
    /// The manifest is written: the backup is there.
    ManifestWritten,
}

/// How far a backup or a restore is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What was done last.
    pub step: Step,
    /// What is done, in bytes. To store a byte counts twice: it is measured, then moved.
    pub done: u64,
    /// What there is to do.
    pub total: u64,
}

/// A backup that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupInfo {
    /// Its name.
    pub id: BackupId,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What it is of.
    pub about: About,
    /// How many files it has.
    pub files: usize,
    /// The bytes of all its files.
    pub bytes: u64,
}

/// A backup that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The backup.
    pub info: BackupInfo,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes that are shared with the folder by hard links.
    pub bytes_linked: u64,
    /// Bytes that an earlier backup had.
    pub bytes_shared: u64,
}

/// The backups of a collection.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those whose manifests are right, the oldest first.
    pub backups: Vec<BackupInfo>,
    /// Why the others cannot be read.
    pub damaged: Vec<BackupError>,
}

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    /// The backup.
    pub info: BackupInfo,
    /// Every file that is not what was stored; none of a backup that is right.
    pub damage: Vec<BackupError>,
}

/// Told how far the work is; says whether to go on.
pub(crate) type Watcher<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

impl Repository {
    /// The repository at `location`: a directory, which need not exist yet, or a URL (`file://`,
    /// `s3://BUCKET/PREFIX`, `gs://`, `az://`). Credentials and settings of object stores are taken from the
    /// environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`). Nothing is connected to before there is something to do.
    pub fn open(location: &str) -> Result<Repository, BackupError> {
        let refused = |reason: String| BackupError::Location { location: location.to_owned(), reason };
        if location.is_empty() {
            return Err(refused("wanted a directory or a URL".to_owned()));
        }
        if location.starts_with("file:") && !location.starts_with("file:///") {
            return Err(refused("wanted file:///PATH".to_owned()));
        }
        if !location.contains("://") {
            return Ok(Repository::in_directory(Path::new(location)));
        }
        let url = location.parse().map_err(|error| refused(format!("{error}")))?;
        match ObjectStoreScheme::parse(&url) {
            Ok((ObjectStoreScheme::Local, _)) => {
                let path = url.to_file_path().map_err(|()| refused("it is no path".to_owned()))?;
                Ok(Repository::in_directory(&path))
            }
            Ok((
                ObjectStoreScheme::AmazonS3
                | ObjectStoreScheme::GoogleCloudStorage
                | ObjectStoreScheme::MicrosoftAzure,
                _,
            )) => {
                let place = Box::new(Objects::open(location)?);
                Ok(Repository { place, location: location.to_owned(), directory: None })
            }
            Ok(_) | Err(_) => Err(refused("wanted a directory, file://, s3://, gs:// or az://".to_owned())),
        }
    }

    /// The repository in a directory, which need not exist yet.
    pub fn in_directory(path: &Path) -> Repository {
        let location = path.display().to_string();
        let place = Box::new(Directory::new(path.to_owned()));
        Repository { place, location, directory: Some(path.to_owned()) }
    }

    /// A repository in memory, which is gone when dropped: an object store for tests.
    pub fn in_memory() -> Result<Repository, BackupError> {
        let place = Box::new(Objects::in_memory()?);
        Ok(Repository { place, location: "memory:".to_owned(), directory: None })
    }

    /// Refuses a repository inside of the data directory `folder`, with whose collections it would go.
    pub fn check_outside(&self, folder: &Path) -> Result<(), BackupError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let (own, other) = (resolved(directory), resolved(folder));
        if own.starts_with(&other) {
            let reason =
                format!("it is inside of the data directory {}, and would go with it", folder.display());
            return Err(BackupError::Location { location: self.location.clone(), reason });
        }
        Ok(())
    }

    /// Whether files could be put there, if it is a directory; an object store is not asked. Leaves nothing.
    pub fn check_writable(&self) -> Result<(), BackupError> {
        let tried = self.directory.as_deref().map_or(Ok(()), try_folder);
        tried.map_err(|error| BackupError::Location {
            location: self.location.clone(),
            reason: format!("no file can be made there: {error}"),
        })
    }

    /// Where it is.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Stores all files of `folder`, which must not change meanwhile. What the repository has already is not
    /// stored again. The backup is there when this returns, whole, or on an error not at all.
    pub fn store(
        &self,
        collection: &str,
        folder: &Path,
        about: About,
        options: StoreOptions,
        watcher: &mut Watcher<'_>,
    ) -> Result<Stored, BackupError> {
        check_name(collection)?;
        let sources = files(folder)?;
        let total = sources.iter().map(|(_, _, bytes)| 2 * bytes).sum();
        let mut work = Work { watcher, done: 0, total };
        let mut claim = self.place.claim(collection, Purpose::Use)?;
        let mut counted = Counted::default();
        let mut entries = Vec::with_capacity(sources.len());
        for (path, source, bytes) in sources {
            let until = work.done + 2 * bytes;
            entries.push(self.store_file(collection, path, &source, options, &mut work, &mut counted)?);
            work.catch_up(until)?;
            claim.renew()?;
        }
        self.place.settle(&format!("{collection}/objects"))?;
        work.tell(Step::Moved)?;
        let mut manifest = Manifest {
            format: FORMAT,
            collection: collection.to_owned(),
            created: now(),
            about,
            files: entries,
        };
        let id = self.write_manifest(&mut manifest)?;
        // The backup is there: there is nothing left to stop.
        _ = work.tell(Step::ManifestWritten);
        drop(claim);
        let Counted { copied, linked, shared } = counted;
        let info = info(id, &manifest);
        Ok(Stored { info, bytes_copied: copied, bytes_linked: linked, bytes_shared: shared })
    }

    /// Whether an object holds what it is named by. Far objects are taken at their word: reading them all would cost as
    /// much as storing them, and their stores look after what they keep.
    fn is_whole(&self, key: &str, content: Content) -> Result<bool, BackupError> {
        if !self.place.is_near() {
            return Ok(true);
        }
        let mut meter = Meter::default();
        let is_read = self.place.read(key, content.bytes, &mut |piece| {
            meter.take(piece);
            Ok(())
        })?;
        let is_whole = is_read && meter.content() == content;
        if !is_whole {
            tracing::warn!(repository = %self.location, object = key, "a damaged object is stored anew");
        }
        Ok(is_whole)
    }

    fn store_file(
        &self,
        collection: &str,
        path: String,
        source: &Path,
        options: StoreOptions,
        work: &mut Work<'_, '_>,
        counted: &mut Counted,
    ) -> Result<FileEntry, BackupError> {
        let mut meter = Meter::default();
        hash::read(source, |piece| {
            meter.take(piece);
            work.advance(piece.len() as u64)
        })?;
        let content = meter.content();
        let entry = FileEntry::new(path, content);
        let key = object_key(collection, &entry);
        let is_there = self.place.present(&key, source, options.link)? == Some(content.bytes);
        if is_there && self.is_whole(&key, content)? {
            counted.shared += content.bytes;
            return Ok(entry);
        }
        let moved =
            self.place.store(&key, source, content, options.link, &mut |bytes| work.advance(bytes))?;
        match moved {
            Moved::Copied => counted.copied += content.bytes,
            Moved::Linked => counted.linked += content.bytes,
        }
        work.tell(Step::ObjectStored)?;
        Ok(entry)
    }

    /// Writes a manifest under an id that is free, and newer than all others.
    fn write_manifest(&self, manifest: &mut Manifest) -> Result<BackupId, BackupError> {
        let collection = manifest.collection.clone();
        let sequence = manifest.about.sequence;
        if let Some(newest) = self.ids(&collection)?.pop()
            && newest > BackupId::new(manifest.created, sequence, u32::MAX)
            && let Ok(other) = self.manifest(&collection, &newest)
        {
            // Made by a clock that is ahead of ours, or in the same second at a higher sequence.
            manifest.created = manifest.created.max(other.created + 1);
        }
        let bytes = manifest.encode();
        let mut copy = 1;
        loop {
            let id = BackupId::new(manifest.created, sequence, copy);
            if self.place.create(&manifest_key(&collection, &id), &bytes)? {
                return Ok(id);
            }
            copy += 1;
        }
    }

    /// The backups of a collection; none if there are none.
    pub fn list(&self, collection: &str) -> Result<Listing, BackupError> {
        check_name(collection)?;
        let mut listing = Listing::default();
        for id in self.ids(collection)? {
            match self.manifest(collection, &id) {
                Ok(manifest) => listing.backups.push(info(id, &manifest)),
                // Removed meanwhile.
                Err(BackupError::Unknown { .. }) => {}
                Err(error @ (BackupError::Manifest { .. } | BackupError::Newer { .. })) => {
                    listing.damaged.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(listing)
    }

    /// Tells of a backup, the newest if none is named, by its manifest alone.
    pub fn describe(&self, collection: &str, backup: Option<&BackupId>) -> Result<BackupInfo, BackupError> {
        let (id, manifest) = self.find(collection, backup)?;
        Ok(info(id, &manifest))
    }

    /// Copies a backup, the newest if none is named, to the folder `into`, which is made or empty, and syncs
    /// it. The length and the hash of each file are compared with the manifest's as it is copied; on an error
    /// `into` holds a part of it.
    pub fn fetch(
        &self,
        collection: &str,
        backup: Option<&BackupId>,
        into: &Path,
        watcher: &mut Watcher<'_>,
    ) -> Result<BackupInfo, BackupError> {
        let (id, manifest) = self.find(collection, backup)?;
        // Whoever may only read can make no claim, and needs none but while somebody sweeps.
        let mut claim = self.place.claim(collection, Purpose::Use).ok();
        let mut work = Work { watcher, done: 0, total: manifest.bytes() };
        fs::create_dir_all(into).map_err(file(into))?;
        if fs::read_dir(into).map_err(file(into))?.next().is_some() {
            return Err(BackupError::Unfit { path: into.to_owned(), reason: "it is not empty" });
        }
        let mut folders = vec![into.to_owned()];
        for entry in &manifest.files {
            let path = into.join(&entry.path);
            let folder = path.parent().unwrap_or(into);
            if !folders.iter().any(|made| made == folder) {
                fs::create_dir_all(folder).map_err(file(folder))?;
                folders.push(folder.to_owned());
            }
            let mut target = File::create_new(&path).map_err(file(&path))?;
            self.read_file(collection, &id, entry, &mut |piece| {
                target.write_all(piece).map_err(file(&path))?;
                work.advance(piece.len() as u64)
            })?;
            target.sync_all().map_err(file(&path))?;
            if let Some(claim) = &mut claim {
                claim.renew()?;
            }
            work.tell(Step::Moved)?;
        }
        folders.iter().try_for_each(|folder| sync(folder))?;
        Ok(info(id, &manifest))
    }

    /// Reads a backup, the newest if none is named, and compares everything with its manifest.
    pub fn check(
        &self,
        collection: &str,
        backup: Option<&BackupId>,
        watcher: &mut Watcher<'_>,
    ) -> Result<Checked, BackupError> {
        let (id, manifest) = self.find(collection, backup)?;
        let _claim = self.place.claim(collection, Purpose::Use).ok();
        let mut work = Work { watcher, done: 0, total: manifest.bytes() };
        let mut damage = Vec::new();
        let mut until = 0;
        for entry in &manifest.files {
            until += entry.bytes;
            match self.read_file(collection, &id, entry, &mut |piece| work.advance(piece.len() as u64)) {
                Ok(()) => {}
                Err(error) if error.is_damage() => damage.push(error),
                Err(error) => return Err(error),
            }
            work.catch_up(until)?;
        }
        Ok(Checked { info: info(id, &manifest), damage })
    }

    /// Reads what the object of a file holds, and compares it with the manifest.
    fn read_file(
        &self,
        collection: &str,
        id: &BackupId,
        entry: &FileEntry,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let key = object_key(collection, entry);
        let damaged = |reason: String| BackupError::Object {
            repository: self.location.clone(),
            backup: id.to_string(),
            file: entry.path.clone(),
            object: key.clone(),
            reason,
        };
        let length = self.place.length(&key)?;
        let wanted = entry.bytes;
        match length {
            None => return Err(damaged("its object is missing".to_owned())),
            Some(found) if found != wanted => {
                return Err(damaged(format!("it has {found} bytes, wanted {wanted}")));
            }
            Some(_) => {}
        }
        let mut meter = Meter::default();
        let there = self.place.read(&key, wanted, &mut |piece| {
            meter.take(piece);
            sink(piece)
        })?;
        let found = meter.content();
        if !there {
            return Err(damaged("its object is missing".to_owned()));
        }
        if found.bytes != wanted {
            return Err(damaged(format!("it has {} bytes, wanted {wanted}", found.bytes)));
        }
        let hash = found.hash.to_hex();
        if hash.as_str() != entry.blake3 {
            return Err(damaged(format!("its hash is {hash}, wanted {}", entry.blake3)));
        }
        Ok(())
    }

    /// The manifest of a backup, or of the newest.
    fn find(&self, collection: &str, backup: Option<&BackupId>) -> Result<(BackupId, Manifest), BackupError> {
        check_name(collection)?;
        let id = match backup {
            Some(id) => id.clone(),
            None => self.ids(collection)?.pop().ok_or_else(|| self.unknown(collection, "at all"))?,
        };
        let manifest = self.manifest(collection, &id)?;
        Ok((id, manifest))
    }

    pub(crate) fn manifest(&self, collection: &str, id: &BackupId) -> Result<Manifest, BackupError> {
        let key = manifest_key(collection, id);
        let damaged = |reason: String| BackupError::Manifest {
            repository: self.location.clone(),
            collection: collection.to_owned(),
            backup: id.to_string(),
            reason,
        };
        let unknown = || self.unknown(collection, id.as_str());
        let length = self.place.length(&key)?.ok_or_else(unknown)?;
        if length > MANIFEST_BYTES_MAX {
            return Err(damaged(format!("it has {length} bytes, wanted at most {MANIFEST_BYTES_MAX}")));
        }
        let mut bytes = Vec::new();
        let there = self.place.read(&key, length, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        if !there {
            return Err(unknown());
        }
        let manifest = Manifest::decode(&bytes, collection).map_err(|refusal| match refusal {
            Refusal::Damaged(reason) => damaged(reason),
            Refusal::Newer(found) => BackupError::Newer {
                repository: self.location.clone(),
                collection: collection.to_owned(),
                backup: id.to_string(),
                found,
                supported: FORMAT,
            },
        })?;
        if BackupId::new(manifest.created, manifest.about.sequence, id.copy()) != *id {
            return Err(damaged("it is the manifest of another backup".to_owned()));
        }
        Ok(manifest)
    }

    /// The ids of all backups, the oldest first.
    pub(crate) fn ids(&self, collection: &str) -> Result<Vec<BackupId>, BackupError> {
        let found = self.place.list(&format!("{collection}/backups"))?;
        let id = |name: &str| name.strip_suffix(MANIFEST)?.parse::<BackupId>().ok();
        let mut ids: Vec<BackupId> = found.iter().filter_map(|found| id(&found.name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    pub(crate) fn unknown(&self, collection: &str, wanted: &str) -> BackupError {
        let ids = self.ids(collection).unwrap_or_default();
        let newest: Vec<&str> = ids.iter().rev().take(LISTED_MAX).map(BackupId::as_str).collect();
        let mut folders = self.place.folders().unwrap_or_default();
        folders.retain(|folder| check_name(folder).is_ok());
        folders.sort_unstable();
        let found = if ids.len() > LISTED_MAX {
            format!("{} and {} older", newest.join(", "), ids.len() - LISTED_MAX)
        } else if !newest.is_empty() {
            newest.join(", ")
        } else if folders.is_empty() {
            "nothing".to_owned()
        } else {
            format!("folders of {}", folders.join(", "))
        };
        BackupError::Unknown {
            repository: self.location.clone(),
            collection: collection.to_owned(),
            wanted: wanted.to_owned(),
            found,
        }
    }
}

/// Bytes by how they came into the repository.
#[derive(Default)]
struct Counted {
    copied: u64,
    linked: u64,
    shared: u64,
}

/// The work under way, and who watches it.
struct Work<'a, 'b> {
    watcher: &'a mut Watcher<'b>,
    done: u64,
    total: u64,
}

impl Work<'_, '_> {
    fn advance(&mut self, bytes: u64) -> Result<(), BackupError> {
        self.done += bytes;
        self.tell(Step::Moved)
    }

    /// Counts as done what there was no need to do.
    fn catch_up(&mut self, until: u64) -> Result<(), BackupError> {
        self.done = self.done.max(until);
        self.tell(Step::Moved)
    }

    fn tell(&mut self, step: Step) -> Result<(), BackupError> {
        match (self.watcher)(Progress { step, done: self.done, total: self.total.max(self.done) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BackupError::Stopped),
        }
    }
}

pub(crate) fn manifest_key(collection: &str, id: &BackupId) -> String {
    format!("{collection}/backups/{id}{MANIFEST}")
}

fn object_key(collection: &str, entry: &FileEntry) -> String {
    format!("{collection}/objects/{}", entry.blake3)
}

/// Refuses a collection's name that would be more, or less, than one folder.
pub(crate) fn check_name(collection: &str) -> Result<(), BackupError> {
    let is_one = is_inside(collection) && !collection.contains('/');
    if is_one && collection.len() <= 200 && !collection.starts_with('.') {
        return Ok(());
    }
    Err(BackupError::Collection { found: collection.chars().take(200).collect() })
}

fn info(id: BackupId, manifest: &Manifest) -> BackupInfo {
    BackupInfo {
        id,
        created: manifest.created,
        about: manifest.about.clone(),
        files: manifest.files.len(),
        bytes: manifest.bytes(),
    }
}

/// The files below a folder, in the order of their paths: the path in it, the whole path, the length.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf, u64)>, BackupError> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(file(&folder))? {
            let entry = entry.map_err(file(&folder))?;
            let path = entry.path();
            let unfit = |reason| BackupError::Unfit { path: path.clone(), reason };
            let name = entry.file_name().into_string().map_err(|_| unfit("its name is not UTF-8"))?;
            let inside = format!("{prefix}{name}");
            let about = fs::symlink_metadata(&path).map_err(file(&path))?;
            if about.is_dir() {
                folders.push((path, format!("{inside}/")));
            } else if about.is_file() && is_inside(&inside) {
                found.push((inside, path, about.len()));
            } else {
                return Err(unfit("it is no ordinary file with an ordinary name"));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A path without links as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, resolved)) => resolved.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path,
    }
}
