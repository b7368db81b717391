//! What is there is not stored again, and what is linked is not copied.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;

use dehub_backup::Repository;

use crate::{COPY, Kept, LINK, about, bytes, collection, fetch, go_on, kinds, read, store, write};

#[test]
fn a_second_backup_stores_only_what_is_new() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let before = collection();
        let first = store(&repository, &before, 42, COPY);
        assert_eq!(first.bytes_shared, 10, "two files hold the same ten bytes");
        let mut after = before.clone();
        after.remove("graph-0-7-bf16.bin");
        after.insert("graph-0-9-bf16.bin".to_owned(), bytes(9, 5_000));
        after.insert("store-00/CURRENT".to_owned(), b"MANIFEST-000011\n".to_vec());
        let second = store(&repository, &after, 43, COPY);
        assert_eq!(second.bytes_copied, 5_000 + 16);
        assert_eq!(second.bytes_shared, 3_000_000 + 10 + 10);
        assert_eq!(fetch(&repository, Some(&first.info.id)).expect("there"), before);
        assert_eq!(fetch(&repository, None).expect("there"), after, "the newest is the second");
    }
}

#[test]
fn an_object_of_the_wrong_length_is_stored_again() {
    let (_work, kinds) = kinds();
    for Kept { repository, folder } in kinds {
        let Some(folder) = folder else { continue };
        store(&repository, &collection(), 42, COPY);
        let objects = folder.join("x/objects");
        for name in read(&objects).into_keys() {
            fs::write(objects.join(name), "cut").expect("writable");
        }
        let again = store(&repository, &collection(), 42, COPY);
        assert_eq!(again.bytes_copied, again.info.bytes - 10);
        assert_eq!(fetch(&repository, None).expect("there"), collection());
    }
}

#[test]
fn a_damaged_object_is_stored_again_and_heals_the_backups_that_have_it() {
    let (_work, kinds) = kinds();
    for Kept { repository, folder } in kinds {
        let Some(folder) = folder else { continue };
        let first = store(&repository, &collection(), 42, COPY).info.id;
        let objects = folder.join("x/objects");
        let mut damaged = 0;
        for (name, mut held) in read(&objects) {
            let Some(byte) = held.last_mut() else { continue };
            *byte ^= 1;
            damaged += held.len() as u64;
            fs::write(objects.join(name), held).expect("writable");
        }
        assert!(fetch(&repository, Some(&first)).is_err());
        let again = store(&repository, &collection(), 42, COPY);
        assert_eq!(again.bytes_copied, damaged);
        assert_eq!(fetch(&repository, Some(&first)).expect("whole again"), collection());
    }
}

#[test]
fn files_of_one_file_system_are_linked_unless_a_copy_is_asked_for() {
    let (work, kinds) = kinds();
    let folder = work.path().join("collection");
    write(&folder, &collection());
    let source = fs::metadata(folder.join("store-00/000007.sst")).expect("there");
    for Kept { repository, folder: place } in kinds {
        let linked = repository.store("x", &folder, about(1), LINK, &mut go_on).expect("stored");
        let Some(place) = place else {
            assert_eq!(linked.bytes_linked, 0, "nothing is linked to memory");
            continue;
        };
        assert_eq!(linked.bytes_copied, 0);
        let same = |place: &std::path::Path| {
            let objects = fs::read_dir(place.join("x/objects")).expect("readable");
            objects.flatten().filter(|entry| entry.metadata().expect("there").ino() == source.ino()).count()
        };
        assert_eq!(same(&place), 1, "the object is the file");
        let copied = repository.store("x", &folder, about(1), COPY, &mut go_on).expect("stored");
        assert_eq!((copied.bytes_linked, same(&place)), (0, 0), "a link is replaced by a copy");
        assert_eq!(copied.bytes_copied + copied.bytes_shared, copied.info.bytes);
        let objects = read(&place.join("x/objects"));
        assert!(objects.keys().all(|name| !name.starts_with('.')), "nothing temporary is left: {objects:?}");
        // Damage to the file does not reach the copy.
        let before = fs::read(folder.join("store-00/000007.sst")).expect("readable");
        fs::write(folder.join("store-00/000007.sst"), vec![0; before.len()]).expect("writable");
        assert_eq!(fetch(&repository, Some(&copied.info.id)).expect("there"), collection());
        fs::write(folder.join("store-00/000007.sst"), before).expect("writable");
    }
}

#[test]
fn backups_of_the_same_moment_have_names_of_their_own_and_are_in_order() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let files = collection();
        let mut made: Vec<_> = (0..4).map(|_| store(&repository, &files, 42, LINK).info.id).collect();
        // An older state, made later, is the newest backup.
        made.push(store(&repository, &files, 7, LINK).info.id);
        let listed: Vec<_> =
            repository.list("x").expect("readable").backups.into_iter().map(|info| info.id).collect();
        assert_eq!(listed, made);
        assert!(made.is_sorted());
    }
}

#[test]
fn backups_of_many_threads_are_all_whole() {
    let (_work, kinds) = kinds();
    for Kept { repository, .. } in kinds {
        let repository: Arc<Repository> = Arc::new(repository);
        let back_up = |number: u64| {
            let repository = Arc::clone(&repository);
            thread::spawn(move || {
                let mut files = collection();
                files.insert("own".to_owned(), bytes(number, 1_000));
                (store(&repository, &files, 42, LINK).info.id, files)
            })
        };
        let threads: Vec<_> = (0..6).map(back_up).collect();
        let made: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        for (id, files) in &made {
            assert_eq!(&fetch(&repository, Some(id)).expect("there"), files, "{id}");
        }
        assert_eq!(repository.list("x").expect("readable").backups.len(), made.len());
    }
}
