//! Repositories from outside: what is stored comes back as it was, or not at all.

mod damage;
mod keeping;
mod sharing;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dehub_backup::{About, BackupError, BackupId, Progress, Repository, StoreOptions, Stored};
use tempfile::TempDir;

pub(crate) const LINK: StoreOptions = StoreOptions { link: true };
pub(crate) const COPY: StoreOptions = StoreOptions { link: false };

/// What the files of a folder hold, by their paths.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A repository, and where its objects are if they are files.
pub(crate) struct Kept {
    pub(crate) repository: Repository,
    pub(crate) folder: Option<PathBuf>,
}

/// A folder to work in, and one repository of each kind.
pub(crate) fn kinds() -> (TempDir, Vec<Kept>) {
    let work = tempfile::tempdir().expect("a folder for the test");
    let at = |name: &str| work.path().join(name);
    let open = |location: &str| Repository::open(location).expect("a place");
    let (directory, url) = (at("a directory"), at("by url"));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let kinds = vec![
        Kept { repository: open(&text(&directory)), folder: Some(directory) },
        Kept { repository: open(&format!("file://{}", text(&url).replace(' ', "%20"))), folder: Some(url) },
        Kept { repository: Repository::in_memory().expect("memory"), folder: None },
    ];
    (work, kinds)
}

pub(crate) fn about(sequence: u64) -> About {
    About {
        version: "0.1.0".to_owned(),
        identity: 0xfeed,
        sequence,
        points: 3,
        dim: 2,
        metric: "cosine".to_owned(),
    }
}

/// Bytes that look random and are the same for the same seed.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A collection's files: an empty one, small ones, one of several pieces, two that hold the same.
pub(crate) fn collection() -> Files {
    [
        ("graph-0-7-bf16.bin", bytes(1, 70_000)),
        ("store-00/CURRENT", b"MANIFEST-000005\n".to_vec()),
        ("store-00/000007.sst", bytes(2, 3_000_000)),
        ("store-00/000008.sst", bytes(3, 10)),
        ("store-00/000009.sst", bytes(3, 10)),
        ("store-00/000010.log", Vec::new()),
    ]
    .map(|(path, bytes)| (path.to_owned(), bytes))
    .into()
}

pub(crate) fn write(folder: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, bytes).expect("writable");
    }
}

pub(crate) fn read(folder: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").to_str().expect("UTF-8").to_owned();
                files.insert(name, fs::read(path).expect("readable"));
            }
        }
    }
    files
}

pub(crate) fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Stores files as a backup of `x`.
pub(crate) fn store(repository: &Repository, files: &Files, sequence: u64, options: StoreOptions) -> Stored {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), files);
    repository.store("x", folder.path(), about(sequence), options, &mut go_on).expect("it is stored")
}

/// What a backup of `x` holds.
pub(crate) fn fetch(repository: &Repository, backup: Option<&BackupId>) -> Result<Files, BackupError> {
    let folder = tempfile::tempdir().expect("a folder");
    let into = folder.path().join("into");
    repository.fetch("x", backup, &into, &mut go_on)?;
    Ok(read(&into))
}

#[test]
fn what_is_stored_comes_back_as_it_was_wherever_it_is_kept() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let files = collection();
        let stored = store(&repository, &files, 42, LINK);
        let sum: usize = files.values().map(Vec::len).sum();
        assert_eq!((stored.info.files, stored.info.bytes), (files.len(), sum as u64));
        assert_eq!(stored.info.about, about(42));
        assert_eq!(
            stored.bytes_copied + stored.bytes_linked + stored.bytes_shared,
            sum as u64,
            "{}",
            repository.location()
        );
        assert_eq!(fetch(&repository, None).expect("it is there"), files);
        assert_eq!(fetch(&repository, Some(&stored.info.id)).expect("it is there"), files);
        assert_eq!(repository.list("x").expect("readable").backups, std::slice::from_ref(&stored.info));
        let checked = repository.check("x", None, &mut go_on).expect("it is there");
        assert!(checked.damage.is_empty() && checked.info == stored.info, "{:?}", checked.damage);
    }
}

