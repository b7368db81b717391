//! A graph of several segments: few, right after any writes, and as good as one.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dehub_index::{
    Answer, Catalogue, CollectionConfig, GraphBuild, GraphConfig, Quantization, Question, Snapshot, Variant,
};
use dehub_vector::{Candidate, Metric, PointId, Vector};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::made::{Home, Numbers, config_with_graph, name, points, queries};
use crate::reference::{bits, full_sort, recall};
use crate::wordnet;

const DIM: usize = 16;

/// The ids that a walk with this effort finds for a vector, best first.
fn found(snapshot: &Snapshot, query: &Vector, limit: usize, effort: usize) -> Vec<PointId> {
    let found = snapshot.walk(query, &Variant::raw(), limit, effort).expect("a graph");
    let rows: Vec<u32> = found.iter().map(|candidate| candidate.row).collect();
    snapshot.points(&rows).expect("live rows have records").into_iter().map(|point| point.id).collect()
}

/// Every point finds itself first, and what is found is there.
fn each_finds_itself(home: &Home, wanted: &BTreeMap<u64, Vec<f32>>) {
    let snapshot = home.snapshot();
    assert_eq!(snapshot.len(), wanted.len());
    for (&id, vector) in wanted {
        let found = found(&snapshot, &home.query(vector), 10, 64);
        assert_eq!(found[0], PointId::Number(id));
        for id in found {
            let PointId::Number(id) = id else { panic!("ids are numbers: {id:?}") };
            assert!(wanted.contains_key(&id), "{id} was deleted");
        }
    }
}

#[test]
fn after_inserts_deletes_and_upserts_every_point_finds_itself_and_no_deleted_one_returns() {
    let mut home = Home::new(config_with_graph(DIM, Metric::Cosine));
    let mut numbers = Numbers(61);
    let mut wanted = BTreeMap::new();
    let upsert = |home: &Home,
                  ids: &mut dyn Iterator<Item = u64>,
                  wanted: &mut BTreeMap<_, _>,
                  numbers: &mut Numbers| {
        for id in ids {
            let vector = numbers.vector(DIM);
            home.upsert(&points(id, std::slice::from_ref(&vector)));
            wanted.insert(id, vector);
        }
    };
    let vectors = numbers.vectors(4000, DIM);
    for (first, vectors) in (0..).step_by(1000).zip(vectors.chunks(1000)) {
        home.upsert(&points(first, vectors));
        home.build_graph();
        wanted.extend((first..).zip(vectors.iter().cloned()));
    }
    each_finds_itself(&home, &wanted);
    home.delete((0..4000).filter(|id| id % 2 == 1));
    wanted.retain(|id, _| id % 2 == 0);
    // A thousand move, and two hundred are new; among both are some that were deleted.
    upsert(&home, &mut (0..2000).step_by(2), &mut wanted, &mut numbers);
    upsert(&home, &mut (3901..4101), &mut wanted, &mut numbers);
    assert!(home.collection().is_graph_due());
    each_finds_itself(&home, &wanted);
    home.reopen();
    each_finds_itself(&home, &wanted);
    home.build_graph();
    assert!(!home.collection().is_graph_due());
    each_finds_itself(&home, &wanted);
    home.reopen();
    each_finds_itself(&home, &wanted);
    home.collection().freeze().expect("a graph");
    let gallery = home.snapshot().gallery();
    assert_eq!((gallery.segments, gallery.dead, gallery.delta), (1, 0, 0));
    each_finds_itself(&home, &wanted);
    home.reopen();
    each_finds_itself(&home, &wanted);
}

/// The words in segments: a large one of other vectors keeps them apart.
fn words_in_segments() -> Home {
    // Links found by a narrow beam, which takes a quarter of the time.
    let graph = GraphConfig { full_scan_threshold: 0, ef_construction: 50, ..GraphConfig::default() };
    let config = CollectionConfig::new(wordnet::DIM, Metric::Cosine, graph).expect("a good configuration");
    let home = Home::new(config);
    let (words, mut numbers) = (wordnet::gallery(), Numbers(62));
    for (first, count) in [(100_000, 10_000), (110_000, 10_000), (120_000, 1)] {
        home.upsert(&points(first, &numbers.vectors(count, wordnet::DIM)));
    }
    home.build_graph();
    home.upsert(&points(0, &words));
    // More than a tenth of what is inside.
    home.upsert(&points(200_000, &numbers.vectors(600, wordnet::DIM)));
    home.build_graph();
    home
}

