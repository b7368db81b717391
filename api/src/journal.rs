//! What became of jobs, one small file for each in the data directory: a server that starts again can tell.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where in the data directory the files are.
const FOLDER: &str = "jobs";

/// A file that is longer is none of ours: a result that would make one is left out of it.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The files of jobs, by their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    folder: PathBuf,
}

/// What a journal has.
pub(crate) struct Kept<T> {
    /// The number of each job and what is told of it, in the order of numbers.
    pub(crate) jobs: Vec<(u64, T)>,
    /// The largest number, that of a file that cannot be read included.
    pub(crate) newest: u64,
}

impl Journal {
    /// The journal in a data directory, and what it has. What cannot be read is logged and left as it is.
    pub(crate) fn open<T: DeserializeOwned>(data: &Path) -> io::Result<(Journal, Kept<T>)> {
        let folder = data.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let mut kept = Kept { jobs: Vec::new(), newest: 0 };
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some(number) = number_of(&path) else { continue };
            kept.newest = kept.newest.max(number);
            match read(&path) {
                Ok(job) => kept.jobs.push((number, job)),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "what became of a job cannot be read");
                }
            }
        }
        kept.jobs.sort_by_key(|&(number, _)| number);
        Ok((Journal { folder }, kept))
    }

    /// Keeps what is told of a job, in place of what was: after a crash there is the one or the other. Says whether
    /// there was room for all of it.
    pub(crate) fn write<T: Serialize>(&self, number: u64, job: &T) -> io::Result<bool> {
        let bytes = serde_json::to_vec(job)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Ok(false);
        }
        let path = self.path(number);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(true)
    }

    /// Forgets a job.
    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        match fs::remove_file(self.path(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.json"))
    }
}

/// The number of the job a file is of.
fn number_of(path: &Path) -> Option<u64> {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    path.file_stem()?.to_str()?.parse().ok().filter(|_| is_json)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let length = fs::metadata(path)?.len();
    if length > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("{length} bytes, wanted at most {FILE_BYTES_MAX}")));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Job = BTreeMap<String, String>;

    fn job(state: &str) -> Job {
        [("state".to_owned(), state.to_owned())].into()
    }

    #[test]
    fn what_was_written_last_is_read_and_what_is_no_job_is_left() {
        let data = tempfile::tempdir().expect("a folder");
        let (journal, kept) = Journal::open::<Job>(data.path()).expect("a new journal");
        assert_eq!((kept.jobs.len(), kept.newest), (0, 0));
        for (number, state) in [(2, "running"), (11, "running"), (2, "done"), (9, "failed")] {
            assert!(journal.write(number, &job(state)).expect("writable"));
        }
        journal.remove(9).expect("it is there");
        journal.remove(9).expect("it is gone already");
        let folder = data.path().join(FOLDER);
        for (file, text) in [("12.json", "{\"state\""), ("3.json.new", "{}"), ("notes.txt", "")] {
            fs::write(folder.join(file), text).expect("writable");
        }
        let (_, kept) = Journal::open::<Job>(data.path()).expect("a journal");
        assert_eq!(kept.jobs, [(2, job("done")), (11, job("running"))]);
        assert_eq!(kept.newest, 12, "a number is not given twice, whatever is in its file");
        assert!(folder.join("12.json").exists());
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let data = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open::<Job>(data.path()).expect("a new journal");
        assert!(journal.write(1, &job("done")).expect("writable"));
        let long = "x".repeat(usize::try_from(FILE_BYTES_MAX).expect("small"));
        assert!(!journal.write(1, &job(&long)).expect("writable"));
        assert_eq!(Journal::open::<Job>(data.path()).expect("a journal").1.jobs, [(1, job("done"))]);
    }
}
