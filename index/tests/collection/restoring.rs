//! Checkpoints under writes, and what takes a collection's place.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dehub_index::{Catalogue, CatalogueError, Name, Question, RestoreError, Snapshot, Variant};
use dehub_vector::{Metric, PointId, Vector};

use crate::dump::{Dump, dump};
use crate::made::{Numbers, config_with_graph, fit, gallery, ids, name, points, queries, store_folder};
use crate::reference::bits;

const DIM: usize = 8;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("copied");
        }
    }
}

/// Lets a copy of `folder` become the collection `target`.
fn adopt(catalogue: &Catalogue, folder: &Path, target: &Name, replaces: bool) -> Result<u64, RestoreError> {
    let incoming = catalogue.receive(target, replaces)?;
    copy(folder, incoming.folder());
    let adopted = catalogue.adopt(incoming)?;
    assert_eq!(adopted.replaced, replaces);
    Ok(adopted.sequence)
}

fn shown(catalogue: &Catalogue, collection: &str) -> Dump {
    dump(&catalogue.get(&name(collection)).expect("it opens").snapshot())
}

/// The collection `x` with points, banks, a graph and a correction.
fn filled(catalogue: &Catalogue, numbers: &mut Numbers) {
    let made = catalogue.create(&name("x"), config_with_graph(DIM, Metric::Cosine)).expect("free");
    made.upsert(&points(0, &numbers.vectors(300, DIM))).expect("good points");
    made.add_to_bank(&queries("queries", &numbers.vectors(40, DIM))).expect("good entries");
    made.add_to_bank(&gallery("gallery", 5_000, &numbers.vectors(20, DIM))).expect("good entries");
    made.fit(&[fit("IS(beta=20)"), fit("DualIS(b1=20,b2=20)")]).expect("a fit");
    made.build_graph_if_due().expect("a graph");
    made.upsert(&points(290, &numbers.vectors(20, DIM))).expect("good points");
}

/// What files are in the data directory beside the collections.
fn hidden(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("collections")).expect("readable").flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_checkpoint_made_under_writes_is_the_collection_at_its_sequence() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    let mut numbers = Numbers(7);
    filled(&catalogue, &mut numbers);
    let collection = catalogue.get(&name("x")).expect("there");
    let states: Mutex<BTreeMap<u64, Dump>> = Mutex::default();
    let remember = |snapshot: &Snapshot| {
        states.lock().expect("no panic").insert(snapshot.sequence(), dump(snapshot));
    };
    remember(&collection.snapshot());
    let acknowledged = AtomicU64::new(0);
    let is_done = AtomicBool::new(false);
    let mut made = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut step = 0;
            while !is_done.load(Ordering::Relaxed) {
                match step % 4 {
                    0 => _ = collection.delete(&ids([step, step + 1])).expect("a delete"),
                    1 => {
                        let more = queries("queries", &numbers.vectors(1, DIM));
                        collection.add_to_bank(&more).expect("good entries");
                    }
                    _ => {
                        let more = points(1_000 + 3 * step, &numbers.vectors(3, DIM));
                        collection.upsert(&more).expect("good points");
                    }
                }
                let snapshot = collection.snapshot();
                acknowledged.store(snapshot.sequence(), Ordering::SeqCst);
                remember(&snapshot);
                step += 1;
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                collection.freeze().expect("a graph");
            }
        });
        for number in 0..6 {
            let before = acknowledged.load(Ordering::SeqCst);
            let checkpoint = catalogue.checkpoint(&name("x")).expect("a checkpoint");
            assert!(checkpoint.info().sequence >= before, "an acknowledged write is missing");
            let target = name(&format!("y{number}"));
            adopt(&catalogue, checkpoint.folder(), &target, false).expect("it is whole");
            made.push((target, checkpoint.info().sequence, checkpoint.info().points));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let states = states.into_inner().expect("no panic");
    for (target, sequence, count) in made {
        let restored = catalogue.get(&target).expect("it opens").snapshot();
        assert_eq!((restored.sequence(), restored.len()), (sequence, count));
        assert!(restored.has_graph(), "{target}: the graph is there");
        assert_eq!(dump(&restored), states[&sequence], "{target} at sequence {sequence}");
    }
    assert!(hidden(folder.path()).is_empty(), "{:?}", hidden(folder.path()));
}

