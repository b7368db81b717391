//! Who holds a lock, from what the system tells of all locks.
//!
//! The file itself is looked at and never opened: closing it would let go of a lock that this process holds on it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Linux lists all locks here, one a line: `1: POSIX  ADVISORY  WRITE 4711 fd:01:393227 0 EOF`.
const LOCKS: &str = "/proc/locks";

/// The processes that have the file `path` locked, by number; none where the system does not tell.
pub fn lock_holders(path: &Path) -> Vec<u32> {
    let (Ok(file), Ok(locks)) = (fs::metadata(path), fs::read_to_string(LOCKS)) else { return Vec::new() };
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let of_number: Vec<(u32, &str)> = locks.lines().filter_map(|line| lock(line, file.ino())).collect();
    let device = format!("{major:02x}:{minor:02x}");
    let exact: BTreeSet<u32> =
        of_number.iter().filter(|(_, found)| *found == device).map(|&(process, _)| process).collect();
    if !exact.is_empty() {
        return exact.into_iter().collect();
    }
    // Some file systems tell one device of a file and have another one in this list. Then the number of the file alone
    // may be that of a file elsewhere, so the process has to have this one open.
    let likely: BTreeSet<u32> = of_number.into_iter().map(|(process, _)| process).collect();
    likely.into_iter().filter(|&process| has_open(process, path)).collect()
}

/// The process and the device of a line that tells of a lock on the file with this number.
fn lock(line: &str, file: u64) -> Option<(u32, &str)> {
    let mut words = line.split_whitespace().skip(3);
    let (kind, process, place) = (words.next()?, words.next()?, words.next()?);
    let (device, number) = place.rsplit_once(':')?;
    // A process of another namespace has the number 0 or -1.
    let process = process.parse().ok().filter(|&process| process > 0)?;
    // Of one that only waits, a word more stands before.
    (["READ", "WRITE"].contains(&kind) && number.parse() == Ok(file)).then_some((process, device))
}

fn has_open(process: u32, path: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_the_file_names_its_process_and_device() {
        for (line, found) in [
            ("1: POSIX  ADVISORY  WRITE 4711 fd:01:393227 0 EOF", Some((4711, "fd:01"))),
            ("12: FLOCK  ADVISORY  READ 4711 103:1000:393227 0 EOF", Some((4711, "103:1000"))),
            ("1: POSIX  ADVISORY  WRITE 4711 fd:01:393228 0 EOF", None),
            ("1: OFDLCK ADVISORY  WRITE -1 fd:01:393227 0 EOF", None),
            ("1: POSIX  ADVISORY  WRITE 0 fd:01:393227 0 EOF", None),
            ("1: -> POSIX  ADVISORY  WRITE 4711 fd:01:393227 0 EOF", None),
            ("1: POSIX", None),
            ("", None),
        ] {
            assert_eq!(lock(line, 393_227), found, "{line}");
        }
    }
}