/// The mean share of the exact best ten that walks find, raw and by two corrections.
fn shares(home: &Home) -> [f64; 3] {
    let snapshot = home.snapshot();
    let asked: Vec<Vector> = wordnet::queries().iter().map(|vector| home.query(vector)).collect();
    let question = Question { vectors: &asked, limit: 10, targets: &[] };
    [None, Some("IS(beta=20)"), Some("CSLS(k=10)")].map(|label| {
        let corrected = |label| snapshot.correction(label).expect("fitted").variant(&[true], 1.0);
        let variant = label.map_or(Variant::raw(), corrected);
        let exact = snapshot.scan(&question, std::slice::from_ref(&variant));
        let share = |(query, exact): (&Vector, &Vec<Answer>)| {
            recall(&snapshot.walk(query, &variant, 10, 128).expect("a graph"), &exact[0].best)
        };
        asked.iter().zip(&exact).map(share).sum::<f64>() / asked.len() as f64
    })
}

#[test]
fn walks_of_several_segments_miss_no_more_than_those_of_one() {
    let mut home = words_in_segments();
    home.add(&queries("queries", &wordnet::bank()));
    home.fit(&["IS(beta=20)", "CSLS(k=10)"]);
    home.upsert(&points(300_000, &Numbers(63).vectors(50, wordnet::DIM)));
    home.delete((0..1500).filter(|id| id % 9 == 0));
    let infos = home.snapshot().segment_infos();
    assert_eq!(infos.len(), 2, "{infos:?}");
    assert_eq!(infos.iter().map(|info| info.points).sum::<usize>() + 50, home.snapshot().len());
    let gallery = home.snapshot().gallery();
    assert_eq!((gallery.segments, gallery.delta), (2, 50));
    let several = shares(&home);
    home.reopen();
    let again = shares(&home);
    assert_eq!(again[0], several[0], "the same files give the same answers");
    // The numbers of deleted points are gone, and a walk still passes over those points.
    assert!(again.iter().zip(&several).all(|(again, before)| (again - before).abs() < 0.01), "{again:?}");
    home.collection().freeze().expect("a graph");
    assert_eq!(home.snapshot().gallery().segments, 1);
    let one = shares(&home);
    println!("several {several:.4?}, one {one:.4?}");
    assert!(several[0] >= 0.97, "{several:?}");
    // Corrections lead far from the queries here, which one graph finds no better.
    assert!(several.iter().zip(&one).all(|(several, one)| several >= &(one - 0.01)), "{several:?}, {one:?}");
}

#[test]
fn a_lost_segment_is_scanned_and_frozen_again_alone() {
    let mut home = words_in_segments();
    let files = home.graph_files();
    let last =
        files.iter().find(|file| !file.ends_with("graph-0-20001-reduced.bin")).expect("a second one").clone();
    let first = std::fs::metadata(home.path().join("graph-0-20001-reduced.bin")).expect("it is there");
    home.reopen_after(|| std::fs::remove_file(&last).expect("it is there"));
    let gallery = home.snapshot().gallery();
    assert_eq!((gallery.segments, gallery.delta), (1, 2100));
    let query = home.query(&wordnet::gallery()[7]);
    assert_eq!(found(&home.snapshot(), &query, 1, 64), [PointId::Number(7)]);
    home.build_graph();
    assert_eq!(home.graph_files(), files);
    let kept = std::fs::metadata(home.path().join("graph-0-20001-reduced.bin")).expect("it is there");
    assert_eq!(kept.modified().expect("a time"), first.modified().expect("a time"), "the other is as it was");
    assert_eq!(found(&home.snapshot(), &query, 1, 64), [PointId::Number(7)]);
}

#[test]
fn scores_are_those_of_the_vectors_under_every_quantization() {
    const WIDE: usize = 160;
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let mut numbers = Numbers(64);
        // Long in an eighth of the dimensions, so that a projection pays.
        let mut vectors = numbers.vectors(700, WIDE);
        vectors.iter_mut().for_each(|vector| vector[WIDE / 8..].iter_mut().for_each(|x| *x *= 0.02));
        let (bank, vectors) = vectors.split_at(100);
        let mut home = Home::new(config_with_graph(WIDE, metric));
        home.upsert(&points(0, vectors));
        home.add(&queries("queries", bank));
        home.fit(&["IS(beta=20)"]);
        home.build_graph();
        let mut sizes = Vec::new();
        for quantization in Quantization::ALL {
            home.collection().set_quantization(quantization).expect("a write");
            let built = home.collection().build_graph_if_due().expect("a graph");
            let changes = quantization != Quantization::DEFAULT;
            assert_eq!(built != GraphBuild::NotDue, changes || !sizes.is_empty(), "{quantization}");
            home.reopen();
            assert!(!home.collection().is_graph_due());
            let snapshot = home.snapshot();
            assert_eq!(snapshot.config().graph.quantization, quantization);
            let info = snapshot.segment_infos().remove(0);
            assert_eq!(info.quantization, quantization);
            sizes.push(info.vector_bytes);
            for vector in bank.iter().step_by(10) {
                let query = home.query(vector);
                for variant in [
                    Variant::raw(),
                    snapshot.correction("IS(beta=20)").expect("fitted").variant(&[true], 1.0),
                ] {
                    // So wide a beam misses nothing, and every score is that of an exact scan.
                    let found = snapshot.walk(&query, &variant, 600, 600).expect("a graph");
                    assert_eq!(bits(&found), bits(&full_sort(&snapshot, &query, &variant)), "{quantization}");
                    let few = snapshot.walk(&query, &variant, 10, 64).expect("a graph");
                    for Candidate { row, score } in &few {
                        let exact = variant.score(snapshot.similarity(&query, *row), *row);
                        assert_eq!(score.to_bits(), exact.to_bits());
                    }
                    assert!(recall(&few, &found[..10]) >= 0.7, "{quantization}");
                }
            }
        }
        assert_eq!(sizes, [640, 320, 192, 64], "bytes a vector, in whole cache lines");
    }
}