/// The bits of what an exact scan and a walk find for some queries, raw and corrected.
fn answers(snapshot: &Snapshot, vectors: &[Vec<f32>]) -> Vec<Vec<(u32, u32)>> {
    let config = snapshot.config();
    let correction = snapshot.correction("IS(beta=20)").expect("it is there");
    let terms = correction.columns().iter().map(|column| (column, 1.0));
    let variants = [Variant::raw(), Variant::new(terms)];
    let query = |vector: &Vec<f32>| Vector::new(vector, config.dim, config.metric).expect("a good vector");
    let vectors: Vec<Vector> = vectors.iter().map(query).collect();
    let question = Question { vectors: &vectors, limit: 10, targets: &[] };
    let scanned = snapshot.scan(&question, &variants).into_iter().flatten().map(|answer| bits(&answer.best));
    let walks = vectors.iter().flat_map(|query| {
        variants.iter().map(move |variant| bits(&snapshot.walk(query, variant, 10, 32).expect("a graph")))
    });
    scanned.chain(walks).collect()
}

#[test]
fn a_restored_collection_answers_as_the_stored_one_and_its_graph_is_used() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    let mut numbers = Numbers(8);
    filled(&catalogue, &mut numbers);
    let checkpoint = catalogue.checkpoint(&name("x")).expect("a checkpoint");
    adopt(&catalogue, checkpoint.folder(), &name("y"), false).expect("it is whole");
    let vectors = numbers.vectors(12, DIM);
    let (x, y) = (catalogue.get(&name("x")).expect("there"), catalogue.get(&name("y")).expect("there"));
    assert_eq!(answers(&x.snapshot(), &vectors), answers(&y.snapshot(), &vectors));
    assert_eq!(x.snapshot().segment_infos(), y.snapshot().segment_infos());
    assert_eq!(x.is_graph_due(), y.is_graph_due());
    assert_eq!(dump(&x.snapshot()), dump(&y.snapshot()));
    // Each goes on by itself.
    y.delete(&ids(0..10)).expect("a delete");
    x.upsert(&points(9_000, &vectors)).expect("good points");
    assert_eq!(x.snapshot().len(), y.snapshot().len() + 10 + vectors.len());
}

#[test]
fn a_collection_is_replaced_only_if_that_is_asked_for_and_by_a_whole_one() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    filled(&catalogue, &mut Numbers(9));
    let old = shown(&catalogue, "x");
    let checkpoint = catalogue.checkpoint(&name("x")).expect("a checkpoint");
    let taken = adopt(&catalogue, checkpoint.folder(), &name("x"), false).expect_err("taken");
    assert!(matches!(taken, RestoreError::Catalogue(CatalogueError::Exists { .. })), "{taken}");
    catalogue.get(&name("x")).expect("there").delete(&ids(0..5)).expect("a delete");
    let newer = shown(&catalogue, "x");
    // Not whole: a table without its end, a store without its head, nothing at all.
    let broken = folder.path().join("broken");
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "sst");
    for part in ["table", "CURRENT", "all"] {
        _ = fs::remove_dir_all(&broken);
        copy(checkpoint.folder(), &broken);
        let store = store_folder(&broken);
        match part {
            "table" => {
                let tables = fs::read_dir(&store).expect("readable").flatten().map(|entry| entry.path());
                for table in tables.filter(is_table) {
                    let half = fs::read(&table).expect("readable");
                    fs::write(&table, &half[..half.len() / 2]).expect("writable");
                }
            }
            "CURRENT" => fs::remove_file(store.join("CURRENT")).expect("it is there"),
            _ => fs::remove_dir_all(&store).expect("it is there"),
        }
        let error = adopt(&catalogue, &broken, &name("x"), true).expect_err("it is broken");
        assert!(matches!(error, RestoreError::Unfit(_)), "{part}: {error}");
        assert_eq!(shown(&catalogue, "x"), newer, "{part}");
    }
    assert!(hidden(folder.path()).iter().all(|name| name.starts_with(".checkpoint")), "nothing else is left");
    adopt(&catalogue, checkpoint.folder(), &name("x"), true).expect("it is whole");
    assert_eq!(shown(&catalogue, "x"), old);
    drop(checkpoint);
    assert!(hidden(folder.path()).is_empty());
    // It is the one that goes on, also after it is opened again.
    let replaced = catalogue.get(&name("x")).expect("there");
    assert_eq!(replaced.snapshot().sequence(), old.sequence);
    drop((replaced, catalogue));
    assert_eq!(shown(&Catalogue::new(folder.path()), "x"), old);
}

