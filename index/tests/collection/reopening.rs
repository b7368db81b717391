//! After any sequence of writes a collection that is closed and opened shows the same, bit for bit.

use dehub_index::{Payload, PointInput};
use dehub_vector::{Metric, PointId};

use crate::dump::dump;
use crate::made::{Home, Numbers, config, config_with_graph, gallery, name, point, points, queries};
use crate::reference::bits;

const DIM: usize = 12;

const LABELS: [&str; 9] = [
    "IS(beta=20)",
    "NNN(alpha=0.3333333333333333,k=4)",
    "DualIS(b1=0.1,b2=1000)",
    "DIS(beta=20,k=2)",
    "DualDIS(b1=20,b2=7.3,k=1)",
    "SN(tau=0.05,n=4)",
    "DBSN(tau=0.05,n=4)",
    "ZScore",
    "DisSimLocal(k=2)",
];

fn described(id: PointId, vector: &[f32], step: usize) -> PointInput {
    let payload = format!(r#"{{"step": {step}, "name": "é\n", "nested": [1.5, null]}}"#);
    PointInput {
        id,
        vector: vector.to_vec().into(),
        named: Vec::new(),
        payload: (!step.is_multiple_of(3)).then(|| Payload::parse(&payload).expect("an object")),
        text: (!step.is_multiple_of(2))
            .then(|| if step % 4 == 1 { String::new() } else { format!("text {step}") }),
    }
}

/// One random write.
fn write(home: &Home, numbers: &mut Numbers, step: usize) {
    let id = |numbers: &mut Numbers| match numbers.below(40) {
        text if text % 4 == 0 => PointId::text(&text.to_string()).expect("short"),
        number => PointId::Number(number as u64),
    };
    match numbers.below(10) {
        0..=3 => {
            let count = 1 + numbers.below(6);
            let mut batch: Vec<PointInput> = Vec::new();
            for _ in 0..count {
                let (id, vector) = (id(numbers), numbers.vector(DIM));
                if batch.iter().all(|point| point.id != id) {
                    batch.push(described(id, &vector, step));
                }
            }
            home.upsert(&batch);
        }
        4 | 5 => {
            let gone = [id(numbers), id(numbers), id(numbers)];
            home.collection().delete(&gone).expect("a delete");
        }
        6 => home.add(&queries("queries", &numbers.vectors(1 + step % 3, DIM))),
        7 => home.add(&gallery("gallery", 1000 + 10 * step as u64, &numbers.vectors(1 + step % 3, DIM))),
        8 => {
            let label = LABELS[numbers.below(LABELS.len())];
            match home.snapshot().correction(label).is_some() {
                true => home.collection().drop_correction(&name(label)).expect("it exists"),
                false => home.fit(&[label]),
            }
        }
        _ => {
            // A bank of its own, with points as entries, that comes and goes.
            let aside = name(&format!("aside-{}", step % 3));
            match home.snapshot().bank(aside.as_str()).is_some() {
                true => home.collection().drop_bank(&aside).expect("no correction uses it"),
                false => _ = home.collection().bank_from_gallery(&aside).expect("a bank"),
            }
        }
    }
}

fn started(metric: Metric, numbers: &mut Numbers) -> Home {
    let home = Home::new(config(DIM, metric));
    home.upsert(&points(100, &numbers.vectors(8, DIM)));
    home.add(&queries("queries", &numbers.vectors(8, DIM)));
    home.add(&gallery("gallery", 100, &numbers.vectors(4, DIM)));
    home.fit(&LABELS);
    home
}

#[test]
fn everything_is_the_same_after_reopening() {
    for (metric, seed) in [(Metric::Cosine, 1), (Metric::Dot, 2), (Metric::Euclidean, 3), (Metric::Cosine, 4)]
    {
        let mut numbers = Numbers(seed);
        let mut home = started(metric, &mut numbers);
        for step in 0..60 {
            write(&home, &mut numbers, step);
            if step % 6 == 5 {
                let before = dump(&home.snapshot());
                home.reopen();
                assert_eq!(dump(&home.snapshot()), before, "{metric}, seed {seed}, step {step}");
            }
        }
    }
}

/// Two collections that are written alike, one of them reopened all the time.
#[test]
fn writes_after_reopening_do_what_they_would_have_done_before() {
    let (mut left, mut right) = (Numbers(5), Numbers(5));
    let (kept, mut reopened) = (started(Metric::Cosine, &mut left), started(Metric::Cosine, &mut right));
    for step in 0..40 {
        write(&kept, &mut left, step);
        write(&reopened, &mut right, step);
        reopened.reopen();
        assert_eq!(dump(&reopened.snapshot()), dump(&kept.snapshot()), "step {step}");
    }
}

#[test]
fn an_empty_collection_reopens_empty() {
    let mut home = Home::new(config(DIM, Metric::Dot));
    home.reopen();
    let snapshot = home.snapshot();
    assert_eq!((snapshot.len(), snapshot.sequence(), snapshot.row_count()), (0, 0, 0));
    drop(snapshot);
    home.upsert(&[point(1, &[1.0; DIM])]);
    home.delete([1]);
    home.reopen();
    assert_eq!((home.snapshot().len(), home.snapshot().sequence(), home.snapshot().row_count()), (0, 2, 1));
}

/// Walks go over deleted points and score copies, whatever row of theirs is left.
#[test]
fn walks_are_the_same_after_reopening() {
    for (metric, seed) in [(Metric::Cosine, 6), (Metric::Dot, 7), (Metric::Euclidean, 8)] {
        let mut numbers = Numbers(seed);
        let mut home = Home::new(config_with_graph(DIM, metric));
        let mut vectors = numbers.vectors(300, DIM);
        (200..300).for_each(|row| vectors[row] = vectors[row - 200].clone());
        home.upsert(&points(0, &vectors));
        home.add(&queries("queries", &numbers.vectors(30, DIM)));
        home.fit(&["IS(beta=20)"]);
        home.build_graph();
        home.delete((0..150).chain(260..300));
        home.upsert(&points(500, &numbers.vectors(20, DIM)));
        let asked = numbers.vectors(20, DIM);
        let answers = |home: &Home| -> Vec<_> {
            let snapshot = home.snapshot();
            let is = snapshot.correction("IS(beta=20)").expect("fitted").variant(&[true], 1.0);
            let walk = |vector: &Vec<f32>| {
                let query = home.query(vector);
                let raw = snapshot.walk(&query, &dehub_index::Variant::raw(), 10, 64).expect("a graph");
                (bits(&raw), bits(&snapshot.walk(&query, &is, 10, 64).expect("a graph")))
            };
            asked.iter().map(walk).collect()
        };
        let (before, gallery) = (answers(&home), home.snapshot().gallery());
        home.reopen();
        assert_eq!(home.snapshot().gallery(), gallery);
        assert_eq!(answers(&home), before, "{metric}");
        // The next graph is over what there is, and reopens as well.
        home.upsert(&points(1000, &numbers.vectors(1100, DIM)));
        home.build_graph();
        let (before, gallery) = (answers(&home), home.snapshot().gallery());
        assert_eq!(gallery.delta, 0);
        home.reopen();
        assert_eq!(home.snapshot().gallery(), gallery);
        assert_eq!(answers(&home), before, "{metric}");
    }
}

#[test]
fn a_snapshot_shows_what_it_showed_while_writes_go_on() {
    let mut numbers = Numbers(9);
    let home = started(Metric::Cosine, &mut numbers);
    let held: Vec<_> = (0..20)
        .map(|step| {
            write(&home, &mut numbers, step);
            let snapshot = home.snapshot();
            let seen = dump(&snapshot);
            (snapshot, seen)
        })
        .collect();
    for (snapshot, seen) in held {
        assert_eq!(dump(&snapshot), seen);
    }
}

#[test]
fn writers_of_many_threads_are_put_in_one_order() {
    let home = Home::new(config(DIM, Metric::Cosine));
    let write = |writer: u64| -> Vec<u64> {
        let mut numbers = Numbers(writer);
        let mut sequences = Vec::new();
        for step in 0..15 {
            let id = 1000 * writer + step;
            let receipt = home.collection().upsert(&[point(id, &numbers.vector(DIM))]).expect("a good point");
            let seen = home.snapshot();
            assert!(seen.sequence() >= receipt.sequence, "what is acknowledged is published");
            assert!(seen.find(&PointId::Number(id)).expect("ids are whole").is_some());
            sequences.push(receipt.sequence);
        }
        sequences
    };
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (1..=60).collect::<Vec<_>>());
    assert_eq!(home.snapshot().len(), 60);
}
