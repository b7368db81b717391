//! The lock of a data directory: one server alone, or any number of commands.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use dehub_store::lock_holders;

/// The file that is locked. What is in it means nothing.
const FILE: &str = "LOCK";

/// A command holds the lock alone for the moment in which it sweeps up, so others try again this often…
const TRIES: u32 = 20;

/// … and wait so long between.
const PAUSE: Duration = Duration::from_millis(10);

/// The longest command that is shown.
const COMMAND_CHARS_MAX: usize = 120;

/// What a process holds of the lock.
#[derive(Debug, Default)]
pub(crate) struct DataLock {
    held: Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    /// None where the system lets nothing be locked.
    file: Option<File>,
    is_exclusive: bool,
}

/// A process that has a data directory in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataHolder {
    /// Its number.
    pub process: u32,
    /// Its command with arguments, if the system tells it.
    pub command: Option<String>,
}

impl fmt::Display for DataHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "process {} (`{command}`)", self.process),
            None => write!(f, "process {}", self.process),
        }
    }
}

/// Why the lock was not given.
pub(crate) enum Refused {
    /// Others hold it; none of them where the system does not tell.
    Held(Vec<DataHolder>),
    /// The file could not be opened or locked.
    File(PathBuf, io::Error),
}

impl DataLock {
    /// Takes the lock for this process alone. `sweep` is called with it.
    pub(crate) fn exclude(&self, folder: &Path, sweep: impl FnOnce()) -> Result<(), Refused> {
        let mut held = self.lock();
        if held.as_ref().is_some_and(|held| held.is_exclusive) {
            return Ok(());
        }
        // What it shares would be in its own way.
        *held = None;
        let path = folder.join(FILE);
        let Some(file) = open(&path).map_err(|error| Refused::File(path.clone(), error))? else {
            *held = Some(Held { file: None, is_exclusive: true });
            return Ok(());
        };
        take(&path, || file.try_lock())?;
        sweep();
        *held = Some(Held { file: Some(file), is_exclusive: true });
        Ok(())
    }

    /// Whether nobody holds the lock. Makes and keeps nothing.
    pub(crate) fn check_free(&self, folder: &Path) -> Result<(), Refused> {
        if self.is_held() {
            return Ok(());
        }
        let path = folder.join(FILE);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Refused::File(path, error)),
            Ok(file) => take(&path, || file.try_lock()),
        }
    }

    /// Takes the lock together with others who share it, unless it is held already. If there is something to
    /// sweep up and nobody else is there, `sweep` is called while that is so.
    pub(crate) fn share(
        &self,
        folder: &Path,
        is_littered: bool,
        sweep: impl FnOnce(),
    ) -> Result<(), Refused> {
        let mut held = self.lock();
        if held.is_some() {
            return Ok(());
        }
        let path = folder.join(FILE);
        let Some(file) = open(&path).map_err(|error| Refused::File(path.clone(), error))? else {
            *held = Some(Held { file: None, is_exclusive: false });
            return Ok(());
        };
        if is_littered && file.try_lock().is_ok() {
            sweep();
            file.unlock().map_err(|error| Refused::File(path.clone(), error))?;
        }
        take(&path, || file.try_lock_shared())?;
        *held = Some(Held { file: Some(file), is_exclusive: false });
        Ok(())
    }

    /// Whether the file that is locked is still that of `folder`: neither it nor the folder was removed meanwhile.
    pub(crate) fn is_in_place(&self, folder: &Path) -> bool {
        let held = self.lock();
        let Some(file) = held.as_ref().and_then(|held| held.file.as_ref()) else { return true };
        let numbers = |found: fs::Metadata| (found.dev(), found.ino());
        file.metadata().ok().map(numbers) == fs::metadata(folder.join(FILE)).ok().map(numbers)
    }

    /// Whether this process has it.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A child that inherited the file must not keep the lock.
        if let Some(file) = &self.file {
            _ = file.unlock();
        }
    }
}

/// The file, made if it can be; none where it is not there and cannot be.
fn open(path: &Path) -> io::Result<Option<File>> {
    let cannot_write = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    };
    match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
        Err(error) if cannot_write(&error) => {}
        opened => return opened.map(Some),
    }
    match File::open(path) {
        Err(error) if cannot_write(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Tries to lock, a few times. Where nothing can be locked, each store's own lock has to do.
fn take(path: &Path, attempt: impl Fn() -> Result<(), TryLockError>) -> Result<(), Refused> {
    for _ in 0..TRIES {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(Refused::File(path.to_owned(), error)),
        }
    }
    Err(Refused::Held(holders(path)))
}

fn holders(path: &Path) -> Vec<DataHolder> {
    let holder = |process| DataHolder { process, command: command(process) };
    lock_holders(path).into_iter().map(holder).collect()
}

/// The command of a process.
fn command(process: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let words = text.split('\0').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let visible = words.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let cut: String = visible.take(COMMAND_CHARS_MAX).collect();
    (!cut.is_empty()).then_some(cut)
}
