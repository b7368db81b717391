//! Objects in an object store: S3, Google Cloud Storage, Azure. The asynchronous part ends here.

use std::collections::VecDeque;
use std::fmt::Display;
use std::future::Future;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::path::{Path as ObjectPath, PathPart};
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart, memory,
    parse_url_opts,
};
use tokio::runtime::{Builder, Runtime};

use crate::BackupError;
use crate::claim::{Claim, DEAD, Purpose};
use crate::directory::random;
use crate::hash::{self, Content, Meter};
use crate::place::{Found, Moved, Place, Sink, Watch};

/// Bytes of a part of an upload, at least; a file up to this size is sent at once.
const PART_BYTES: u64 = 8 * 1024 * 1024;

/// Parts of an upload at most; S3 takes 10,000.
const PARTS_MAX: u64 = 9_000;

/// Parts under way at a time, up or down. So much memory is taken for them: (this + 1) × the size of a part.
const PARTS_AT_A_TIME: usize = 4;

/// How long a backup waits for a sweep to end.
const SWEEP_SECONDS: u64 = 60;

/// Environment variables that settings are read from start so. Others of a like name mean something else.
const SETTINGS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    runtime: Arc<Own>,
    location: Arc<str>,
}

/// A runtime that may be dropped anywhere, also by a thread of another one.
struct Own(Option<Runtime>);