#[test]
fn readers_search_while_points_are_frozen() {
    let home = Home::new(config_with_graph(DIM, Metric::Cosine));
    let vectors = Numbers(65).vectors(3000, DIM);
    home.upsert(&points(0, &vectors[..1500]));
    home.build_graph();
    home.upsert(&points(1500, &vectors[1500..]));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let freezing = scope.spawn(|| {
            home.build_graph();
            home.collection().set_quantization(Quantization::F32).expect("a write");
            home.build_graph();
            is_done.store(true, Ordering::Release);
        });
        let reading = scope.spawn(|| {
            let mut searches = 0;
            while !is_done.load(Ordering::Acquire) {
                let at = searches % 3000;
                let query = home.query(&vectors[at]);
                assert_eq!(found(&home.snapshot(), &query, 1, 64), [PointId::Number(at as u64)]);
                searches += 1;
            }
            searches
        });
        freezing.join().expect("no panic");
        assert!(reading.join().expect("no panic") > 0);
    });
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(3000));
}

#[test]
fn a_segment_whose_points_are_all_deleted_is_dropped() {
    let mut home = words_in_segments();
    home.delete(100_000..120_001);
    home.build_graph();
    for _ in 0..2 {
        let gallery = home.snapshot().gallery();
        assert_eq!((gallery.points, gallery.dead, gallery.delta), (2100, 0, 0));
        let query = home.query(&wordnet::gallery()[7]);
        assert_eq!(found(&home.snapshot(), &query, 1, 64), [PointId::Number(7)]);
        home.reopen();
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// So many points with ids from here on, some of them there already.
    Upsert(u64, u16),
    Delete(u64, u16),
    Build,
    Freeze,
    Quantize(usize),
    Reopen,
    /// Reopens without one of the files.
    Lose(usize),
    /// Reopens with files of before beside those of now.
    Return,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..3000, 1_u16..1200).prop_map(|(first, count)| Step::Upsert(first, count)),
        3 => (0_u64..3000, 1_u16..900).prop_map(|(first, count)| Step::Delete(first, count)),
        3 => Just(Step::Build),
        1 => Just(Step::Freeze),
        1 => (0..Quantization::ALL.len()).prop_map(Step::Quantize),
        2 => Just(Step::Reopen),
        1 => any::<usize>().prop_map(Step::Lose),
        1 => Just(Step::Return),
    ]
}

/// What a walk with a beam as wide as the collection finds is what a full sort finds.
fn check(home: &Home, wanted: &BTreeMap<u64, Vec<f32>>, numbers: &mut Numbers) {
    let snapshot = home.snapshot();
    assert_eq!(snapshot.len(), wanted.len());
    let gallery = snapshot.gallery();
    assert!(gallery.graph_nodes.is_none() || gallery.segments > 0);
    for _ in 0..2 {
        let query = home.query(&numbers.vector(4));
        let limit = wanted.len().min(20);
        let Some(found) = snapshot.walk(&query, &Variant::raw(), limit, 5000) else { return };
        assert_eq!(bits(&found), bits(&full_sort(&snapshot, &query, &Variant::raw())[..limit]));
        let rows: Vec<u32> = found.iter().map(|candidate| candidate.row).collect();
        for (point, &row) in snapshot.points(&rows).expect("records").iter().zip(&rows) {
            let PointId::Number(id) = point.id else { panic!("ids are numbers: {:?}", point.id) };
            let stored = Vector::new(&wanted[&id], snapshot.config().dim, Metric::Dot).expect("a vector");
            assert_eq!(snapshot.vector(row), stored.as_slice(), "the newest vector of {id}");
        }
    }
}

#[test]
fn any_writes_freezes_and_losses_leave_a_graph_over_the_points_there_are() {
    let config =
        Config { cases: 24, rng_seed: RngSeed::Fixed(66), failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..16), |steps| {
            run(&steps);
            Ok(())
        })
        .expect("every run is right");
}

