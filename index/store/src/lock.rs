//! Who holds a lock, from what the system tells of all locks.
//!
//! The file itself is looked at and never opened: closing it would let go of a lock that this process holds on it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Linux lists all locks here, one a line: `1: POSIX  ADVISORY  WRITE 4711 fd:01:393227 0 EOF`.
const LOCKS: &str = "/proc/locks";

/// The process that has the file `path` locked for writing; `None` if that is not known.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let locks = fs::read_to_string(LOCKS).ok()?;
    let of_number: Vec<(u32, &str)> = locks.lines().filter_map(|line| lock(line, file.ino())).collect();
    let device = format!("{major:02x}:{minor:02x}");
    let exact = of_number.iter().find(|(_, found)| *found == device);
    // Some file systems tell one device of a file and have another one in this list. Then the number of the file alone
    // may be that of a file elsewhere, so the process has to have this one open.
    let likely = || of_number.iter().find(|(process, _)| has_open(*process, path));
    exact.or_else(likely).map(|(process, _)| *process)
}

/// The process and the device of a line that tells of a lock for writing on the file with this number.
fn lock(line: &str, file: u64) -> Option<(u32, &str)> {
    let mut words = line.split_whitespace().skip(3);
    let (kind, process, place) = (words.next()?, words.next()?, words.next()?);
    let (device, number) = place.rsplit_once(':')?;
    // A process of another namespace has the number 0 or -1.
    let process = process.parse().ok().filter(|&process| process > 0)?;
    (kind == "WRITE" && number.parse() == Ok(file)).then_some((process, device))
}

fn has_open(process: u32, path: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_for_writing_on_the_file_names_its_process_and_device() {
        for (line, found) in [
            ("1: POSIX  ADVISORY  WRITE 4711 fd:01:393227 0 EOF", Some((4711, "fd:01"))),
            ("12: POSIX  ADVISORY  READ 4711 fd:01:393227 0 EOF", None),
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
