//! The process that is killed: every stream of operations on a thread of its own, and beside them freezes, compactions,
//! backups, an index of texts that follows, and collections that come and go.

use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dehub_api::{back_up, restore_from};
use dehub_backup::{Repository, StoreOptions};
use dehub_index::{Catalogue, Collection, Name, PointInput, Quantization};
use dehub_vector::PointId;

use crate::journal::Journal;
use crate::operation::{DIM, Numbers, Operation, Stream};
use crate::parent::{config, main_collection, other_collection, read_starts};

/// A child that nobody kills ends, so that a broken test does.
const LIFE: Duration = Duration::from_secs(300);

/// Backups kept in the repository.
const BACKUPS_KEPT: usize = 3;

pub(crate) fn run(folder: &Path, seed: u64) {
    let catalogue = Arc::new(Catalogue::new(&folder.join("data")));
    let collection = catalogue.get(&main_collection()).expect("it opens after a kill");
    let starts = read_starts(folder);
    // Another pace in each process, from how far the streams came.
    let pace = Numbers::new(&starts.values().copied().collect::<Vec<_>>()).bits();
    for stream in Stream::all() {
        let (collection, mut journal) = (Arc::clone(&collection), Journal::open(folder, stream));
        let first = starts.get(&stream).copied().unwrap_or(0);
        thread::spawn(move || {
            for number in first.. {
                journal.begin(number);
                Operation::new(seed, stream, number).apply(&collection);
                journal.acknowledge(number);
            }
        });
    }
    let repository = folder.join("backups");
    let beside: [fn(&Catalogue, &Collection, &Path, u64); 5] =
        [freeze, compact, store_backup, come_and_go, index_texts];
    for work in beside {
        let (catalogue, collection) = (Arc::clone(&catalogue), Arc::clone(&collection));
        let repository = repository.clone();
        thread::spawn(move || {
            for round in pace % 8.. {
                work(&catalogue, &collection, &repository, round);
            }
        });
    }
    writeln!(stdout(), "\nstarted").expect("the parent reads");
    thread::sleep(LIFE);
    panic!("nobody killed this process");
}

fn freeze(_: &Catalogue, collection: &Collection, _: &Path, round: u64) {
    if round.is_multiple_of(4) {
        let kinds = Quantization::ALL;
        let kind = kinds[usize::try_from(round / 4).expect("small") % kinds.len()];
        collection.set_quantization(kind).expect("a setting");
    }
    _ = if round.is_multiple_of(3) { collection.freeze() } else { collection.build_graph_if_due() }
        .expect("a freeze");
    thread::sleep(Duration::from_millis(5));
}

fn compact(_: &Catalogue, collection: &Collection, _: &Path, _: u64) {
    _ = collection.compact().expect("a compaction");
    thread::sleep(Duration::from_millis(20));
}

fn store_backup(catalogue: &Catalogue, _: &Collection, repository: &Path, round: u64) {
    let repository = Repository::in_directory(repository);
    let options = StoreOptions { link: round.is_multiple_of(2) };
    let name = main_collection();
    _ = back_up(catalogue, &name, &repository, options, &mut |_| ControlFlow::Continue(()))
        .expect("a backup");
    if round.is_multiple_of(3) {
        _ = repository.prune(name.as_str(), BACKUPS_KEPT);
    }
}

fn index_texts(_: &Catalogue, collection: &Collection, _: &Path, round: u64) {
    _ = collection.refresh_text().expect("an index of texts");
    thread::sleep(Duration::from_millis(round % 3));
}

/// Makes a collection, fills it, replaces it by what a backup of the main one holds, and deletes it.
fn come_and_go(catalogue: &Catalogue, _: &Collection, repository: &Path, _: u64) {
    let name: Name = other_collection();
    if catalogue.names().expect("readable").contains(&name) {
        catalogue.delete(&name).expect("a collection that a kill left whole");
    }
    let made = catalogue.create(&name, config()).expect("the name is free");
    let (id, vector) = (PointId::Number(1), vec![1.0; DIM]);
    made.upsert(&[PointInput { id, vector: vector.into(), named: Vec::new(), payload: None, text: None }])
        .expect("a good point");
    drop(made);
    let repository = Repository::in_directory(repository);
    let main = main_collection();
    if repository.list(main.as_str()).is_ok_and(|listing| !listing.backups.is_empty()) {
        let names = (&main, &name, true);
        let restored =
            restore_from(catalogue, names, (&repository, None), &mut |_| ControlFlow::Continue(()), || ());
        // A backup may be pruned while it is restored.
        if restored.is_ok() {
            let restored = catalogue.get(&name).expect("it was verified");
            assert!(restored.snapshot().sequence() > 0);
        }
    }
    catalogue.delete(&name).expect("it is there");
}
