//! The audit log: a line of JSON for every request that may change something, and for every one that was refused for
//! lack of rights.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

/// Lines that wait to be written. They are short; this many come only while the disk stands still.
const LINES_WAITING_MAX: usize = 10_000;

/// Where the log is, and what comes first when it cannot keep up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// The file; lines are added at its end.
    pub path: PathBuf,
    /// Whether a request is answered only when its line is written. If not, a line that finds too many others
    /// waiting is lost, and counted.
    pub blocks: bool,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Arc<Log>,
    /// To the thread that writes; none if whoever asks writes.
    lines: Option<SyncSender<String>>,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: Mutex<File>,
    failures: AtomicU64,
}

/// One request.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// When it came, by RFC 3339.
    pub(crate) time: String,
    pub(crate) request_id: &'a str,
    /// The name of its key; `null` without one.
    pub(crate) key: Option<&'a str>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) method: &'a str,
    /// The pattern of its path; `null` if there is nothing.
    pub(crate) route: Option<&'a str>,
    pub(crate) collection: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) milliseconds: f64,
}

impl Audit {
    /// Opens the file, which is made if there is none, for its owner alone.
    pub(crate) fn open(config: &AuditConfig) -> io::Result<Audit> {
        let file = Mutex::new(open(&config.path)?);
        let log = Arc::new(Log { path: config.path.clone(), file, failures: AtomicU64::new(0) });
        if config.blocks {
            return Ok(Audit { log, lines: None });
        }
        let (lines, waiting) = sync_channel(LINES_WAITING_MAX);
        let writer = Arc::clone(&log);
        thread::Builder::new().name("audit".to_owned()).spawn(move || writer.write_all(&waiting))?;
        Ok(Audit { log, lines: Some(lines) })
    }

    /// Opens the file anew: the old one may have been renamed.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let file = open(&self.log.path)?;
        *self.log.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    pub(crate) fn write(&self, line: &Line<'_>) {
        let text = serde_json::to_string(line).expect("text and numbers always have a JSON form") + "\n";
        match &self.lines {
            None => self.log.write(&text),
            Some(lines) => match lines.try_send(text) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => self.log.failed(&"too many lines wait to be written"),
                Err(TrySendError::Disconnected(_)) => self.log.failed(&"its thread has ended"),
            },
        }
    }

    /// Lines that were lost.
    pub(crate) fn failures(&self) -> u64 {
        self.log.failures.load(Ordering::Relaxed)
    }
}

impl Log {
    /// Writes what comes, until nobody is left who could send more.
    fn write_all(&self, lines: &Receiver<String>) {
        for line in lines {
            self.write(&line);
        }
    }

    fn write(&self, line: &str) {
        // One call, so that lines of other processes do not get between.
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        if let Err(error) = written {
            self.failed(&error);
        }
    }

    fn failed(&self, reason: &dyn std::fmt::Display) {
        let count = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        // A full disk would otherwise get a line of the log for each that is missing in this one.
        if count.is_power_of_two() {
            tracing::error!(path = %self.path.display(), %reason, lost = count, "a line of the audit log is lost");
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// A time as RFC 3339 has it, in UTC.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;
    use tempfile::tempdir;

    use super::*;

    fn line(request_id: &str) -> Line<'_> {
        Line {
            time: rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_164_800_123)),
            request_id,
            key: Some("a \"key\""),
            client: None,
            method: "PUT",
            route: Some("/collections/{collection}"),
            collection: Some("x"),
            status: 200,
            milliseconds: milliseconds(Duration::from_micros(1500)),
        }
    }

    #[test]
    fn a_line_is_json_and_follows_the_file_that_is_there_when_it_is_opened_anew() {
        let folder = tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("audit"), folder.path().join("audit.1"));
        fs::write(&path, "before\n").expect("written");
        let audit = Audit::open(&AuditConfig { path: path.clone(), blocks: true }).expect("opened");
        audit.write(&line("1"));
        fs::rename(&path, &moved).expect("renamed");
        audit.write(&line("2"));
        audit.reopen().expect("opened anew");
        audit.write(&line("3"));
        let old = fs::read_to_string(&moved).expect("the old one");
        let lines: Vec<&str> = old.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "before"));
        let first: Value = serde_json::from_str(lines[1]).expect("JSON");
        assert_eq!(first["time"], "2024-02-29T00:00:00.123Z");
        assert_eq!(first["key"], "a \"key\"");
        assert_eq!(first["milliseconds"], 1.5);
        assert!(lines[2].contains("\"request_id\":\"2\""));
        let new = fs::read_to_string(&path).expect("the new one");
        assert!(new.contains("\"request_id\":\"3\"") && new.lines().count() == 1);
        assert_eq!(audit.failures(), 0);
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_no_more() {
        let audit = Audit::open(&AuditConfig { path: "/dev/full".into(), blocks: true }).expect("opened");
        audit.write(&line("1"));
        audit.write(&line("2"));
        assert_eq!(audit.failures(), 2);
    }

    #[test]
    fn lines_that_nobody_waits_for_are_written_in_order() {
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let audit = Audit::open(&AuditConfig { path: path.clone(), blocks: false }).expect("opened");
        let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        numbers.iter().for_each(|number| audit.write(&line(number)));
        let mut found = Vec::new();
        while found.len() + usize::try_from(audit.failures()).expect("few") < numbers.len() {
            thread::sleep(Duration::from_millis(1));
            let text = fs::read_to_string(&path).expect("there");
            let id =
                |line: &str| serde_json::from_str::<Value>(line).ok().map(|line| line["request_id"].clone());
            found = text.lines().filter_map(id).collect();
        }
        assert_eq!(audit.failures(), 0);
        assert_eq!(found, numbers);
    }
}