fn run(steps: &[Step]) {
    let mut home = Home::new(config_with_graph(4, Metric::Dot));
    let mut numbers = Numbers(67);
    let mut wanted = BTreeMap::new();
    let mut older: BTreeMap<std::path::PathBuf, Vec<u8>> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Upsert(first, count) => {
                let vectors = numbers.vectors((*count).into(), 4);
                home.upsert(&points(*first, &vectors));
                wanted.extend((*first..).zip(vectors));
            }
            Step::Delete(first, count) => {
                let gone = *first..*first + u64::from(*count);
                home.delete(gone.clone());
                wanted.retain(|id, _| !gone.contains(id));
            }
            Step::Build => home.build_graph(),
            Step::Freeze => _ = home.collection().freeze().expect("a graph"),
            Step::Quantize(place) => {
                home.collection().set_quantization(Quantization::ALL[*place]).expect("a write");
            }
            Step::Reopen => home.reopen(),
            Step::Lose(which) => {
                let files = home.graph_files();
                home.reopen_after(|| {
                    if let Some(file) = files.get(which % files.len().max(1)) {
                        std::fs::remove_file(file).expect("it is there");
                    }
                });
            }
            Step::Return => home.reopen_after(|| {
                for (file, bytes) in &older {
                    std::fs::write(file, bytes).expect("writable");
                }
            }),
        }
        for file in home.graph_files() {
            older.insert(file.clone(), std::fs::read(&file).expect("it is there"));
        }
        check(&home, &wanted, &mut numbers);
        if matches!(step, Step::Build | Step::Freeze) {
            assert!(!home.collection().is_graph_due());
        }
    }
}

/// Tells the test that it is the child, and where the collection is.
const CHILD_FOLDER: &str = "DEHUB_FREEZE_TEST_CHILD";
const KILLED: &str = "segments::a_process_killed_while_it_freezes_leaves_a_right_graph";
/// Points of one write.
const BATCH: u64 = 150;
/// A child that is not killed stops here, so that a broken test ends.
const WRITES_MAX: u64 = 400;

fn batch(n: u64) -> Vec<Vec<f32>> {
    Numbers(n).vectors(usize::try_from(BATCH).expect("few"), DIM)
}

/// Writes and freezes without an end, and reports each write.
fn write_and_freeze(folder: &Path) {
    let collection = Catalogue::new(folder).get(&name("killed")).expect("it opens");
    let first = collection.snapshot().len() as u64 / BATCH;
    for n in first..WRITES_MAX {
        collection.upsert(&points(n * BATCH, &batch(n))).expect("good points");
        writeln!(stdout(), "\nwritten {}", n + 1).expect("the parent reads");
        // Always freezing, so that it is killed at it.
        collection.freeze().expect("a graph");
    }
    panic!("nobody killed this process");
}

#[test]
fn a_process_killed_while_it_freezes_leaves_a_right_graph() {
    if let Some(folder) = env::var_os(CHILD_FOLDER) {
        return write_and_freeze(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = Catalogue::new(folder.path()).create(&name("killed"), config_with_graph(DIM, Metric::Cosine));
    drop(made.expect("a new collection"));
    let mut killed_after = Numbers(68);
    for round in 0..5 {
        let mut command = Command::new(env::current_exe().expect("this test's program"));
        command.args([KILLED, "--exact", "--nocapture"]).env(CHILD_FOLDER, folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a child");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        for _ in 0..3 {
            lines
                .find(|line| line.as_ref().is_ok_and(|line| line.starts_with("written")))
                .expect("it writes")
                .expect("text");
        }
        std::thread::sleep(Duration::from_millis(killed_after.below(40) as u64));
        child.kill().expect("it runs");
        assert!(!child.wait().expect("it is ours").success());
        let collection = Catalogue::new(folder.path()).get(&name("killed")).expect("it opens after a kill");
        let snapshot = collection.snapshot();
        let writes = snapshot.len() as u64 / BATCH;
        assert_eq!(snapshot.len() as u64, writes * BATCH, "no write is there by half");
        assert!(writes >= 3 * (round + 1));
        for n in 0..writes {
            for (id, vector) in (n * BATCH..).zip(batch(n)).step_by(7) {
                let query = Vector::new(&vector, snapshot.config().dim, Metric::Cosine).expect("a vector");
                assert_eq!(found(&snapshot, &query, 1, 64), [PointId::Number(id)]);
            }
        }
        let files =
            std::fs::read_dir(folder.path().join("collections/killed")).expect("a collection").flatten();
        let names = files.map(|file| file.file_name().into_string().expect("ours are UTF-8"));
        let graphs = names.filter(|name| name.starts_with("graph")).count();
        assert_eq!(graphs, snapshot.gallery().segments, "nothing is left over");
    }
}