impl Deref for Own {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Objects {
    /// The place that a URL names, with credentials from the environment.
    pub(crate) fn open(location: &str) -> Result<Objects, BackupError> {
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            SETTINGS.iter().any(|prefix| name.starts_with(prefix)).then_some((name, value))
        });
        let url = location.parse().map_err(|error| unusable(location, &error))?;
        let (store, prefix) = parse_url_opts(&url, settings).map_err(|error| unusable(location, &error))?;
        Objects::new(Arc::from(store), prefix, location)
    }

    /// A place in memory, for tests.
    pub(crate) fn in_memory() -> Result<Objects, BackupError> {
        Objects::new(Arc::new(memory::InMemory::new()), ObjectPath::from("in/memory"), "memory:")
    }

    fn new(store: Arc<dyn ObjectStore>, prefix: ObjectPath, location: &str) -> Result<Objects, BackupError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Arc::new(Own(Some(runtime.map_err(|error| unusable(location, &error))?)));
        Ok(Objects { store, prefix, runtime, location: location.into() })
    }

    fn path(&self, key: &str) -> ObjectPath {
        let parts = key.split('/').filter(|part| !part.is_empty()).map(PathPart::from);
        self.prefix.parts().chain(parts).collect()
    }

    /// Waits for the store; nothing there is `None`.
    fn wait<T>(
        &self,
        key: &str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, BackupError> {
        match self.runtime.block_on(work) {
            Ok(done) => Ok(Some(done)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.remote(key, &error)),
        }
    }

    /// The same where something must be there, such as the bucket.
    fn done<T>(&self, key: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, BackupError> {
        self.runtime.block_on(work).map_err(|error| self.remote(key, &error))
    }

    fn remote(&self, key: &str, error: &dyn Display) -> BackupError {
        BackupError::Remote {
            repository: self.location.to_string(),
            object: key.to_owned(),
            cause: error.to_string(),
        }
    }

    fn list_whole(&self, folder: &str) -> Result<(Vec<ObjectMeta>, Vec<ObjectPath>), BackupError> {
        let path = self.path(folder);
        let listed = self.wait(folder, self.store.list_with_delimiter(Some(&path)))?;
        Ok(listed.map_or_else(Default::default, |listed| (listed.objects, listed.common_prefixes)))
    }

    fn put_whole(&self, key: &str, source: &Path, content: Content) -> Result<(), BackupError> {
        let mut bytes = Vec::new();
        hash::read(source, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        check(source, content, |meter| meter.take(&bytes))?;
        self.done(key, self.store.put(&self.path(key), PutPayload::from(bytes))).map(drop)
    }

    fn put_in_parts(
        &self,
        key: &str,
        source: &Path,
        content: Content,
        watch: &mut Watch<'_>,
    ) -> Result<(), BackupError> {
        let part = usize::try_from(PART_BYTES.max(content.bytes.div_ceil(PARTS_MAX))).unwrap_or(usize::MAX);
        let upload = self.done(key, self.store.put_multipart(&self.path(key)))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, part);
        let mut meter = Meter::default();
        let sent = hash::read(source, |piece| {
            self.done(key, upload.wait_for_capacity(PARTS_AT_A_TIME))?;
            // Within the runtime, for it begins to send.
            self.runtime.block_on(async { upload.write(piece) });
            meter.take(piece);
            watch(piece.len() as u64)
        });
        let checked = sent.and_then(|()| {
            if meter.content() == content {
                Ok(())
            } else {
                Err(BackupError::Changed { path: source.to_owned() })
            }
        });
        match checked {
            Ok(()) => self.done(key, upload.finish()).map(drop),
            Err(error) => {
                // Parts that cannot be taken back are the store's to expire.
                _ = self.runtime.block_on(upload.abort());
                Err(error)
            }
        }
    }

    fn read_ranges(&self, key: &str, bytes: u64, sink: &mut Sink<'_>) -> Result<(), BackupError> {
        let path = self.path(key);
        let mut ranges = ranges(bytes);
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < PARTS_AT_A_TIME
                && let Some(range) = ranges.next()
            {
                let (store, path) = (Arc::clone(&self.store), path.clone());
                under_way.push_back(self.runtime.spawn(async move { store.get_range(&path, range).await }));
            }
            let Some(next) = under_way.pop_front() else { return Ok(()) };
            let joined = self.runtime.block_on(next).map_err(|error| self.remote(key, &error))?;
            sink(&joined.map_err(|error| self.remote(key, &error))?)?;
        }
    }

    /// The claims of a collection, with when each was last renewed by the clock of the store.
    fn claims(&self, collection: &str) -> Result<Vec<ObjectMeta>, BackupError> {
        Ok(self.list_whole(&format!("{collection}/claims"))?.0)
    }

    /// Marks a claim, unless another one is in its way.
    fn mark(&self, collection: &str, purpose: Purpose) -> Result<Option<Marker>, BackupError> {
        let name = format!("{}{:016x}", purpose.prefix(), random());
        let marker = Marker { objects: self.clone(), key: format!("{collection}/claims/{name}") };
        marker.write()?;
        // INVARIANT: each marks its own before it looks for others, so of two that are in each other's way at
        // least one sees the other. Object stores list what was put before.
        let claims = self.claims(collection)?;
        let own = claims.iter().find(|claim| claim.location.filename() == Some(&name));
        let Some(now) = own.map(|own| own.last_modified) else { return Ok(None) };
        for claim in &claims {
            let Some(other) = claim.location.filename().filter(|other| *other != name) else { continue };
            let age = (now - claim.last_modified).to_std().unwrap_or_default();
            let is_in_the_way = purpose == Purpose::Sweep || other.starts_with(Purpose::Sweep.prefix());
            if age < DEAD && is_in_the_way {
                return Ok(None);
            }
            if age >= DEAD && purpose == Purpose::Sweep {
                self.remove(&format!("{collection}/claims/{other}"))?;
            }
        }
        Ok(Some(marker))
    }
}

impl Place for Objects {
    fn present(&self, key: &str, _source: &Path, _may_link: bool) -> Result<Option<u64>, BackupError> {
        self.length(key)
    }

    fn is_near(&self) -> bool {
        false
    }

