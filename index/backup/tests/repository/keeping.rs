//! Removing backups: what one that stays needs is never removed.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dehub_backup::{BackupError, BackupId, Swept};

use crate::{COPY, Files, Kept, LINK, bytes, collection, fetch, kinds, read, store};

/// The collection with a file that is new with each generation.
fn generation(number: u64) -> Files {
    let mut files = collection();
    files.insert("generation".to_owned(), bytes(1_000 + number, 100));
    files
}

#[test]
fn the_newest_are_kept_and_so_is_what_they_need() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let ids: Vec<BackupId> =
            (0..5).map(|number| store(&repository, &generation(number), number, LINK).info.id).collect();
        let swept = repository.prune("x", 2).expect("pruned");
        assert_eq!(swept, Swept { backups: ids[..3].to_vec(), objects: 3, bytes: 300 });
        assert_eq!(repository.prune("x", 2).expect("pruned"), Swept::default());
        for (number, id) in (3..5).zip(&ids[3..]) {
            assert_eq!(fetch(&repository, Some(id)).expect("kept"), generation(number));
        }
        let swept = repository.remove("x", &ids[4]).expect("removed");
        assert_eq!((swept.backups.as_slice(), swept.bytes), (&ids[4..], 100));
        assert_eq!(fetch(&repository, None).expect("the one before"), generation(3));
        let swept = repository.prune("x", 0).expect("pruned");
        assert_eq!((swept.backups.len(), swept.objects), (1, 6), "all is gone");
        assert!(matches!(fetch(&repository, None), Err(BackupError::Unknown { .. })));
        assert_eq!(repository.prune("never heard of", 1).expect("nothing"), Swept::default());
    }
}

#[test]
fn leftovers_of_interrupted_backups_do_no_harm_and_are_swept() {
    let (_work, kinds) = kinds();
    for Kept { repository, folder } in kinds {
        let Some(folder) = folder else { continue };
        store(&repository, &collection(), 1, COPY);
        let before = read(&folder);
        // A file half written, an object that no manifest came to name, a manifest without its name.
        let orphan = "0".repeat(64);
        for name in ["objects/.new-0123", &format!("objects/{orphan}"), "backups/.new-4567"] {
            fs::write(folder.join("x").join(name), bytes(5, 50)).expect("writable");
        }
        fs::write(folder.join("x/objects/README"), "not ours").expect("writable");
        assert_eq!(fetch(&repository, None).expect("there"), collection());
        assert_eq!(repository.list("x").expect("readable").backups.len(), 1);
        let swept = repository.prune("x", 1).expect("pruned");
        assert_eq!((swept.backups.len(), swept.objects, swept.bytes), (0, 3, 150));
        fs::remove_file(folder.join("x/objects/README")).expect("what is not ours stays");
        assert_eq!(read(&folder), before);
    }
}

#[test]
fn sweeps_beside_backups_never_take_what_these_count_on() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let is_done = AtomicBool::new(false);
        let mut sweeps = 0;
        thread::scope(|scope| {
            let back_up = |first: u64| {
                let repository = &repository;
                move || {
                    // Each backup needs files that at times only a removed one had.
                    for number in first..first + 6 {
                        store(repository, &generation(number % 3), number, COPY);
                    }
                }
            };
            let threads = [scope.spawn(back_up(0)), scope.spawn(back_up(100))];
            let is_done = &is_done;
            scope.spawn(move || {
                threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
                is_done.store(true, Ordering::Relaxed);
            });
            while !is_done.load(Ordering::Relaxed) {
                match repository.prune("x", 1) {
                    Ok(_) => sweeps += 1,
                    Err(error) => assert!(matches!(error, BackupError::Busy { .. }), "{error}"),
                }
                thread::yield_now();
            }
        });
        let listing = repository.list("x").expect("readable");
        assert!(!listing.backups.is_empty() && listing.damaged.is_empty());
        for info in listing.backups {
            let checked = repository.check("x", Some(&info.id), &mut crate::go_on).expect("there");
            assert!(checked.damage.is_empty(), "after {sweeps} sweeps: {:?}", checked.damage);
        }
    }
}
