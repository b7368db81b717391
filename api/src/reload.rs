//! Files that are read again when they change, or when the process gets SIGHUP.

use std::fs;
use std::future::poll_fn;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use actix_web::rt;

/// How often it is looked whether a file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files, and what is done when they change.
pub(crate) struct Reload {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Mutex<Vec<Stamp>>,
    read: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
}

/// What tells one state of a file from another; nothing if it is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Reload {
    /// `read` reads the files, and says what it found or why it kept what it had.
    pub(crate) fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Reload {
        let seen = Mutex::new(stamps(&files));
        Reload { what, files, seen, read: Box::new(read) }
    }

    fn if_changed(&self) {
        let now = stamps(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            *seen = now;
            drop(seen);
            self.read();
        }
    }

    fn read(&self) {
        match (self.read)() {
            Ok(found) => tracing::info!(found, "{} read again", self.what),
            Err(error) => tracing::error!(error, "{} not read again: all stays as it was", self.what),
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len(), found.ino()))
    };
    files.iter().map(stamp).collect()
}

/// Looks after them for as long as the system runs.
pub(crate) fn watch(all: Vec<Reload>) {
    let all: Arc<[Reload]> = all.into();
    let changing = Arc::clone(&all);
    rt::spawn(async move {
        loop {
            rt::time::sleep(LOOK_EVERY).await;
            changing.iter().for_each(Reload::if_changed);
        }
    });
    rt::spawn(async move {
        use rt::signal::unix::{SignalKind, signal};
        match signal(SignalKind::hangup()) {
            Ok(mut hangups) => {
                while poll_fn(|context| hangups.poll_recv(context)).await.is_some() {
                    all.iter().for_each(Reload::read);
                }
            }
            Err(error) => tracing::warn!(%error, "SIGHUP cannot be received"),
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes_comes_or_goes() {
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("file");
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let read = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Err("as a broken file does".to_owned())
        };
        let reload = Reload::new("the file", vec![path.clone()], read);
        let mut count = 0;
        let mut expect = |more: usize, what: &str| {
            count += more;
            reload.if_changed();
            assert_eq!(reads.load(Ordering::Relaxed), count, "{what}");
        };
        expect(0, "it is not there");
        fs::write(&path, "a").expect("written");
        expect(1, "it came");
        expect(0, "it is the same");
        fs::write(&path, "longer").expect("written");
        expect(1, "it changed, broken as it was");
        fs::remove_file(&path).expect("removed");
        expect(1, "it went");
    }
}