    fn store(
        &self,
        key: &str,
        source: &Path,
        content: Content,
        _may_link: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Moved, BackupError> {
        if content.bytes <= PART_BYTES {
            self.put_whole(key, source, content)?;
            watch(content.bytes)?;
        } else {
            self.put_in_parts(key, source, content, watch)?;
        }
        Ok(Moved::Copied)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, BackupError> {
        let path = self.path(key);
        let payload = PutPayload::from(bytes.to_vec());
        match self.runtime.block_on(self.store.put_opts(&path, payload.clone(), PutMode::Create.into())) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            // The store cannot tell by itself.
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                if self.length(key)?.is_some() {
                    return Ok(false);
                }
                self.done(key, self.store.put(&path, payload)).map(|_| true)
            }
            Err(error) => Err(self.remote(key, &error)),
        }
    }

    fn settle(&self, _folder: &str) -> Result<(), BackupError> {
        // An object store acknowledges what it keeps.
        Ok(())
    }

    fn read(&self, key: &str, bytes: u64, sink: &mut Sink<'_>) -> Result<bool, BackupError> {
        match self.length(key)? {
            Some(found) => self.read_ranges(key, found.min(bytes.saturating_add(1)), sink).map(|()| true),
            None => Ok(false),
        }
    }

    fn length(&self, key: &str) -> Result<Option<u64>, BackupError> {
        Ok(self.wait(key, self.store.head(&self.path(key)))?.map(|found| found.size))
    }

    fn list(&self, folder: &str) -> Result<Vec<Found>, BackupError> {
        let found = |object: &ObjectMeta| {
            Some(Found { name: object.location.filename()?.to_owned(), bytes: object.size })
        };
        Ok(self.list_whole(folder)?.0.iter().filter_map(found).collect())
    }

    fn folders(&self) -> Result<Vec<String>, BackupError> {
        let name = |folder: &ObjectPath| folder.filename().map(str::to_owned);
        Ok(self.list_whole("")?.1.iter().filter_map(name).collect())
    }

    fn remove(&self, key: &str) -> Result<(), BackupError> {
        self.wait(key, self.store.delete(&self.path(key))).map(drop)
    }

    fn claim(&self, collection: &str, purpose: Purpose) -> Result<Claim, BackupError> {
        let started = Instant::now();
        loop {
            if let Some(marker) = self.mark(collection, purpose)? {
                return Ok(Claim::Marked { marker, renewed: Instant::now() });
            }
            if purpose == Purpose::Sweep || started.elapsed() >= Duration::from_secs(SWEEP_SECONDS) {
                let holder = match purpose {
                    Purpose::Use => "a sweep",
                    Purpose::Sweep => "a backup or a sweep (or one was cut off less than a day ago)",
                };
                let (repository, collection) = (self.location.to_string(), collection.to_owned());
                return Err(BackupError::Busy { repository, collection, holder });
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// An object that says that somebody is at work; removed when dropped.
pub(crate) struct Marker {
    objects: Objects,
    key: String,
}

impl Marker {
    pub(crate) fn write(&self) -> Result<(), BackupError> {
        let Objects { store, .. } = &self.objects;
        self.objects.done(&self.key, store.put(&self.objects.path(&self.key), PutPayload::new())).map(drop)
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        if let Err(error) = self.objects.remove(&self.key) {
            tracing::warn!(%error, "a claim was not taken back; for a day no backup of the collection is pruned");
        }
    }
}

/// The parts of an object of so many bytes, in order.
fn ranges(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let part = move |index: u64| index * PART_BYTES..bytes.min((index + 1) * PART_BYTES);
    (0..bytes.div_ceil(PART_BYTES)).map(part)
}

fn check(source: &Path, content: Content, measure: impl FnOnce(&mut Meter)) -> Result<(), BackupError> {
    let mut meter = Meter::default();
    measure(&mut meter);
    if meter.content() == content { Ok(()) } else { Err(BackupError::Changed { path: source.to_owned() }) }
}

fn unusable(location: &str, error: &dyn Display) -> BackupError {
    BackupError::Location { location: location.to_owned(), reason: error.to_string() }
}