#[test]
fn all_kinds_of_repositories_hold_the_same_objects_under_the_same_names() {
    let (_work, kinds) = kinds();
    let mut ids = Vec::new();
    for Kept { repository, folder } in kinds {
        store(&repository, &collection(), 42, COPY);
        if let Some(folder) = folder {
            let mut names: Vec<String> = read(&folder.join("x/objects")).into_keys().collect();
            names.sort();
            ids.push(names);
        }
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[0].len(), 5, "two of the six files hold the same");
}

#[test]
fn a_backup_that_is_not_there_is_unknown_and_the_others_are_named() {
    let (work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let error = fetch(&repository, None).expect_err("there is none");
        assert!(matches!(error, BackupError::Unknown { .. }) && error.is_callers(), "{error}");
        assert!(error.to_string().ends_with("it has: nothing"), "{error}");
        assert!(repository.list("x").expect("readable").backups.is_empty());
        let stored = store(&repository, &collection(), 42, LINK);
        let other: BackupId = "20000101T000000Z-7".parse().expect("an id");
        let error = fetch(&repository, Some(&other)).expect_err("another");
        assert!(error.to_string().contains(stored.info.id.as_str()), "{error}");
        let error = repository.remove("x", &other).expect_err("another");
        assert!(matches!(error, BackupError::Unknown { .. }), "{error}");
        let error = repository.check("y", None, &mut go_on).expect_err("another collection");
        assert!(error.to_string().ends_with("it has: folders of x"), "{error}");
    }
    assert!(!work.path().join("a directory/y").exists(), "asking makes nothing");
}

#[test]
fn a_place_that_keeps_no_backups_is_refused() {
    for location in ["", "ftp://x/y", "http://x/y", "memory:///", "s3://", "file://host/x", "file:relative"] {
        let error = Repository::open(location).err();
        let error = error.unwrap_or_else(|| panic!("{location} is taken"));
        assert!(matches!(error, BackupError::Location { .. }), "{location}: {error}");
    }
    let (work, kinds) = kinds();
    for name in ["", "a/b", "..", ".hidden", "a\\b", &"a".repeat(300)] {
        for Kept { repository, .. } in &kinds {
            let error = repository.store(name, work.path(), about(1), LINK, &mut go_on).expect_err("no name");
            assert!(matches!(error, BackupError::Collection { .. }), "{name}: {error}");
            assert!(repository.list(name).is_err() && repository.prune(name, 1).is_err(), "{name}");
        }
    }
    let file = work.path().join("a file");
    fs::write(&file, "x").expect("writable");
    let repository = Repository::in_directory(&file);
    let error = repository.store("x", work.path(), about(1), LINK, &mut go_on).expect_err("a file");
    assert!(matches!(error, BackupError::File { .. }) && !error.is_callers(), "{error}");
}

#[test]
fn a_folder_with_links_in_it_is_refused() {
    let (work, kinds) = kinds();
    let folder = work.path().join("folder");
    write(&folder, &collection());
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).expect("writable");
    for Kept { repository, .. } in kinds {
        let error = repository.store("x", &folder, about(1), LINK, &mut go_on).expect_err("a link");
        assert!(matches!(&error, BackupError::Unfit { path, .. } if path.ends_with("link")), "{error}");
        assert!(repository.list("x").expect("readable").backups.is_empty());
    }
}

#[test]
fn progress_only_rises_and_ends_at_its_total() {
    let (work, kinds) = kinds();
    let folder = work.path().join("folder");
    write(&folder, &collection());
    for Kept { repository, .. } in kinds {
        let mut seen: Vec<Progress> = Vec::new();
        let mut watch = |now: Progress| {
            seen.push(now);
            ControlFlow::Continue(())
        };
        repository.store("x", &folder, about(1), LINK, &mut watch).expect("stored");
        repository.store("x", &folder, about(2), LINK, &mut watch).expect("stored again");
        let rises = |seen: &[Progress]| seen.is_sorted_by_key(|now| now.done);
        let middle = 1 + seen.windows(2).position(|two| two[1].done < two[0].done).expect("two runs");
        let total = 2 * collection().values().map(Vec::len).sum::<usize>() as u64;
        for run in [&seen[..middle], &seen[middle..]] {
            let last = run.last().expect("something was told");
            assert!(rises(run) && run.iter().all(|now| now.total == total) && last.done == total, "{last:?}");
        }
    }
}