/// A step, the folders there are after it with what they hold, and what must be served then.
type Step<'a> = (&'a str, &'a [(&'a str, &'a Path)], &'a Dump);

#[test]
fn a_replacement_that_is_cut_off_anywhere_leaves_the_old_collection_or_the_new() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let collections = folder.path().join("collections");
    let open = || Catalogue::new(folder.path());
    filled(&open(), &mut Numbers(10));
    let old = shown(&open(), "x");
    let (saved_old, saved_new) = (folder.path().join("old"), folder.path().join("new"));
    copy(&collections.join("x"), &saved_old);
    open().get(&name("x")).expect("there").delete(&ids(0..50)).expect("a delete");
    let new = shown(&open(), "x");
    copy(&collections.join("x"), &saved_new);
    let steps: [Step<'_>; 4] = [
        ("fetched", &[("x", &saved_old), (".restoring-x.00ff", &saved_new)], &old),
        ("renamed away", &[(".replaced-x", &saved_old), (".restoring-x.00ff", &saved_new)], &old),
        ("in its place", &[("x", &saved_new), (".replaced-x", &saved_old)], &new),
        ("a checkpoint", &[("x", &saved_old), (".checkpoint-x.00ff", &saved_new)], &old),
    ];
    for (step, folders, wanted) in steps {
        let lay_out = || {
            fs::remove_dir_all(&collections).expect("there");
            folders.iter().for_each(|(name, held)| copy(held, &collections.join(name)));
        };
        lay_out();
        let catalogue = open();
        assert_eq!(catalogue.names().expect("readable"), [name("x")], "{step}");
        assert_eq!(&shown(&catalogue, "x"), wanted, "{step}");
        drop(catalogue.receive(&name("z"), false).expect("room"));
        assert!(hidden(folder.path()).is_empty(), "{step}: {:?}", hidden(folder.path()));
        drop(catalogue);
        // Asked for without a look at the names first.
        lay_out();
        assert_eq!(&shown(&open(), "x"), wanted, "{step}");
        lay_out();
        let taken = open().create(&name("x"), config_with_graph(DIM, Metric::Cosine));
        assert!(matches!(taken, Err(CatalogueError::Exists { .. })), "{step}");
        lay_out();
        open().delete(&name("x")).expect("there");
        assert!(open().names().expect("readable").is_empty(), "{step}: what is deleted does not come back");
    }
}

#[test]
fn a_folder_that_somebody_works_in_is_not_swept() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    filled(&catalogue, &mut Numbers(11));
    let first = catalogue.checkpoint(&name("x")).expect("a checkpoint");
    let incoming = Catalogue::new(folder.path()).receive(&name("y"), false).expect("room");
    let second = catalogue.checkpoint(&name("x")).expect("another");
    assert!(first.folder().is_dir() && second.folder().is_dir() && incoming.folder().is_dir());
    assert_eq!(catalogue.names().expect("readable"), [name("x")]);
    drop((first, second, incoming));
    assert!(hidden(folder.path()).is_empty());
    let held = catalogue.get(&name("x")).expect("there");
    assert!(held.snapshot().find(&PointId::Number(5)).expect("readable").is_some());
}
